//! Keys in a terminal: the order of the lines, and who may change a limit.

use std::process::{Command, Stdio};

use super::program::{Program, as_another_user};
use super::screen::{limit_of, screen};
use super::terminal::{self, DOWN, ENTER, HOME, LEFT, RIGHT, Terminal};

/// The line of a tree or a process, among those of the whole machine.
fn line_of(lines: &[String], pid: &str) -> Option<usize> {
    lines.iter().position(|line| line.split_whitespace().next() == Some(pid))
}

/// Chooses a tree.
fn choose(terminal: &mut Terminal, supervisor: &str) {
    let heading = format!(" tree {supervisor}");
    let is_chosen = |lines: &[String]| lines.iter().any(|line| line.starts_with(&heading));
    terminal.press(HOME);
    terminal.until("the first line is chosen", |screen| screen.cell(2, 4).is_some_and(|cell| cell.inverse()));
    for _ in 0..1000 {
        if is_chosen(&terminal.lines()) {
            return;
        }
        let heading_of = |lines: &[String]| {
            let is_heading = |line: &&String| line.starts_with(" tree ") || line.contains(" in tree ");
            lines.iter().find(is_heading).cloned()
        };
        let before = heading_of(&terminal.lines());
        terminal.press(DOWN);
        terminal.wait("another line is chosen", |lines| heading_of(lines) != before);
    }
    panic!("{supervisor} cannot be chosen:\n{}", terminal.lines().join("\n"));
}

#[test]
fn trees_are_sorted_by_the_chosen_column() {
    let (small, large) = (Program::start("200M", 4, "idle", None), Program::start("200M", 60, "idle", None));
    let [small_one, large_one] = [&small, &large].map(Program::supervisor);
    let mut terminal = screen(&["--interval", "0.2"], 100, 120);
    terminal.has("SAVED▾");
    terminal.press(&LEFT.repeat(8));
    terminal.has("PID▾");
    choose(&mut terminal, &small_one);
    terminal.press(&RIGHT.repeat(3));
    terminal.has("RESIDENT▾");
    terminal.wait("the large tree first", |lines| {
        let at = line_of(lines, &large_one);
        at.is_some() && at < line_of(lines, &small_one)
    });
    terminal.press("r");
    terminal.has("RESIDENT▴");
    terminal.wait("the small tree first", |lines| {
        let at = line_of(lines, &small_one);
        at.is_some() && at < line_of(lines, &large_one)
    });
    // It is still chosen.
    terminal.until("it is chosen", |screen| {
        let lines: Vec<_> = screen.rows(0, u16::MAX).collect();
        let at = line_of(&lines, &small_one).unwrap_or(0) as u16;
        screen.cell(at, 4).is_some_and(|cell| cell.inverse())
    });
    terminal.has(&format!(" tree {small_one}: python3"));
    terminal.quit();
    small.end();
    large.end();
}

#[test]
fn a_read_only_screen_changes_nothing() {
    let program = Program::start("200M", 4, "idle", None);
    let supervisor = program.supervisor();
    let mut terminal = screen(&["--read-only", &supervisor], 24, 80);
    terminal.has("read-only, every 1 s");
    terminal.has(" 200M");
    for keys in ["+", "-", "l"] {
        terminal.press(keys);
        terminal.has("read-only: keys do not change limits (--read-only)");
        terminal.press("r");
        terminal.has_no("--read-only");
    }
    terminal.press(&["l64M", ENTER].concat());
    terminal.press(" ");
    terminal.has("read-only, paused");
    assert_eq!(limit_of(&supervisor), "200 MiB\n");
    terminal.quit();
    program.end();
}

#[test]
fn another_users_tree_is_changed_after_a_yes_only() {
    let here = tempfile::tempdir_in("/tmp").unwrap();
    if as_another_user(here.path()).is_none() {
        return;
    }
    // Where others may not use userfaultfd, the capability allows it.
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65533", "--regid=65533", "--clear-groups"]);
    command.args(["--inh-caps=+sys_ptrace", "--ambient-caps=+sys_ptrace"]).arg(here.path().join("memfold"));
    // The end of its input ends the program, even if this test fails.
    command.args(["run", "--quiet", "--limit", "200M", "--", "cat"]).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let supervisor = child.id().to_string();
    let limit = || limit_of(&supervisor);
    let begun = std::time::Instant::now();
    while limit() != "200 MiB\n" {
        assert!(begun.elapsed() < terminal::LONG, "the tree does not appear");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }

    let mut terminal = screen(&[&supervisor], 24, 80);
    terminal.has(&format!(" tree {supervisor} of user 65533 (read-only: keys ask first)"));
    for keys in ["+n", "-x", "++", "l\r"] {
        terminal.press(keys);
        terminal.has("its limit stays");
        terminal.press("r");
        terminal.has_no("its limit stays");
        assert_eq!(limit(), "200 MiB\n");
    }
    terminal.press("+");
    terminal.wait("the question", |lines| {
        lines.join(" ").contains(&format!("the tree of {supervisor} is user 65533's: change its limit?"))
    });
    terminal.press("y");
    terminal.has("210 MiB, was 200 MiB");
    assert_eq!(limit(), "210 MiB\n");
    terminal.has_no("(read-only: keys ask first)");
    terminal.press("-");
    terminal.has("was 210 MiB");
    terminal.quit();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
