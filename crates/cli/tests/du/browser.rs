//! The browser of `memfold du` in a terminal: what is pressed, what is to be seen then, and what becomes of files.

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

/// The same with what makes screens alike wherever the files are: what they take is up to the file system, what they say to be is not.
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

/// Deletes it, and says yes.
#[track_caller]
fn delete(terminal: &mut Terminal, name: &str) {
    select(terminal, name);
    terminal.press("d");
    terminal.has("Are you sure you want to delete");
    terminal.has(&format!("\"{name}\""));
    terminal.press(&[LEFT, ENTER].concat());
    terminal.has_no("Are you sure");
}

/// Waits for a message, which may be in several lines, and lets it go.
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

/// A size as it is shown.
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
    // What leads up is selected, as in ncdu, and can't be deleted.
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
    // A file is no directory.
    terminal.press(&[DOWN, ENTER, RIGHT].concat());
    terminal.press(&[LEFT, "h"].concat());
    terminal.wait("back", |lines| lines[1].contains("/tree/docs -"));
    // Where it was left.
    terminal.until("deep is selected", |screen| screen.cell(5, 0).unwrap().inverse());
    terminal.press(&[HOME, ENTER].concat());
    terminal.has("文件");
    // There is nothing above.
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
    // Directories are as large as their file system says.
    let many_len: u64 = (0..9).map(|number| len(&root.join(format!("many/{number}")))).sum();
    let mut sizes =
        vec![(390_000, docs), (300_000, zz), (70_000, file), (60_000, xff), (50_000, line), (2, link)];
    sizes.extend([(len(&root.join(empty)), empty), (many_len + len(&root.join(many)), many)]);
    sizes.sort();
    let names: Vec<_> = sizes.iter().map(|(_, name)| *name).collect();
    let down: Vec<_> = names.iter().rev().copied().collect();
    assert_eq!(order("s", "apparent size, descending"), down);
    assert_eq!(order("s", "apparent size, ascending"), names);
    // What has no items is in the order of what it takes.
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
    // That name is opened where it is.
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

#[test]
fn what_is_deleted_is_gone_and_nothing_else() {
    let (scratch, root) = scratch();
    let outside = scratch.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "precious").unwrap();
    symlink("../../outside", root.join("docs/a directory")).unwrap();
    symlink("../../outside/precious", root.join("docs/a file")).unwrap();
    symlink("../outside", root.join("outwards")).unwrap();
    let before = everything(&root);
    let mut terminal = open(&[], &root);

    // Not unless the answer is yes, which is not what is selected at first.
    for keys in ["\r", "q", "n", "\x1b[C\x1b[D\r"] {
        select(&mut terminal, "odd\\xff");
        terminal.press("d");
        terminal.has("Are you sure you want to delete");
        terminal.has("\"odd\\xff\"");
        terminal.press(keys);
        terminal.has_no("Are you sure");
        assert_eq!(everything(&root), before, "{keys:?}");
    }

    delete(&mut terminal, "odd\\xff");
    terminal.wait("it is gone", |lines| lines[2..].iter().all(|line| !line.contains("xff")));
    terminal.has("Items: 14");
    assert!(!root.join(OsStr::from_bytes(b"odd\xff")).exists());
    assert!(root.join("odd\nname").exists());

    // A link is deleted itself.
    delete(&mut terminal, "outwards");
    terminal.has("Items: 13");
    assert!(fs::symlink_metadata(root.join("outwards")).is_err());

    select(&mut terminal, "docs");
    terminal.press("d");
    terminal.has("and all of its contents?");
    terminal.press("q");
    terminal.has_no("and all of its contents?");
    delete(&mut terminal, "docs");
    terminal.has("Items: 4");
    terminal.has_no("/docs");
    assert!(!root.join("docs").exists());
    assert_eq!(fs::read(outside.join("precious")).unwrap(), b"precious");
    assert_eq!(everything(&outside).len(), 3, "{:?}", everything(&outside));
    // The file has another name, and as the only one now it is not marked.
    assert_eq!(fs::metadata(root.join("zz")).unwrap().nlink(), 1);
    terminal.quit();
}

