//! The browser in a terminal: what is pressed, and what is to be seen then.

use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};
use tempfile::TempDir;

/// Nothing takes that long, but on a machine that has much else to do.
const LONG: Duration = Duration::from_secs(30);

/// A program in a terminal.
struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    parser: vt100::Parser,
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

/// The example `browse`, which stands beside the tests: `cargo test` builds it, `cargo test --test browser` does not.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().and_then(Path::parent).unwrap().join("examples/browse")
}

impl Terminal {
    fn new(arguments: &[&str], path: &Path) -> Self {
        let (rows, cols) = (12, 80);
        let pair = native_pty_system().openpty(size(rows, cols)).unwrap();
        let mut command = CommandBuilder::new(program());
        command.args(arguments);
        command.arg(path);
        for (name, value) in [("TERM", "xterm-256color"), ("TZ", "UTC"), ("NO_COLOR", "1")] {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let (send, output) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // When the program has ended, reading fails.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if send.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { child, master: pair.master, keys, output, parser: parser(rows, cols) }
    }

    fn lines(&self) -> Vec<String> {
        let screen = self.parser.screen();
        screen.rows(0, u16::MAX).map(|line| line.trim_end().to_string()).collect()
    }

    /// Waits until this is to be seen.
    fn wait(&mut self, what: &str, is_seen: impl Fn(&[String]) -> bool) {
        let end = Instant::now() + LONG;
        while !is_seen(&self.lines()) {
            match self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.parser.process(&bytes),
                Err(error) => panic!("{what}: {error:?}; this is to be seen:\n{}", self.lines().join("\n")),
            }
        }
    }

    /// Waits until some line has this.
    fn has(&mut self, text: &str) {
        self.wait(text, |lines| lines.iter().any(|line| line.contains(text)));
    }

    /// Waits until no line has this.
    fn has_no(&mut self, text: &str) {
        self.wait(text, |lines| !lines.iter().any(|line| line.contains(text)));
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the program's end.
    fn end(&mut self) -> ExitStatus {
        loop {
            match self.output.recv_timeout(LONG) {
                Ok(bytes) => self.parser.process(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(error) => panic!("it does not end: {error:?}"),
            }
        }
        self.child.wait().unwrap()
    }

    /// Whether the terminal is as it was: the other screen was left, the cursor is there, and lines are edited.
    fn is_as_before(&self) -> bool {
        let screen = self.parser.screen();
        let modes = std::fs::File::open(self.master.tty_name().unwrap()).map(tcgetattr).unwrap().unwrap();
        let is_cooked = modes.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO);
        !screen.alternate_screen() && !screen.hide_cursor() && is_cooked
    }
}

fn parser(rows: u16, cols: u16) -> vt100::Parser {
    vt100::Parser::new(rows.try_into().unwrap(), cols.try_into().unwrap(), 0)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const DOWN: &str = "\x1b[B";
const RIGHT: &str = "\x1b[C";
const LEFT: &str = "\x1b[D";
const ENTER: &str = "\r";

/// Files whose sizes are the same wherever they are: what they take is up to the file system, so apparent sizes are compared.
fn scratch() -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("tree");
    let file = |name: &[u8], size: usize| {
        let path = root.join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, vec![0; size]).unwrap();
    };
    file(b"docs/a10", 20_000);
    file(b"docs/a9", 30_000);
    file(b"docs/deep/er/f", 40_000);
    file(b"odd\nname", 50_000);
    file(b"odd\xff", 60_000);
    file("文件".as_bytes(), 70_000);
    file(b"zz", 300_000);
    std::fs::hard_link(root.join("zz"), root.join("docs/zz too")).unwrap();
    symlink("zz", root.join("link")).unwrap();
    (scratch, root)
}

/// Opens the browser, in the order of the names.
fn open(arguments: &[&str], path: &Path) -> Terminal {
    let mut terminal = Terminal::new(arguments, path);
    terminal.has("Total disk usage");
    terminal.press("naggg");
    terminal.wait("names in order", |lines| lines[3] == "@   2.0   B  link");
    terminal.press("\x1b[H");
    terminal
}

#[test]
fn a_tree_is_looked_at() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&[], &root);
    let lines = terminal.lines();
    assert_eq!(lines[0], "memfold du ~ Use the arrow keys to navigate, press ? for help");
    assert!(lines[1].starts_with(&format!("--- {} ---", root.display())), "{}", lines[1]);
    assert!(lines[2].ends_with(" KiB /docs"), "{}", lines[2]);
    let expected =
        ["   48.8 KiB  odd\\nname", "   58.6 KiB  odd\\xff", "H 293.0 KiB  zz", "   68.4 KiB  文件"];
    assert_eq!(lines[4..8], expected);
    assert!(lines[11].ends_with("  Items: 12"), "{}", lines[11]);

    // In, and out again.
    terminal.press(&[DOWN, "k", ENTER].concat());
    terminal.has("/..");
    let lines = terminal.lines();
    assert_eq!(lines[2..5], ["            /..", "   29.3 KiB  a9", "   19.5 KiB  a10"]);
    assert!(lines[5].ends_with(" KiB /deep"), "{}", lines[5]);
    assert_eq!(lines[6], "H 293.0 KiB  zz too");
    terminal.press(&[DOWN, DOWN, RIGHT].concat());
    terminal.has("/er");
    terminal.press("l");
    terminal.has("39.1 KiB  f");
    terminal.press(&[LEFT, "h", "<"].concat());
    terminal.has("文件");

    // By size, the largest first.
    terminal.press("s");
    terminal.wait("sorted", |lines| lines[2].ends_with(" /docs") && lines[3] == "H 293.0 KiB  zz");
    terminal.press("s");
    terminal.wait("sorted", |lines| lines[2] == "@   2.0   B  link" && lines[7].ends_with(" /docs"));
    terminal.press("tn");
    terminal.wait("sorted", |lines| lines[2].ends_with(" /docs") && lines[3].ends_with("  link"));

    terminal.press("q");
    assert!(terminal.end().success());
    assert!(terminal.is_as_before());
}

