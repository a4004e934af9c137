//! The screen in a terminal. Its numbers must agree with JSON, with Prometheus, and with the statistics at
//! the end.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::common::{MEMFOLD, finish, stats};
use super::program::{Program, as_another_user, tree};
use super::terminal::{self, DOWN, ENTER, RIGHT, Terminal, UP};
use super::{MIB, exposition, top};

const TITLES: [&str; 14] = [
    "PID", "STATE", "LOGICAL", "RESIDENT", "STANDBY", "PAYLOAD", "OVERHEAD", "SPILLED", "SAVED", "RATIO",
    "FAULTS/s", "FAULT", "STALL", "COMMAND",
];

pub fn screen(words: &[&str], lines: u16, columns: u16) -> Terminal {
    let mut command = terminal::command(MEMFOLD);
    command.arg("top");
    command.args(words);
    Terminal::new(command, lines, columns)
}

/// The bytes in a cell.
fn bytes(cell: &str) -> f64 {
    let (number, shift) = match cell.as_bytes().last() {
        Some(b'K') => (&cell[..cell.len() - 1], 10),
        Some(b'M') => (&cell[..cell.len() - 1], 20),
        Some(b'G') => (&cell[..cell.len() - 1], 30),
        _ => (cell, 0),
    };
    number.parse::<f64>().unwrap() * f64::from(1 << shift)
}

