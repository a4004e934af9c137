//! Tests of the browser that the command's own tests cannot cover: endless operations, failures in the
//! middle, and a panic.
//!
//! The program in the terminal is this test program itself, with one test that runs the browser.

use std::env;
use std::io;
use std::process::Command;
use std::time::Duration;

use memfold::heap::{Heap, Options};
use memfold_du::Error;
use memfold_du::browse::{self, Actions, Control, End, Event, Screen, Step};
use memfold_du::scan;
use memfold_du::source::Source;

use rustix::process::{Pid, Signal, kill_process};

use super::terminal::{self, DOWN, ENTER, HOME, LEFT, RIGHT, Terminal};

/// The variable that tells the program in the terminal what to do.
const PART: &str = "MEMFOLD_TEST_BROWSER";

/// Actions that pretend to work, and change nothing.
struct Pretend<'a>(&'a dyn Source);

/// An operation that continues until the user stops it.
fn endless(mut tell: impl FnMut(&Step) -> Control) -> Result<(), Error> {
    let mut step = Step { path: b"/where/it/is".to_vec(), ..Step::default() };
    while tell(&step) == Control::Go {
        step.items += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Error::Stopped)
}

impl Actions for Pretend<'_> {
    fn source(&self) -> &dyn Source {
        self.0
    }

    fn no_delete(&self) -> Option<&str> {
        None
    }

    fn no_refresh(&self) -> Option<&str> {
        None
    }

    fn no_shell(&self) -> Option<&str> {
        None
    }

    fn delete(
        &mut self,
        _: u32,
        _: u32,
        progress: &mut dyn FnMut(Event<'_>) -> Control,
    ) -> Result<(), Error> {
        for path in ["/first", "/second", "/third"] {
            let error = io::Error::other(format!("{path}: permission denied"));
            if progress(Event::Failed(&error)) == Control::Stop {
                return Err(Error::Stopped);
            }
        }
        endless(|step| progress(Event::Step(step)))
    }

    fn refresh(&mut self, _: u32, progress: &mut dyn FnMut(&Step) -> Control) -> Result<(), Error> {
        endless(progress)
    }

    fn shell(&mut self, directory: u32) -> io::Result<()> {
        let script = format!("echo shell of directory {directory}; read line");
        Command::new("/bin/sh").args(["-c", &script]).status().map(|_| ())
    }
}

/// Does nothing, except in the terminal, where it runs the browser.
#[test]
fn in_the_terminal() {
    let Some(part) = env::var_os(PART) else { return };
    let scratch = tempfile::tempdir().unwrap();
    std::fs::create_dir(scratch.path().join("directory")).unwrap();
    let heap = Heap::new(Options::new()).unwrap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    let (options, seen) = (scan::Options::default(), scan::Progress::default());
    let tree = scan::scan(scratch.path(), &options, &heap, &session, &seen, |_| true).unwrap();
    let look = browse::Options::default();
    let mut screen = Screen::new(&look).unwrap();
    assert!(part != "panic", "as was asked for");
    if part == "scan" {
        let mut step = Step::default();
        while screen.progress("Scanning...", || step.clone()) {
            step.items += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        let signal = screen.signal();
        drop(screen);
        std::process::exit(128 + signal.unwrap_or(0));
    }
    let end = browse::run(&mut screen, &mut Pretend(&tree), &order, look);
    drop(screen);
    assert_eq!(end.unwrap(), End::Quit);
}

fn start(part: &str) -> Terminal {
    let mut command = terminal::command(env::current_exe().unwrap());
    command.args(["--exact", "browser::in_the_terminal", "--nocapture"]);
    command.env(PART, part);
    // The test program's own messages must not fill the screen.
    command.env("RUST_BACKTRACE", "0");
    Terminal::new(command, 24, 80)
}

#[test]
fn long_actions_can_be_stopped() {
    let mut terminal = start("pretend");
    // Each failure asks a question, until the user chooses to ignore all.
    terminal.has("/directory");
    terminal.press(&["d", LEFT, ENTER].concat());
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
    // The shell has the terminal in its original state.
    terminal.press(&[HOME, ENTER].concat());
    terminal.has("/..");
    terminal.press("b");
    terminal.has("shell of directory 1");
    assert!(terminal.is_as_before());
    terminal.press("\n");
    terminal.has("/..");
    terminal.press(DOWN);
    terminal.quit();
}

#[test]
fn signals_end_a_scan() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let mut terminal = start("scan");
        terminal.has("Scanning...");
        kill_process(Pid::from_raw(terminal.id()).unwrap(), signal).unwrap();
        assert_eq!(terminal.end().exit_code(), 128 + signal.as_raw() as u32);
        assert!(terminal.is_as_before());
    }
}

#[test]
fn a_scan_can_sleep() {
    let mut command = terminal::command("/bin/sh");
    let script = "set -m; \"$0\" --exact browser::in_the_terminal --nocapture; echo it sleeps; read line; fg";
    command.args(["-c", script]);
    command.arg(env::current_exe().unwrap());
    command.env(PART, "scan");
    let mut terminal = Terminal::new(command, 12, 80);
    terminal.has("Scanning...");
    terminal.press("\x1a");
    terminal.has("it sleeps");
    assert!(terminal.is_as_before());
    terminal.press("\n");
    terminal.has("Scanning...");
    terminal.press("q");
    terminal.end();
    assert!(terminal.is_as_before());
}

#[test]
fn the_message_of_a_panic_is_visible() {
    let mut terminal = start("panic");
    assert!(!terminal.end().success());
    assert!(terminal.is_as_before());
    terminal.has("as was asked for");
}