#[test]
fn windows_open_and_close() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&["-e"], &root);
    terminal.press(&DOWN.repeat(4));
    terminal.press("i");
    terminal.has("Name: zz ");
    terminal.has("Mode: -rw");
    terminal.has("Apparent size: 293.0 KiB (300,000 B)");
    terminal.press("2");
    terminal.has("2 of 2 names are here");
    let root = root.display().to_string();
    terminal.has(&format!("{root}/zz "));
    terminal.has(&format!("{root}/docs/zz too "));
    terminal.press("i");
    terminal.has_no("names are here");
    terminal.press("?");
    terminal.has("Move up");
    terminal.press("2");
    terminal.has("It could not be read");
    terminal.press("q");
    terminal.has_no("It could not be read");
    terminal.press("d");
    terminal.has("Deleting is not possible here.");
    terminal.press(" ");
    terminal.has_no("Deleting");
    terminal.press("m");
    terminal.has(" +0000 /docs");
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn what_takes_long_can_be_stopped() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&["--pretend"], &root);
    // Failures are asked about, until nobody wants to know.
    terminal.press(&[DOWN, "d", LEFT, ENTER].concat());
    terminal.has("/first: permission denied");
    terminal.press(&[RIGHT, ENTER].concat());
    terminal.has("/second: permission denied");
    terminal.press(&[RIGHT, RIGHT, ENTER].concat());
    terminal.has("Deleting...");
    terminal.has("Current: /where/it/is");
    terminal.press("q");
    terminal.has_no("Deleting...");
    terminal.press(&["d", LEFT, ENTER].concat());
    terminal.has("/first: permission denied");
    terminal.press("q");
    terminal.has_no("/first");
    terminal.press("r");
    terminal.has("Scanning...");
    terminal.press("q");
    terminal.has_no("Scanning...");
    // The shell has the terminal as it was before.
    terminal.press("l");
    terminal.press(&["\x1b[H", ENTER].concat());
    terminal.has("/..");
    terminal.press("b");
    terminal.has("shell of directory 1");
    assert!(terminal.is_as_before());
    terminal.press("\n");
    terminal.has("/..");
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn another_size_is_another_screen() {
    let (_scratch, root) = scratch();
    let mut terminal = open(&[], &root);
    terminal.parser = parser(5, 20);
    terminal.master.resize(size(5, 20)).unwrap();
    terminal.wait("a small screen", |lines| {
        let expected = ["memfold du ~ Use the", "@   2.0   B  link"];
        [&*lines[0], &*lines[3]] == expected && lines[4].contains("KiB")
    });
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn the_terminal_is_left_as_it_was() {
    let (_scratch, root) = scratch();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut terminal = open(&[], &root);
        assert!(terminal.parser.screen().alternate_screen());
        let id = Pid::from_raw(terminal.child.process_id().unwrap() as i32).unwrap();
        kill_process(id, signal).unwrap();
        assert_eq!(terminal.end().exit_code(), 128 + signal.as_raw() as u32);
        assert!(terminal.is_as_before());
    }
    // Control-C is a key.
    let mut terminal = open(&[], &root);
    terminal.press("\x03");
    assert!(terminal.end().success());
    assert!(terminal.is_as_before());
    // What a panic says is to be seen.
    let mut terminal = Terminal::new(&["--panic"], &root);
    assert!(!terminal.end().success());
    assert!(terminal.is_as_before());
    terminal.has("as was asked for");
}

#[test]
fn what_is_no_directory_is_an_error() {
    let mut terminal = Terminal::new(&[], Path::new("/nonexistent"));
    assert_eq!(terminal.end().exit_code(), 1);
    terminal.has("No such file or directory");
    assert!(terminal.is_as_before());
}

/// Without a signal that says so: as for a program that was told to go on when its terminal goes.
#[test]
fn a_terminal_that_is_gone_ends_it() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let scratch = tempfile::tempdir().unwrap();
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let winsize = rustix::termios::Winsize { ws_row: 12, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, winsize).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = std::fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    let clone = || slave.try_clone().unwrap();
    let mut command = std::process::Command::new(program());
    command.arg(scratch.path()).stdin(clone()).stdout(clone()).stderr(clone());
    let mut child = command.spawn().unwrap();
    drop((command, slave));
    let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&seen).contains("Total disk usage") {
        let count = rustix::io::read(&master, &mut bytes).unwrap();
        seen.extend_from_slice(&bytes[..count]);
    }
    drop(master);
    let end = Instant::now() + LONG;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("it goes on without a terminal");
        }
        thread::sleep(Duration::from_millis(20));
    }
}
