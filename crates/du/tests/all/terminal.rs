//! Runs a program in a terminal: presses keys, and checks the screen.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use rustix::termios::{LocalModes, tcgetattr};

/// The timeout; only on a busy machine does anything take that long.
pub const LONG: Duration = Duration::from_secs(30);

pub const UP: &str = "\x1b[A";
pub const DOWN: &str = "\x1b[B";
pub const RIGHT: &str = "\x1b[C";
pub const LEFT: &str = "\x1b[D";
pub const HOME: &str = "\x1b[H";
pub const ENTER: &str = "\r";

pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    parser: vt100::Parser,
    /// All bytes that the program has written.
    bytes: Vec<u8>,
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

fn parser(rows: u16, cols: u16) -> vt100::Parser {
    vt100::Parser::new(rows.try_into().unwrap(), cols.try_into().unwrap(), 0)
}

fn lines(screen: &vt100::Screen) -> Vec<String> {
    screen.rows(0, u16::MAX).map(|line| line.trim_end().to_string()).collect()
}

/// A program whose screens are the same wherever the tests run: without colours, and in UTC.
pub fn command(program: impl AsRef<OsStr>) -> CommandBuilder {
    let mut command = CommandBuilder::new(program);
    for (name, value) in [("TERM", "xterm-256color"), ("TZ", "UTC"), ("NO_COLOR", "1")] {
        command.env(name, value);
    }
    command
}

impl Terminal {
    /// Starts a program in a terminal of this size.
    pub fn new(command: CommandBuilder, rows: u16, cols: u16) -> Self {
        let pair = native_pty_system().openpty(size(rows, cols)).unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let (send, output) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Once the program has ended, reading fails. The first failure may be too early, if the last
            // bytes were written meanwhile.
            let mut failures = 0;
            while failures < 3 {
                match reader.read(&mut bytes) {
                    Ok(count @ 1..) if send.send(bytes[..count].to_vec()).is_ok() => failures = 0,
                    Ok(1..) => break,
                    _ => failures += 1,
                }
            }
        });
        Terminal { child, master: pair.master, keys, output, parser: parser(rows, cols), bytes: Vec::new() }
    }

    pub fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    pub fn lines(&self) -> Vec<String> {
        lines(self.screen())
    }

    /// All bytes written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.parser.process(bytes);
    }

    /// Waits until `is_so` holds for the screen.
    #[track_caller]
    pub fn until(&mut self, what: &str, is_so: impl Fn(&vt100::Screen) -> bool) {
        let end = Instant::now() + LONG;
        while !is_so(self.screen()) {
            match self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.take(&bytes),
                Err(error) => panic!("{what}: {error:?}; this is to be seen:\n{}", self.lines().join("\n")),
            }
        }
    }

    /// Waits until `is_so` holds for the lines of the screen.
    #[track_caller]
    pub fn wait(&mut self, what: &str, is_so: impl Fn(&[String]) -> bool) {
        self.until(what, |screen| is_so(&lines(screen)));
    }

    /// Waits until a line contains a text.
    #[track_caller]
    pub fn has(&mut self, text: &str) {
        self.wait(text, |lines| lines.iter().any(|line| line.contains(text)));
    }

    /// Waits until no line contains a text.
    #[track_caller]
    pub fn has_no(&mut self, text: &str) {
        self.wait(&format!("no {text}"), |lines| !lines.iter().any(|line| line.contains(text)));
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    pub fn resize(&mut self, rows: u16, cols: u16) {
        self.parser = parser(rows, cols);
        self.master.resize(size(rows, cols)).unwrap();
    }

    /// The program's process ID.
    pub fn id(&self) -> i32 {
        self.child.process_id().unwrap() as i32
    }

    /// Waits for the program's end.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        loop {
            match self.output.recv_timeout(LONG) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(error) => {
                    panic!("it does not end: {error:?}; this is to be seen:\n{}", self.lines().join("\n"))
                }
            }
        }
        self.child.wait().unwrap()
    }

    /// Quits the browser as a user does.
    #[track_caller]
    pub fn quit(&mut self) {
        self.press("q");
        let status = self.end();
        assert!(status.success(), "{status}:\n{}", self.lines().join("\n"));
        assert!(self.is_as_before());
    }

    /// Whether the terminal is restored: the alternate screen was left, the cursor is visible, and line
    /// editing is on.
    pub fn is_as_before(&self) -> bool {
        let name: PathBuf = self.master.tty_name().unwrap();
        let modes = File::open(name).map(tcgetattr).unwrap().unwrap();
        let is_cooked = modes.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO);
        let (is_other, is_hidden) = (self.screen().alternate_screen(), self.screen().hide_cursor());
        let is_as_before = !is_other && !is_hidden && is_cooked;
        if !is_as_before {
            eprintln!("other screen: {is_other}, cursor hidden: {is_hidden}, lines are edited: {is_cooked}");
        }
        is_as_before
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
