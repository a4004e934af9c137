//! Deleting in the browser, and what it refuses to delete.

use super::*;

#[test]
fn only_the_selected_entry_is_deleted() {
    let (scratch, root) = scratch();
    let outside = scratch.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "precious").unwrap();
    symlink("../../outside", root.join("docs/a directory")).unwrap();
    symlink("../../outside/precious", root.join("docs/a file")).unwrap();
    symlink("../outside", root.join("outwards")).unwrap();
    let before = everything(&root);
    let mut terminal = open(&[], &root);

    // Nothing is deleted unless the answer is yes, which is not the initial selection.
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

    // Deleting a link leaves its target.
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
    // The file has lost its other name, so it is no longer marked.
    assert_eq!(fs::metadata(root.join("zz")).unwrap().nlink(), 1);
    terminal.quit();
}

#[test]
fn the_question_is_asked_once_if_so_chosen() {
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
    // With this option there is no question at all.
    let mut terminal = open(&["--no-confirm-delete"], &root);
    select(&mut terminal, "docs");
    terminal.press("d");
    terminal.has("Items: 3");
    assert!(!root.join("docs").exists());
    terminal.quit();
}

#[test]
fn new_entries_are_neither_deleted_nor_forgotten() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&[], &root);
    fs::write(root.join("docs/deep/new"), "new").unwrap();
    let before = everything(&root);
    delete(&mut terminal, "docs");
    message(&mut terminal, "docs/deep contains something that was not shown");
    assert_eq!(everything(&root), before);
    // The second attempt fails, too, because the directory was not read again without a request.
    delete(&mut terminal, "docs");
    message(&mut terminal, "docs/deep contains something that was not shown");
    assert_eq!(everything(&root), before);
    terminal.has("Items: 12");
    terminal.press("r");
    terminal.has("Items: 13");
    select(&mut terminal, "docs");
    terminal.press(ENTER);
    select(&mut terminal, "deep");
    terminal.press(ENTER);
    terminal.has("3.0   B  new");

    // Now the entry has changed since it was shown.
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

/// Protects the contents of a directory from deletion, or lifts that. Returns whether this is possible here.
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

/// Lifts the protection on drop, however the test ends.
struct Kept(PathBuf);

impl Drop for Kept {
    fn drop(&mut self) {
        keep(&self.0, false);
    }
}

#[test]
fn entries_that_cannot_be_deleted_stay_if_errors_are_ignored() {
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
    // "Stop" is selected initially. Files that come before the failure are gone.
    delete(&mut terminal, "docs");
    terminal.has(" stop   ignore   ignore all ");
    terminal.has("er/f: ");
    terminal.press(ENTER);
    message(&mut terminal, "what was deleted before stays deleted");
    terminal.has("Items: 10");
    assert_eq!(everything(&root).len(), before.len() - 3);
    // If nothing was deleted, there is no message.
    delete(&mut terminal, "docs");
    terminal.has("er/f: ");
    terminal.press("q");
    terminal.has_no(" ignore all ");
    // Ignore one failure, then all of them.
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
fn nothing_is_deleted_unseen() {
    let (_scratch, root) = scratch();
    let before = everything(&root);
    let mut terminal = open(&[], &root);
    select(&mut terminal, "zz");
    for (rows, cols) in [(1, 40), (1, 24), (2, 40), (2, 14), (3, 14), (4, 18), (12, 14)] {
        terminal.resize(rows, cols);
        terminal.press("d");
        // The name and the question, on separate lines or on one.
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