#[test]
fn it_is_asked_once_if_that_is_wanted() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&[], &root);
    select(&mut terminal, "odd\\nname");
    terminal.press(&["d", RIGHT, ENTER].concat());
    terminal.has("Items: 11");
    select(&mut terminal, "odd\\xff");
    terminal.press("d");
    terminal.has("Items: 10");
    assert!(!root.join("odd\nname").exists() && !root.join(OsStr::from_bytes(b"odd\xff")).exists());
    terminal.quit();
    // Or never.
    let mut terminal = open(&["--no-confirm-delete"], &root);
    select(&mut terminal, "docs");
    terminal.press("d");
    terminal.has("Items: 3");
    assert!(!root.join("docs").exists());
    terminal.quit();
}

#[test]
fn what_is_new_is_neither_deleted_nor_forgotten() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&[], &root);
    fs::write(root.join("docs/deep/new"), "new").unwrap();
    let before = everything(&root);
    delete(&mut terminal, "docs");
    message(&mut terminal, "docs/deep holds something that was not shown");
    assert_eq!(everything(&root), before);
    // Once more: it was not read again unasked.
    delete(&mut terminal, "docs");
    message(&mut terminal, "docs/deep holds something that was not shown");
    assert_eq!(everything(&root), before);
    terminal.has("Items: 12");
    terminal.press("r");
    terminal.has("Items: 13");
    select(&mut terminal, "docs");
    terminal.press(ENTER);
    select(&mut terminal, "deep");
    terminal.press(ENTER);
    terminal.has("3.0   B  new");

    // What has changed is not what was shown.
    fs::write(root.join("docs/deep/new"), "longer").unwrap();
    let before = everything(&root);
    delete(&mut terminal, "new");
    message(&mut terminal, "docs/deep/new has changed since it was read");
    assert_eq!(everything(&root), before);
    terminal.press("r");
    terminal.has("6.0   B  new");
    delete(&mut terminal, "new");
    terminal.has_no("  new");
    assert!(!root.join("docs/deep/new").exists());
    terminal.press(&[LEFT, LEFT].concat());
    delete(&mut terminal, "docs");
    terminal.has("Items: 5");
    assert!(!root.join("docs").exists());
    terminal.quit();
}

/// With the least limit that memfold takes, and room for the tree.
#[test]
fn what_does_not_fit_when_it_is_read_again_leaves_what_was_shown() {
    let (_scratch, root) = scratch();
    let refused = Command::new(MEMFOLD)
        .args(["du", "--ignore-config", "--json", "--limit", "1"])
        .arg(&root)
        .output()
        .unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    let numbers = said.split(' ').filter_map(|word| word.parse::<u64>().ok());
    let least = numbers.filter(|number| *number > 100_000).max().unwrap();
    // The names below take 1.9 MB, however well the heap is packed: half of each is random.
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
        message(&mut terminal, "does not fit into the limit beside what is shown");
        assert_eq!(terminal.lines(), shown);
    }
    fs::remove_dir_all(root.join("docs/many")).unwrap();
    fs::write(root.join("new"), "new").unwrap();
    terminal.press("r");
    terminal.has("Items: 13");
    terminal.quit();
}

#[test]
fn another_directory_in_the_place_of_the_root_is_left_alone() {
    let (scratch, root) = scratch();
    let other = scratch.path().join("other");
    assert!(Command::new("cp").arg("-a").arg(&root).arg(&other).status().unwrap().success());
    let mut terminal = open(&[], &root);
    fs::rename(&root, scratch.path().join("moved")).unwrap();
    symlink("other", &root).unwrap();
    let before = everything(scratch.path());
    for name in ["docs", "link"] {
        delete(&mut terminal, name);
        message(&mut terminal, "is not the directory that was scanned");
    }
    terminal.press("r");
    message(&mut terminal, "is not the directory that was scanned");
    fs::remove_file(&root).unwrap();
    terminal.press("r");
    message(&mut terminal, "/tree: No such file or directory");
    terminal.has("Items: 12");
    symlink("other", &root).unwrap();
    assert_eq!(everything(scratch.path()), before);
    fs::remove_file(&root).unwrap();
    fs::rename(scratch.path().join("moved"), &root).unwrap();
    delete(&mut terminal, "docs");
    terminal.has("Items: 5");
    terminal.quit();
}

