//! The browser of `memfold du` in a terminal: the effects of keys on the screen and on files.

mod deleting;
mod looks;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::common::{MEMFOLD, file, is_root};
use super::terminal::{self, DOWN, ENTER, HOME, LEFT, LONG, RIGHT, Terminal};

/// `memfold du` in a terminal of twelve lines.
fn start(arguments: &[&str], path: &Path, variables: &[(&str, &Path)]) -> Terminal {
    let mut command = terminal::command(MEMFOLD);
    command.args(["du", "--ignore-config"]);
    command.args(arguments);
    command.arg(path);
    for (name, value) in variables {
        command.env(name, value);
    }
    Terminal::new(command, 12, 80)
}

/// The same, with options that make screens independent of the file system: apparent sizes instead of disk
/// usage.
fn open(arguments: &[&str], path: &Path) -> Terminal {
    open_with(arguments, path, &[])
}

fn open_with(arguments: &[&str], path: &Path, variables: &[(&str, &Path)]) -> Terminal {
    let alike = ["--apparent-size", "--sort=name", "--hide-graph"];
    let mut terminal = start(&[&alike, arguments].concat(), path, variables);
    terminal.has("  Items: ");
    terminal
}

/// Selects an entry that is on the screen.
#[track_caller]
fn select(terminal: &mut Terminal, name: &str) {
    let is_there = |line: &String| line.ends_with(&format!(" {name}")) || line.ends_with(&format!("/{name}"));
    terminal.wait(name, |lines| lines.iter().skip(2).any(is_there));
    let line = terminal.lines().iter().skip(2).position(is_there).unwrap();
    terminal.press(&[HOME, &DOWN.repeat(line)].concat());
    terminal.until(name, |screen| screen.cell(line as u16 + 2, 0).unwrap().inverse());
}

/// Deletes an entry, and confirms.
#[track_caller]
fn delete(terminal: &mut Terminal, name: &str) {
    select(terminal, name);
    terminal.press("d");
    terminal.has("Are you sure you want to delete");
    terminal.has(&format!("\"{name}\""));
    terminal.press(&[LEFT, ENTER].concat());
    terminal.has_no("Are you sure");
}

/// Waits for a message, which may span several lines, and dismisses it.
#[track_caller]
fn message(terminal: &mut Terminal, text: &str) {
    terminal.has("Press any key to go on");
    terminal.wait(text, |lines| {
        let inside: Vec<_> =
            lines.iter().filter_map(|line| Some(line.split_once('│')?.1.split_once('│')?.0.trim())).collect();
        inside.join(" ").contains(text)
    });
    terminal.press(" ");
    terminal.has_no("Press any key to go on");
}

/// A size in the format of the browser.
fn kib(bytes: u64) -> String {
    format!("{:5.1} KiB", bytes as f64 / 1024.0)
}

fn len(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().len()
}

/// All paths below one, with kinds and lengths.
fn everything(at: &Path) -> Vec<String> {
    let output = Command::new("find").arg(at).args(["-printf", "%P %y %s %n\\0"]).output().unwrap();
    let mut all: Vec<_> =
        output.stdout.split(|byte| *byte == 0).map(|path| path.escape_ascii().to_string()).collect();
    all.sort();
    all
}

fn scratch() -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("tree");
    let file = |name: &[u8], size: usize| {
        let path = root.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![0; size]).unwrap();
    };
    file(b"docs/a10", 20_000);
    file(b"docs/a9", 30_000);
    file(b"docs/deep/er/f", 40_000);
    file(b"odd\nname", 50_000);
    file(b"odd\xff", 60_000);
    file("文件".as_bytes(), 70_000);
    file(b"zz", 300_000);
    fs::hard_link(root.join("zz"), root.join("docs/zz too")).unwrap();
    symlink("zz", root.join("link")).unwrap();
    (scratch, root)
}