#[test]
fn a_busy_program_is_shown_in_every_way() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("stats.json");
    let program = Program::start("24M", 40, "busy", Some(&path));
    let supervisor = program.supervisor();
    let of_tree = tree(&supervisor);
    let of_process = of_tree["processes"][0].clone();
    let pid = of_process["pid"].to_string();
    let number =
        |value: &Value, name: &str| value[name].as_f64().unwrap_or_else(|| panic!("{name} in {value:#}"));

    // JSON is consistent, and agrees with the program's memory.
    assert_eq!((&of_process["state"], &of_process["command"]), (&"paging".into(), &"python3".into()));
    for value in [&of_tree, &of_process] {
        assert_eq!(
            number(value, "saved_bytes"),
            number(value, "logical_bytes") - number(value, "resident_bytes")
        );
        assert!((44.0..60.0).contains(&(number(value, "logical_bytes") / MIB as f64)), "{value:#}");
        assert!(number(value, "resident_bytes") < 24e6 * 1.2, "{value:#}");
        let parts: f64 =
            ["payload_bytes", "overhead_bytes", "standby_bytes"].map(|part| number(value, part)).iter().sum();
        assert!(number(value, "payload_bytes") > 0.0 && parts < number(value, "resident_bytes"), "{value:#}");
        assert!(number(value, "faults_per_second") > 10.0 && number(value, "fault_us") > 0.5, "{value:#}");
        assert!((0.001..=1.0).contains(&number(value, "stall_share")), "{value:#}");
        assert!(number(value, "compression_ratio") > 2.0, "{value:#}");
    }
    assert_eq!(of_tree["command"].as_str().unwrap().split(' ').next(), Some("python3"));

    // Prometheus gets the same values, and counters that grow.
    let look = || {
        let said = top(&["--prometheus", &supervisor]);
        assert_eq!((said.status, said.err.as_str()), (0, ""));
        exposition::parse(&said.out)
    };
    let (first, mut second) = (look(), look());
    let labels = [("pid", pid.as_str()), ("command", "python3"), ("supervisor", &supervisor)];
    let of = |all: &exposition::Exposition, name: &str| all.get(&format!("memfold_process_{name}"), &labels);
    for counter in ["faults_total", "fault_seconds_total", "stalled_seconds_total"] {
        assert!(of(&first, counter) > 0.0, "{counter}");
        // On a busy machine the program may not have run since.
        let begun = std::time::Instant::now();
        while of(&second, counter) <= of(&first, counter) {
            assert!(begun.elapsed().as_secs() < 20, "{counter} does not grow");
            second = look();
        }
    }
    for (name, about) in [("logical_bytes", 0.2), ("payload_bytes", 0.5)] {
        let (there, here) = (of(&first, name), number(&of_process, name));
        assert!((there - here).abs() < about * here, "{name}: {there}, {here}");
    }
    assert_eq!(first.value_of("memfold_tree_limit_bytes", "supervisor", &supervisor), (24 * MIB) as f64);

    // The screen shows these values.
    let mut terminal = screen(&["--interval", "0.2", &supervisor], 30, 160);
    terminal.has("paging");
    terminal.has("µs");
    let titles = terminal.lines()[1].replace('▾', "");
    let titles: Vec<_> = titles.split_whitespace().collect();
    assert_eq!((&titles[..14], titles[14]), (&TITLES[..], "LIMIT"));
    assert!(terminal.lines()[0].contains("1 tree, 1 process: "), "{}", terminal.lines()[0]);
    assert!(terminal.lines()[2].ends_with(" 24M") && terminal.lines()[2].contains('█'));
    let line = terminal.lines()[3].clone();
    let cells: Vec<_> = line.split_whitespace().collect();
    assert_eq!((cells[0], cells[1], *cells.last().unwrap()), (pid.as_str(), "paging", "python3"));
    for (at, name) in [(2, "logical_bytes"), (3, "resident_bytes"), (8, "saved_bytes")] {
        let (there, here) = (bytes(cells[at]), number(&of_process, name));
        assert!((there - here).abs() < 0.3 * here, "{name}: {there}, {here}: {line}");
    }
    // The tree is selected, and has a history.
    terminal.until("it is chosen", |screen| screen.cell(2, 4).unwrap().inverse());
    terminal.has(&format!(" tree {supervisor}: python3 -c import os"));
    terminal.has("⠤ LIMIT 24M");
    terminal.has("-60s");
    let is_drawn = |line: &String| line.contains("│") && line.contains('⣿');
    terminal.wait("a history", |lines| lines.iter().any(is_drawn));
    terminal.press(DOWN);
    terminal.has(&format!(" {pid} in tree {supervisor}: python3"));
    terminal.press(UP);
    terminal.has(&format!(" tree {supervisor}: python3 -c import os"));
    terminal.press(DOWN);
    terminal.press(RIGHT);
    terminal.has("RATIO▾");
    terminal.press("r");
    terminal.has("RATIO▴");
    terminal.press(" ");
    terminal.has("paused");
    terminal.press(" ");
    terminal.has_no("paused");

    // Type another limit: the prompt reports an impossible one.
    terminal.press("l");
    terminal.has(&format!("limit of {supervisor}, now 24 MiB: "));
    terminal.press(&["5x", ENTER].concat());
    terminal.has("the limit '5x' is not a size; give a size like 512M");
    terminal.press(&["\x7f\x7f64M", ENTER].concat());
    terminal.has(&format!("limit of {supervisor}: 64 MiB, was 24 MiB"));
    terminal.wait("the limit", |lines| lines[2].ends_with(" 64M"));
    assert_eq!(limit_of(&pid), "64 MiB\n");
    terminal.press("+");
    terminal.has("68 MiB, was 64 MiB");
    assert_eq!(limit_of(&supervisor), "68 MiB\n");
    terminal.press("-");
    terminal.has("64 MiB, was 68 MiB");

    // The screen fits into every terminal.
    terminal.resize(24, 80);
    terminal.wait("80 columns", |lines| lines[1].contains("FAULTS/s") && lines[23].contains("q quit"));
    assert!(!terminal.lines()[1].contains("STANDBY"));
    terminal.resize(6, 30);
    terminal.wait("30 columns", |lines| lines.iter().any(|line| line.contains(&pid)));
    terminal.resize(1, 12);
    terminal.wait("one line", |lines| lines[0].contains(&pid));
    terminal.resize(30, 160);
    terminal.has("STANDBY");
    terminal.quit();

    program.end();
    let stats = stats(&path);
    assert!(number(&stats, "pages_faulted") >= of(&second, "faults_total"), "{stats:#}");
    assert!(number(&stats, "stalled_seconds") >= of(&second, "stalled_seconds_total"), "{stats:#}");
    for (peak, now) in [("peak_resident_bytes", "resident_bytes"), ("peak_payload_bytes", "payload_bytes")] {
        assert!(number(&stats, peak) >= 0.99 * number(&of_tree, now), "{now}: {of_tree:#} {stats:#}");
    }
    let (peak, logical) = (number(&stats, "peak_logical_bytes"), number(&of_tree, "logical_bytes"));
    assert!((peak - logical).abs() < 0.2 * peak, "{peak} {logical}");
}

pub fn limit_of(pid: &str) -> String {
    let mut command = Command::new(MEMFOLD);
    command.args(["limit", pid]);
    finish(command).out
}