/// Makes that nobody can delete what is in a directory; whether that is possible here.
fn keep(directory: &Path, keeps: bool) -> bool {
    let mut command = Command::new(if is_root() { "chattr" } else { "chmod" });
    let option = match (is_root(), keeps) {
        (true, true) => "+i",
        (true, false) => "-i",
        (false, true) => "a-w",
        (false, false) => "u+w",
    };
    command.arg(option).arg(directory).status().is_ok_and(|status| status.success())
}

/// Makes that all can be deleted again, however the test ends.
struct Kept(PathBuf);

impl Drop for Kept {
    fn drop(&mut self) {
        keep(&self.0, false);
    }
}

#[test]
fn what_cannot_be_deleted_stays_if_that_is_ignored() {
    let (_scratch, root) = scratch();
    let kept = root.join("docs/deep/er");
    fs::write(kept.join("g"), "g").unwrap();
    let mut terminal = open(&["-e"], &root);
    if !keep(&kept, true) {
        eprintln!("skipped, since what root may not delete is not possible here");
        return;
    }
    let kept_so = Kept(kept.clone());
    let before = everything(&root);
    // To stop is what is selected at first; files that come before are gone then.
    delete(&mut terminal, "docs");
    terminal.has(" stop   ignore   ignore all ");
    terminal.has("er/f: ");
    terminal.press(ENTER);
    message(&mut terminal, "what was deleted before stays deleted");
    terminal.has("Items: 10");
    assert_eq!(everything(&root).len(), before.len() - 3);
    // With nothing deleted, nobody has to be told.
    delete(&mut terminal, "docs");
    terminal.has("er/f: ");
    terminal.press("q");
    terminal.has_no(" ignore all ");
    // One after the other, and all of them.
    delete(&mut terminal, "docs");
    terminal.has("er/f: ");
    terminal.press(&[RIGHT, ENTER].concat());
    terminal.has("er/g: ");
    terminal.press(&[RIGHT, RIGHT, ENTER].concat());
    terminal.has_no(" ignore all ");
    terminal.has("Items: 10");
    fs::write(root.join("docs/new"), "new").unwrap();
    terminal.press("r");
    terminal.has("Items: 11");
    delete(&mut terminal, "docs");
    terminal.has("er/f: ");
    terminal.press(&[RIGHT, RIGHT, ENTER].concat());
    terminal.has("Items: 10");
    assert!(!root.join("docs/new").exists() && kept.join("f").exists() && kept.join("g").exists());
    terminal.has_no(" ignore all ");
    drop(kept_so);
    delete(&mut terminal, "docs");
    terminal.has("Items: 5");
    assert!(!root.join("docs").exists());
    terminal.quit();
}

#[test]
fn nothing_is_deleted_where_that_is_switched_off() {
    let (_scratch, root) = scratch();
    let before = everything(&root);
    for options in [&["-r"][..], &["--disable-delete"], &["-rr"]] {
        let mut terminal = open(options, &root);
        select(&mut terminal, "zz");
        terminal.press("d");
        message(&mut terminal, "Deleting is switched off (-r or --disable-delete).");
        if options == ["-rr"] {
            terminal.press("b");
            message(&mut terminal, "The shell is switched off (-rr or --disable-shell).");
        }
        terminal.quit();
        assert_eq!(everything(&root), before);
    }
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
    // It has the terminal as it was before.
    assert!(terminal.is_as_before());
    terminal.press("this\n");
    terminal.has("/..");
    assert_eq!(fs::read(root.join("docs/said")).unwrap(), b"this\n");
    // What it did is not shown unasked.
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

/// Keys are not what is read then.
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

#[test]
fn another_size_is_another_screen() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&[], &root);
    terminal.resize(5, 20);
    terminal.wait("a small screen", |lines| {
        let expected = ["memfold du ~ Use the", "@   2.0   B  link"];
        [&*lines[0], &*lines[3]] == expected && lines[4].contains("KiB")
    });
    // A question has its answers on the smallest.
    select(&mut terminal, "link");
    terminal.press("d");
    terminal.has(" yes   no ");
    terminal.press("n");
    terminal.has_no(" yes   no ");
    // Windows of all kinds where there is no room for them.
    for (rows, cols) in [(1, 1), (2, 3), (3, 200), (200, 10), (12, 80)] {
        terminal.resize(rows, cols);
        terminal.press("iii2i??3?dn");
    }
    terminal.wait("the first screen", |lines| {
        lines[0].ends_with("press ? for help") && lines[11].starts_with(" Total disk usage: ")
    });
    terminal.quit();
}