#[test]
fn the_first_screen_is_as_it_should_be() {
    let (_scratch, root) = scratch();
    let mut terminal = start(&["--apparent-size"], &root, &[]);
    terminal.has("  Items: 12");
    let directories: u64 =
        ["docs", "docs/deep", "docs/deep/er"].iter().map(|name| len(&root.join(name))).sum();
    let docs = 390_000 + directories;
    let all = docs + 180_002 + len(&root);
    let output = Command::new("du").args(["-s", "-B1"]).arg(&root).output().unwrap();
    let disk = String::from_utf8(output.stdout).unwrap().split('\t').next().unwrap().parse().unwrap();
    let path = root.to_str().unwrap();
    let expected = [
        String::from("memfold du ~ Use the arrow keys to navigate, press ? for help"),
        format!("--- {path} {}", "-".repeat(75 - path.len())),
        format!("  {} [###########] /docs", kib(docs)),
        String::from("H 293.0 KiB [########   ]  zz"),
        String::from("   68.4 KiB [#          ]  文件"),
        String::from("   58.6 KiB [#          ]  odd\\xff"),
        String::from("   48.8 KiB [#          ]  odd\\nname"),
        String::from("@   2.0   B [           ]  link"),
        String::new(),
        String::new(),
        String::new(),
        format!(" Total disk usage: {}  Apparent size: {}  Items: 12", kib(disk), kib(all)),
    ];
    assert_eq!(terminal.lines(), expected);
    let screen = terminal.screen();
    assert!(screen.cell(2, 0).unwrap().inverse() && !screen.cell(3, 0).unwrap().inverse());
    terminal.quit();
}

#[test]
fn directories_are_entered_and_left() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&[], &root);
    select(&mut terminal, "docs");
    terminal.press(&[DOWN, "k", ENTER].concat());
    terminal.has("/..");
    let lines = terminal.lines();
    assert_eq!(lines[2..5], ["            /..", "   29.3 KiB  a9", "   19.5 KiB  a10"]);
    assert!(lines[1].contains("/tree/docs -"), "{}", lines[1]);
    assert_eq!(lines[6], "H 293.0 KiB  zz too");
    // The entry for the parent is selected, as in ncdu, and cannot be deleted.
    terminal.until("/.. is selected", |screen| screen.cell(2, 0).unwrap().inverse());
    terminal.press("d?");
    terminal.has("Move up");
    assert!(!terminal.lines().iter().any(|line| line.contains("Are you sure")));
    terminal.press("q");
    terminal.has_no("Move up");
    select(&mut terminal, "deep");
    terminal.press(RIGHT);
    terminal.has("/er");
    terminal.press(&[DOWN, "l"].concat());
    terminal.has("39.1 KiB  f");
    // A file cannot be entered.
    terminal.press(&[DOWN, ENTER, RIGHT].concat());
    terminal.press(&[LEFT, "h"].concat());
    terminal.wait("back", |lines| lines[1].contains("/tree/docs -"));
    // The selection is where it was.
    terminal.until("deep is selected", |screen| screen.cell(5, 0).unwrap().inverse());
    terminal.press(&[HOME, ENTER].concat());
    terminal.has("文件");
    // The root has no parent.
    terminal.press(&["<", DOWN].concat());
    terminal.until("the second is selected", |screen| screen.cell(3, 0).unwrap().inverse());
    terminal.quit();
}

