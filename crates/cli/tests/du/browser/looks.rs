//! The terminal: its size, its colours, and its state afterwards.

use super::*;

#[test]
fn another_size_is_another_screen() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&[], &root);
    terminal.resize(5, 20);
    terminal.wait("a small screen", |lines| {
        let expected = ["memfold du ~ Use the", "@   2.0   B  link"];
        [&*lines[0], &*lines[3]] == expected && lines[4].contains("KiB")
    });
    // Even on the smallest screen, a question shows its answers.
    select(&mut terminal, "link");
    terminal.press("d");
    terminal.has(" yes   no ");
    terminal.press("n");
    terminal.has_no(" yes   no ");
    // Open windows of all kinds on screens without room for them.
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
fn an_unusable_terminal_is_refused() {
    let (_scratch, root) = scratch();
    for (term, says) in [("dumb", "TERM is 'dumb'"), ("", "TERM does not name the terminal")] {
        let mut terminal = start(&[], &root, &[("TERM", Path::new(term))]);
        assert_eq!(terminal.end().exit_code(), 125);
        terminal.has(&format!("memfold: the terminal can't be used: {says}"));
        // Printed output does not depend on the terminal.
        let mut terminal = start(&["--depth", "0"], &root, &[("TERM", Path::new(term))]);
        assert!(terminal.end().success());
    }
}

/// A key and a change of size often come at the same time.
#[test]
fn no_key_is_lost_when_the_size_changes() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&[], &root);
    for turn in 0..200 {
        let cols = 100 + turn % 2;
        // The key comes first in one turn of three, and the change of size in the others.
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

/// Whether any cell has a colour other than the terminal's default.
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

/// Terminals with eight colours interpret the parts of `38;5;1` separately: 5 blinks, and 1 is bold.
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
        // The selection is visible by its background or by reverse video.
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
        // Nor are there colours in a window.
        terminal.press("?");
        terminal.has("Move up");
        assert_eq!(has_colours(&terminal), expected, "{options:?}, NO_COLOR={no_color}");
        terminal.press("q");
        terminal.has_no("Move up");
        terminal.quit();
    }
}

#[test]
fn quitting_asks_with_confirm_quit() {
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
    // Control-C is an ordinary key here.
    let mut terminal = open(&[], &root);
    terminal.press("\x03");
    assert!(terminal.end().success());
    assert!(terminal.is_as_before());
    // The error is visible after the browser has left the screen.
    let mut terminal = start(&[], Path::new("/nowhere"), &[]);
    assert_eq!(terminal.end().exit_code(), 125);
    terminal.has("memfold: cannot read the directory '/nowhere': No such file");
    assert!(terminal.is_as_before());
}

/// The browser ends even without a signal, as when SIGHUP is ignored, and even in the middle of a key.
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
        // Wait until the keys are read.
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
