//! Shells accept the generated completions, and formatters report no errors in the pages. Programs that are
//! not installed are skipped.

use std::path::Path;
use std::process::{Command, Output};

use memfold_args::top::columns;

use super::*;

/// The output of a program, if it is installed.
fn run(words: &[&str], home: &Path) -> Option<Output> {
    let output = Command::new(words[0]).args(&words[1..]).env("HOME", home).env("LC_ALL", "C.UTF-8").output();
    if output.is_err() {
        eprintln!("skipped: no {}", words[0]);
    }
    output.ok()
}

#[test]
fn shells_complete() {
    let scratch = tempfile::tempdir().unwrap();
    write(scratch.path()).unwrap();
    let place = scratch.path().to_str().unwrap();
    let bash = format!(
        "source {place}/bash-completion/completions/memfold
        complete -p memfold >/dev/null || exit 1
        for last in --ex d --sort; do
            COMP_WORDS=(memfold du $last) COMP_CWORD=2
            [ $last = d ] && COMP_WORDS=(memfold d) COMP_CWORD=1
            _memfold memfold $last ${{COMP_WORDS[COMP_CWORD - 1]}}
            printf '%s\\n' \"${{COMPREPLY[@]}}\"
        done"
    );
    let fish = format!(
        "source {place}/fish/vendor_completions.d/memfold.fish
        for line in 'memfold du --ex' 'memfold d' 'memfold du --sort'
            complete -C $line
        end"
    );
    for shell in [["bash", "--norc", "-c", &bash], ["fish", "--no-config", "-c", &fish]] {
        let Some(output) = run(&shell, scratch.path()) else { continue };
        let text = String::from_utf8(output.stdout).unwrap();
        let mut words: Vec<_> = text.lines().filter_map(|line| line.split('\t').next()).collect();
        words.sort_unstable();
        let all = [
            "--exclude",
            "--exclude-caches",
            "--exclude-from",
            "--exclude-kernfs",
            "--export",
            "--extended",
            "--sort",
            "disk",
            "doctor",
            "du",
        ];
        assert_eq!(words, all, "{shell:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let zsh = format!("{place}/zsh/site-functions/_memfold");
    assert!(run(&["zsh", "-f", "-n", &zsh], scratch.path()).is_none_or(|output| output.status.success()));
    assert!(std::fs::read_to_string(zsh).unwrap().starts_with("#compdef memfold\n"));
}

#[test]
fn formatters_find_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    write(scratch.path()).unwrap();
    for (name, _) in pages::all() {
        let page = scratch.path().join(format!("man/man1/{name}.1"));
        let page = page.to_str().unwrap();
        if let Some(output) = run(&["groff", "-ww", "-man", "-Tutf8", "-z", page], scratch.path()) {
            let said = String::from_utf8_lossy(&output.stderr);
            // A minimal groff lacks the output device.
            assert!(said.is_empty() || said.contains("DESC"), "{said}");
        }
        if let Some(output) = run(&["mandoc", "-Tlint", "-Wwarning", page], scratch.path()) {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            // The pages have no date, because it would change with every build.
            let matters = said.lines().filter(|line| !line.contains("missing date"));
            assert_eq!(matters.collect::<Vec<_>>(), Vec::<&str>::new(), "{name}");
        }
    }
}

#[test]
fn the_page_of_du_has_all_of_help() {
    let pages = pages::all();
    let page = pages.iter().find(|(name, _)| name == "memfold-du").unwrap();
    let text = String::from_utf8(page.1.clone()).unwrap();
    for tab in ["Keys", "Format"] {
        let tab = help::TABS.iter().position(|name| *name == tab).unwrap();
        for (thing, meaning) in help::lines(tab).iter().filter(|(thing, _)| !thing.is_empty()) {
            let thing = thing.replace('-', r"\-");
            let meaning = meaning.replace('-', r"\-");
            assert!(text.contains(&format!("\\fB{thing}\\fR\n{meaning}\n")), "{thing}");
        }
    }
    // Options that help omits are present, and options for tests are not.
    assert!(text.contains("\\-\\-hide\\-itemcount"));
    assert!(pages.iter().all(|(_, page)| !String::from_utf8_lossy(page).contains("paranoid")));
}

#[test]
fn the_page_of_top_has_all_definitions() {
    let pages = pages::all();
    let page = pages.iter().find(|(name, _)| name == "memfold-top").unwrap();
    let text = String::from_utf8(page.1.clone()).unwrap();
    let columns = columns::COLUMNS.iter().map(|column| (column.title, column.definition));
    let all = columns.chain(columns::TREE).chain(columns::BELOW);
    let all = all.chain(columns::KEYS).chain(columns::CHANGES);
    for (thing, meaning) in all {
        let roff = |text: &str| text.replace('-', r"\-").replace('\'', r"\(aq");
        assert!(text.contains(&format!("\\fB{}\\fR\n{}\n", roff(thing), roff(meaning))), "{thing}");
    }
    assert!(!text.contains("\n@"));
}