#[test]
fn the_order_is_by_name_size_or_items() {
    let (_scratch, root) = scratch();
    fs::create_dir(root.join("empty")).unwrap();
    for number in 0..9 {
        fs::create_dir_all(root.join(format!("many/{number}"))).unwrap();
    }
    let mut terminal = open(&[], &root);
    terminal.resize(14, 120);
    let mut order = |key: &str, sort: &str| {
        terminal.press(key);
        terminal.wait(sort, |lines| lines[13].ends_with(&format!(" Sort: {sort}")));
        let name = |line: &String| line.rsplit([' ', '/']).next().unwrap().to_string();
        terminal.lines()[2..10].iter().map(name).collect::<Vec<_>>()
    };
    let [docs, empty, link, many] = ["docs", "empty", "link", "many"];
    let [line, xff, file, zz] = ["odd\\nname", "odd\\xff", "文件", "zz"];
    let names = [docs, empty, link, many, line, xff, zz, file];
    assert_eq!(order("", "name, ascending"), names);
    assert_eq!(order("n", "name, descending"), names.map(String::from).into_iter().rev().collect::<Vec<_>>());
    // The file system decides the sizes of directories.
    let many_len: u64 = (0..9).map(|number| len(&root.join(format!("many/{number}")))).sum();
    let mut sizes =
        vec![(390_000, docs), (300_000, zz), (70_000, file), (60_000, xff), (50_000, line), (2, link)];
    sizes.extend([(len(&root.join(empty)), empty), (many_len + len(&root.join(many)), many)]);
    sizes.sort();
    let names: Vec<_> = sizes.iter().map(|(_, name)| *name).collect();
    let down: Vec<_> = names.iter().rev().copied().collect();
    assert_eq!(order("s", "apparent size, descending"), down);
    assert_eq!(order("s", "apparent size, ascending"), names);
    // Entries without items are sorted by size.
    assert_eq!(order("C", "items, descending")[..2], [many, docs]);
    assert_eq!(order("C", "items, ascending")[6..], [docs, many]);
    assert_eq!(order("nt", "directories, name, ascending"), [docs, empty, many, link, line, xff, zz, file]);
    terminal.quit();
}

#[test]
fn windows_say_all_about_an_entry() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&["-e"], &root);
    select(&mut terminal, "zz");
    terminal.press("i");
    terminal.has("Name: zz ");
    terminal.has("Mode: -rw");
    terminal.has("Apparent size: 293.0 KiB (300,000 B)");
    terminal.press("2");
    terminal.has("2 of 2 names are here");
    let path = root.display().to_string();
    terminal.has(&format!("{path}/zz "));
    terminal.has(&format!("{path}/docs/zz too "));
    // Entering that name opens its directory.
    terminal.press(&[DOWN, ENTER].concat());
    terminal.has_no("names are here");
    terminal.wait("its directory", |lines| lines[1].contains("/tree/docs -"));
    terminal.until("it is selected", |screen| screen.cell(6, 0).unwrap().inverse());
    terminal.press("i");
    terminal.has("Names: 2 (press 2 to see them)");
    terminal.has("Name: zz too ");
    terminal.press("i");
    terminal.has_no("Names: 2");
    terminal.press("?");
    terminal.has("Move up");
    terminal.press("2");
    terminal.has("It could not be read");
    terminal.press("q");
    terminal.has_no("It could not be read");
    terminal.press("m");
    terminal.has(" +0000 ");
    terminal.quit();
}

/// Uses the lowest limit that memfold accepts, plus room for the tree.
#[test]
fn a_refresh_that_does_not_fit_leaves_the_tree_as_shown() {
    let (_scratch, root) = scratch();
    let refused = Command::new(MEMFOLD)
        .args(["du", "--ignore-config", "--json", "--limit", "1"])
        .arg(&root)
        .output()
        .unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    let numbers = said.split(' ').filter_map(|word| word.parse::<u64>().ok());
    let least = numbers.filter(|number| *number > 100_000).max().unwrap();
    // The names below take 1.9 MB, however well the heap compresses them, because half of each is random.
    let mut terminal = open(&["--limit", &(least + (1 << 20)).to_string()], &root);
    let shown = terminal.lines();
    fs::create_dir(root.join("docs/many")).unwrap();
    let mut state = 1_u64;
    for _ in 0..30_000 {
        let mut name = String::new();
        for _ in 0..8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            name += &format!("{:016x}", state ^ state >> 29);
        }
        File::create(root.join("docs/many").join(name)).unwrap();
    }
    for _ in 0..3 {
        terminal.press("r");
        message(&mut terminal, "do not fit into the limit beside the old ones");
        assert_eq!(terminal.lines(), shown);
    }
    fs::remove_dir_all(root.join("docs/many")).unwrap();
    fs::write(root.join("new"), "new").unwrap();
    terminal.press("r");
    terminal.has("Items: 13");
    terminal.quit();
}