/// The words of a text, regardless of its lines.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn definitions_are_the_same_everywhere() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/top.md")).unwrap();
    let defined: Vec<(String, String)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| **")?.strip_suffix(" |"))
        .map(|line| {
            let mut cells = line.split(" | ");
            (cells.next().unwrap().trim_end_matches("**").to_owned(), cells.last().unwrap().to_owned())
        })
        .collect();
    let titles: Vec<&str> = defined.iter().map(|(title, _)| title.as_str()).collect();
    assert_eq!(titles, TITLES);
    let mut terminal = screen(&[], 60, 100);
    terminal.has("q quit");
    terminal.press("?");
    terminal.has("? columns   any other key goes back");
    terminal.press("?");
    terminal.wait("the columns", |lines| lines[59] == " any other key goes back");
    let shown = words(&terminal.lines().join(" "));
    for (title, definition) in &defined {
        assert!(shown.contains(&words(&format!("{title} {definition}"))), "{title}: {definition}\n{shown}");
    }
    terminal.press("x");
    terminal.has("q quit");
    terminal.quit();
}

#[test]
fn however_it_ends_the_terminal_is_as_it_was() {
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut terminal = screen(&[], 24, 80);
        terminal.has("memfold top");
        kill_process(Pid::from_raw(terminal.id()).unwrap(), signal).unwrap();
        assert_eq!(terminal.end().exit_code(), status);
        assert!(terminal.is_as_before());
    }
    let mut terminal = screen(&["--count", "2", "--interval", "0.1"], 24, 80);
    assert!(terminal.end().success() && terminal.is_as_before());
    let mut terminal = screen(&[], 24, 80);
    terminal.has("memfold top");
    terminal.press("\x03");
    assert!(terminal.end().success() && terminal.is_as_before());
}

#[test]
fn a_tree_that_ends_leaves_its_last_numbers() {
    let program = Program::start("200M", 8, "idle", None);
    let supervisor = program.supervisor();
    let mut terminal = screen(&["--interval", "0.1", &supervisor], 24, 120);
    terminal.has("watching");
    let mut stream = Command::new(MEMFOLD)
        .args(["top", "--json", "--interval", "0.1", &supervisor])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(stream.stdout.take().unwrap()).lines();
    let look: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(look["trees"][0]["supervisor"].to_string(), supervisor);
    program.end();
    terminal.has("ended: last numbers");
    assert!(terminal.lines().iter().any(|line| line.contains("watching") && line.ends_with("python3")));
    terminal.press("l64M\r");
    terminal.has("has ended: it no longer has a limit");
    terminal.quit();
    assert!(lines.all(|line| line.unwrap().contains(&supervisor)));
    assert!(stream.wait().unwrap().success());
    top(&[&supervisor]).is_refusal(125, &["there is no process", &supervisor]);
}

#[test]
fn other_users_are_told_that_trees_are_hidden() {
    let here = tempfile::tempdir_in("/tmp").unwrap();
    let program = Program::start("200M", 1, "idle", None);
    let supervisor = program.supervisor();
    let Some(mut command) = as_another_user(here.path()) else { return };
    command.args(["top", "--json", "--count", "1", "--interval", "0.1"]);
    let said = finish(command);
    let look: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(look["trees"], Value::Array(Vec::new()));
    let unseen = look["hidden"].as_array().unwrap().iter();
    let unseen: Vec<_> =
        unseen.filter(|tree| tree["supervisor"].as_u64() == supervisor.parse().ok()).collect();
    assert_eq!((unseen.len(), &unseen[0]["user"], &unseen[0]["reason"]), (1, &0.into(), &"user".into()));

    let mut command = as_another_user(here.path()).unwrap();
    command.args(["top", &supervisor]);
    finish(command).is_refusal(125, &["runs under memfold for user 0", "as root"]);

    // Another user sees nothing, and the screen says what to do.
    let mut command = terminal::command("setpriv");
    command.args(["--reuid=65533", "--regid=65533", "--clear-groups"]);
    command.arg(here.path().join("memfold"));
    command.arg("top");
    let mut terminal = Terminal::new(command, 24, 80);
    terminal.has("Nothing runs under memfold that you may see.");
    terminal.has("memfold run --limit 512M -- PROGRAM");
    terminal.wait("the hint", |lines| words(&lines.join(" ")).contains("try 'memfold top' as root"));
    assert!(words(&terminal.lines().join(" ")).contains(&format!("{supervisor} of root")));
    terminal.quit();
    program.end();
}