#[test]
fn nothing_is_deleted_unseen() {
    let (_scratch, root) = scratch();
    let before = everything(&root);
    let mut terminal = open(&[], &root);
    select(&mut terminal, "zz");
    for (rows, cols) in [(1, 40), (1, 24), (2, 40), (2, 14), (3, 14), (4, 18), (12, 14)] {
        terminal.resize(rows, cols);
        terminal.press("d");
        // The name, and what would be done: on a line of its own, or all in one.
        terminal.wait(&format!("{rows} lines of {cols}"), |lines| {
            lines.iter().any(|line| line.contains("\"zz\"")) && lines.iter().any(|line| line.contains(" no"))
        });
        terminal.press(LEFT);
        terminal.wait(&format!("{rows} lines of {cols}"), |lines| {
            lines.iter().any(|line| line.contains("\"zz\"")) && lines.iter().any(|line| line.contains(" yes"))
        });
        terminal.press("q");
        terminal.has_no("\"zz\"");
    }
    assert_eq!(everything(&root), before);
    terminal.resize(12, 80);
    terminal.has("/docs");
    terminal.quit();
}

#[test]
fn what_is_no_terminal_to_draw_on_is_refused() {
    let (_scratch, root) = scratch();
    for (term, says) in [("dumb", "TERM says that it is 'dumb'"), ("", "TERM does not say what it is")] {
        let mut terminal = start(&[], &root, &[("TERM", Path::new(term))]);
        assert_eq!(terminal.end().exit_code(), 125);
        terminal.has(&format!("memfold: the terminal can't be used: {says}"));
        // What is printed needs nothing of it.
        let mut terminal = start(&["--depth", "0"], &root, &[("TERM", Path::new(term))]);
        assert!(terminal.end().success());
    }
}

/// They come at the same time often enough.
#[test]
fn no_key_is_lost_when_the_size_changes() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&[], &root);
    for turn in 0..200 {
        let cols = 100 + turn % 2;
        // Now the one comes first, now the other.
        if turn % 3 == 0 {
            terminal.press("n");
        }
        terminal.resize(12, cols);
        if turn % 3 != 0 {
            terminal.press("n");
        }
        let way = if turn % 2 == 0 { "descending" } else { "ascending" };
        terminal.wait(&format!("turn {turn}, {way}"), |lines| {
            lines[1].chars().count() == usize::from(cols)
                && lines[11].ends_with(&format!(" Sort: name, {way}"))
        });
    }
    terminal.quit();
}

/// Any colour, or only those that the terminal has anyway.
fn has_colours(terminal: &Terminal) -> bool {
    let screen = terminal.screen();
    let (rows, cols) = screen.size();
    let mut cells = (0..u16::from(rows)).flat_map(|row| (0..u16::from(cols)).map(move |col| (row, col)));
    cells.any(|(row, col)| {
        let cell = screen.cell(row, col).unwrap();
        (cell.fgcolor(), cell.bgcolor()) != (vt100::Color::Default, vt100::Color::Default)
    })
}

/// The codes of all sequences that set colours and attributes.
fn looks(terminal: &Terminal) -> Vec<u32> {
    let text = String::from_utf8_lossy(terminal.bytes()).into_owned();
    let sequences = text.split("\x1b[").skip(1).filter_map(|rest| {
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != ';')?;
        rest[end..].starts_with('m').then(|| rest[..end].to_owned())
    });
    sequences
        .flat_map(|codes| codes.split(';').map(|code| code.parse().unwrap_or(0)).collect::<Vec<_>>())
        .collect()
}