#[test]
fn a_shell_runs_in_the_opened_directory() {
    let (scratch, root) = scratch();
    let shell = file(
        scratch.path(),
        "shell",
        "#!/bin/sh\necho \"in $PWD at level $NCDU_LEVEL\"\nread line\necho \"$line\" >said\n",
        0o755,
    );
    let mut terminal = open_with(&[], &root, &[("NCDU_SHELL", &shell), ("SHELL", Path::new("/bin/false"))]);
    select(&mut terminal, "docs");
    terminal.press(ENTER);
    terminal.has("/..");
    terminal.press("b");
    terminal.has(&format!("in {}/docs at level 1", root.display()));
    // The shell has the terminal in its original state.
    assert!(terminal.is_as_before());
    terminal.press("this\n");
    terminal.has("/..");
    assert_eq!(fs::read(root.join("docs/said")).unwrap(), b"this\n");
    // Changes by the shell appear only after a refresh.
    terminal.has("Items: 6");
    terminal.press("r");
    terminal.has("5.0   B  said");
    terminal.quit();

    let nowhere = Path::new("/nowhere/shell");
    let mut terminal = open_with(&[], &root, &[("NCDU_SHELL", nowhere), ("NCDU_LEVEL", Path::new("3"))]);
    terminal.press("b");
    message(&mut terminal, "The shell could not be started: No such file");
    terminal.quit();
}

#[test]
fn trees_from_files_can_be_looked_at_only() {
    let (scratch, root) = scratch();
    let before = everything(&root);
    let mut terminal = open(&[], &root);
    let scanned = terminal.lines();
    terminal.quit();
    for (name, option) in [("export.json", "-o"), ("export.zst", "-co"), ("tree.mfdu", "--save")] {
        let file = scratch.path().join(name);
        let written = Command::new(MEMFOLD)
            .args(["du", "--ignore-config", option])
            .arg(&file)
            .arg(&root)
            .status()
            .unwrap();
        assert!(written.success());
        let mut terminal = open(&["-f"], &file);
        let lines = terminal.lines();
        assert!(lines[0].ends_with("[imported]"), "{name}: {}", lines[0]);
        assert_eq!(lines[1..], scanned[1..], "{name}");
        select(&mut terminal, "docs");
        for (key, says) in [
            ("d", "Deleting is not possible here."),
            ("r", "Refreshing is not possible here."),
            ("b", "A shell is not possible here."),
        ] {
            terminal.press(key);
            message(&mut terminal, says);
        }
        terminal.press(ENTER);
        terminal.has("   29.3 KiB  a9");
        select(&mut terminal, "zz too");
        terminal.press("i2");
        terminal.has("2 of 2 names are here");
        terminal.press("i");
        terminal.has_no("names are here");
        terminal.quit();
        assert_eq!(everything(&root), before);
    }
}

/// The browser then does not read keys from standard input.
#[test]
fn a_tree_may_come_from_standard_input() {
    let (_scratch, root) = scratch();
    let mut command = terminal::command("/bin/sh");
    command.args(["-c", "\"$0\" du -o - \"$1\" | \"$0\" du --ignore-config --apparent-size -f -", MEMFOLD]);
    command.arg(&root);
    let mut terminal = Terminal::new(command, 12, 80);
    terminal.has("Total disk usage");
    select(&mut terminal, "docs");
    terminal.press(ENTER);
    terminal.has("29.3 KiB");
    terminal.quit();
}