/// Terminals that know eight colours take `38;5;1` apart: 5 blinks, and 1 is bold.
#[test]
fn colours_are_those_that_each_terminal_has() {
    let (_scratch, root) = scratch();
    for (term, more, has) in [
        ("linux", "", true),
        ("xterm", "", true),
        ("xterm-16color", "", true),
        ("xterm-256color", "truecolor", true),
        ("no-such-terminal", "", true),
        ("vt100", "", false),
        ("vt100", "truecolor", true),
    ] {
        let is_known = term != "vt100"
            || Path::new("/lib/terminfo/v/vt100").exists()
            || Path::new("/usr/share/terminfo/v/vt100").exists();
        if !is_known {
            eprintln!("skipped: nothing is known of {term}");
            continue;
        }
        let variables = [("NO_COLOR", ""), ("TERM", term), ("COLORTERM", more)];
        let variables = variables.map(|(name, value)| (name, Path::new(value)));
        let mut terminal = open_with(&[], &root, &variables);
        terminal.press("?");
        terminal.has("Move up");
        let codes = looks(&terminal);
        assert_eq!(has_colours(&terminal), has, "{term} {more}: {codes:?}");
        assert!(
            codes.iter().all(|code| matches!(code, 0..=2 | 7 | 30..=37 | 40..=47)),
            "{term} {more}: {codes:?}"
        );
        // What is selected is seen: by its background, or in reverse.
        assert!(codes.contains(&if has { 42 } else { 7 }), "{term} {more}: {codes:?}");
        terminal.press("q");
        terminal.has_no("Move up");
        terminal.quit();
    }
}

#[test]
fn colours_are_left_out_on_request() {
    let (_scratch, root) = scratch();
    let cases: [(&[&str], &str, bool); 5] = [
        (&[], "1", false),
        (&[], "", true),
        (&["--color=dark"], "1", true),
        (&["--color=dark-bg"], "", true),
        (&["--color=off"], "", false),
    ];
    for (options, no_color, expected) in cases {
        let mut terminal = open_with(options, &root, &[("NO_COLOR", Path::new(no_color))]);
        assert_eq!(has_colours(&terminal), expected, "{options:?}, NO_COLOR={no_color}");
        // Nor in a window.
        terminal.press("?");
        terminal.has("Move up");
        assert_eq!(has_colours(&terminal), expected, "{options:?}, NO_COLOR={no_color}");
        terminal.press("q");
        terminal.has_no("Move up");
        terminal.quit();
    }
}

#[test]
fn it_asks_before_it_ends_if_that_is_wanted() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&["--confirm-quit"], &root);
    terminal.press("q");
    terminal.has("Really quit? (y/N)");
    terminal.press("n");
    terminal.has_no("Really quit?");
    terminal.press("qy");
    assert!(terminal.end().success());
}

#[test]
fn the_terminal_is_left_as_it_was() {
    let (_scratch, root) = scratch();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let mut terminal = open(&[], &root);
        assert!(terminal.screen().alternate_screen());
        kill_process(Pid::from_raw(terminal.id()).unwrap(), signal).unwrap();
        assert_eq!(terminal.end().exit_code(), 128 + signal.as_raw() as u32);
        assert!(terminal.is_as_before());
    }
    // Control-C is a key.
    let mut terminal = open(&[], &root);
    terminal.press("\x03");
    assert!(terminal.end().success());
    assert!(terminal.is_as_before());
    // What went wrong is to be seen.
    let mut terminal = start(&[], Path::new("/nowhere"), &[]);
    assert_eq!(terminal.end().exit_code(), 125);
    terminal.has("memfold: cannot read the directory '/nowhere': No such file");
    assert!(terminal.is_as_before());
}

/// Without a signal that says so: as for a program that was told to go on when its terminal goes. In the middle of a key, too.
#[test]
fn a_terminal_that_is_gone_ends_it() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let scratch = tempfile::tempdir().unwrap();
    for keys in ["", "n", "\x1b["] {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let winsize = rustix::termios::Winsize { ws_row: 12, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&master, winsize).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = File::options().read(true).write(true).open(name).unwrap();
        let clone = || slave.try_clone().unwrap();
        let mut command = Command::new(MEMFOLD);
        command.args(["du", "--ignore-config"]).arg(scratch.path());
        command.stdin(clone()).stdout(clone()).stderr(clone());
        let mut child = command.spawn().unwrap();
        drop((command, slave));
        let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
        while !String::from_utf8_lossy(&seen).contains("Total disk usage") {
            let count = rustix::io::read(&master, &mut bytes).unwrap();
            seen.extend_from_slice(&bytes[..count]);
        }
        rustix::io::write(&master, keys.as_bytes()).unwrap();
        // Until they are read.
        thread::sleep(Duration::from_millis(if keys.is_empty() { 0 } else { 50 }));
        drop(master);
        let end = Instant::now() + LONG;
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                child.kill().unwrap();
                panic!("it goes on without a terminal, after {keys:?}");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}
