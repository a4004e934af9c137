//! The terminal while it shows the browser or the progress of an operation.
//!
//! The terminal is restored however the program ends: [`Screen`] restores it when dropped, a panic hook does
//! so after a panic, and signals end the program in the same way as keys.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Stdout, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Once;
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, Show};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::layout::Size;
use ratatui::{Frame, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::Signal;

use super::backend::Plain;
use super::input::{Keys, PAUSE};
use super::signals::{self, Signals};
use crate::Error;
use crate::browse::draw::boxes;
use crate::browse::options::{Colours, Options};
use crate::browse::{Control, Step};

/// The longest time until a signal is noticed.
const WAIT: Duration = Duration::from_millis(200);
/// The interval between displays of progress.
const FAST: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_secs(2);

/// Input from the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A key was pressed.
    Key(KeyEvent),
    /// The size has changed.
    Resize,
    /// A signal that ends the program.
    Signal(i32),
}

/// The terminal; see the module.
pub struct Screen {
    terminal: Terminal<Plain<BufWriter<Stdout>>>,
    signals: Signals,
    /// The source of keys, if that is not standard input.
    tty: Option<File>,
    keys: Keys,
    colours: Colours,
    si: bool,
    every: Duration,
    /// When a long operation began, and when its progress was last shown.
    began: Option<(Instant, Instant)>,
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Hide)
}

/// Restores the terminal. Failures here cannot be repaired.
fn leave() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

/// The message of a panic must be visible.
fn hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            before(panic);
        }));
    });
}

/// Keys that stop a long operation.
fn stops(key: KeyEvent) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(key.code, KeyCode::Esc | KeyCode::Char('q')) || is_control && key.code == KeyCode::Char('c')
}

fn suspends(key: KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('z')
}

impl Screen {
    /// Takes over the terminal. Only the options about the appearance matter.
    pub fn new(options: &Options) -> Result<Self, Error> {
        if !stdout().is_terminal() {
            let text =
                "standard output is not a terminal: use --json or another output that is not full-screen";
            return Err(Error::Terminal(io::Error::other(text)));
        }
        // For other terminals, sequences that nearly all of them understand suffice.
        let term = std::env::var_os("TERM").unwrap_or_default();
        if ["", "unknown", "dumb"].iter().any(|known| term == *known) {
            let text = match term.is_empty() {
                true => String::from("TERM does not name the terminal"),
                false => format!("TERM is '{}'", term.display()),
            };
            let text = format!(
                "{text}: set it to the terminal's name, or use --json or another output that is not full-screen"
            );
            return Err(Error::Terminal(io::Error::other(text)));
        }
        Self::open(options).map_err(Error::Terminal)
    }

    fn open(options: &Options) -> io::Result<Self> {
        let signals = Signals::new()?;
        hook();
        let backend = Plain::new(BufWriter::new(stdout()));
        if let Err(error) = enter() {
            leave();
            return Err(error);
        }
        let terminal = match Terminal::new(backend) {
            Ok(terminal) => terminal,
            Err(error) => {
                leave();
                return Err(error);
            }
        };
        let every = if options.slow { SLOW } else { FAST };
        let tty = if stdin().is_terminal() { None } else { Some(File::open("/dev/tty")?) };
        let (colours, si) = (options.colours, options.si);
        Ok(Screen { terminal, signals, tty, keys: Keys::default(), colours, si, every, began: None })
    }

    /// The size of the screen.
    pub(crate) fn size(&self) -> io::Result<Size> {
        self.terminal.size()
    }

    /// Redraws the screen.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(|_| ())
    }

    /// The next input within this time, if any.
    fn poll(&mut self, time: Duration) -> io::Result<Option<Input>> {
        let key = self.keys.next();
        let time = match key {
            Some(_) => Duration::ZERO,
            None if self.signals.any() => Duration::ZERO,
            None if self.keys.is_empty() => time,
            None => time.min(PAUSE),
        };
        let flags = self.wait(time)?;
        if let Some(signal) = self.signals.came() {
            return Ok(Some(Input::Signal(signal)));
        }
        if flags.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(Some(Input::Signal(Signal::HUP.as_raw())));
        }
        if let Some(key) = key {
            return Ok(Some(Input::Key(key)));
        }
        if self.signals.resized() {
            return Ok(Some(Input::Resize));
        }
        if flags.contains(PollFlags::IN) {
            let mut bytes = [0; 1024];
            match self.with_tty(|tty| rustix::io::read(tty, &mut bytes)) {
                // The terminal is gone.
                Ok(0) => return Ok(Some(Input::Signal(Signal::HUP.as_raw()))),
                Ok(count) => self.keys.push(&bytes[..count]),
                Err(Errno::INTR | Errno::AGAIN) => (),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.keys.next().map(Input::Key))
    }

    /// Waits for keys or a signal; returns the state of the terminal.
    fn wait(&self, time: Duration) -> io::Result<PollFlags> {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        let polled = self.with_tty(|tty| {
            let mut polled = [PollFd::from_borrowed_fd(tty, PollFlags::IN)];
            rustix::event::poll(&mut polled, Some(&time)).map(|_| polled[0].revents())
        });
        match polled {
            // A signal, perhaps because the size has changed.
            Err(Errno::INTR) => Ok(PollFlags::empty()),
            polled => Ok(polled?),
        }
    }

    fn with_tty<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> R) -> R {
        f(self.tty.as_ref().map_or(stdin().as_fd(), AsFd::as_fd))
    }

    /// Waits for the next input.
    pub(crate) fn input(&mut self) -> io::Result<Input> {
        loop {
            if let Some(input) = self.poll(WAIT)? {
                return Ok(input);
            }
        }
    }

    /// The same, for at most this long.
    pub fn input_within(&mut self, time: Duration) -> io::Result<Option<Input>> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let input = self.poll(left.min(WAIT))?;
            if input.is_some() || left.is_zero() {
                return Ok(input);
            }
        }
    }

    /// Runs `f` while the terminal is released to another program.
    pub(crate) fn without<R>(&mut self, f: impl FnOnce() -> R) -> io::Result<R> {
        leave();
        let result = f();
        self.signals.forget_keys();
        enter()?;
        // The screen is empty, so its remembered contents must be empty, too. `clear` would query the
        // terminal for the cursor position, and not all terminals answer.
        self.terminal = Terminal::new(Plain::new(BufWriter::new(stdout())))?;
        Ok(result)
    }

    /// Marks the beginning of a long operation.
    pub(crate) fn begin(&mut self) {
        self.began = None;
    }

    /// Shows the progress in front of what `draw` draws, and checks for keys that stop it.
    pub(crate) fn show(
        &mut self,
        title: &str,
        step: impl FnOnce() -> Step,
        draw: impl FnOnce(&mut Frame<'_>),
    ) -> Control {
        let now = Instant::now();
        let (began, last) = self.began.unwrap_or((now, now));
        if self.began.is_some() && now.duration_since(last) < self.every {
            return Control::Go;
        }
        self.began = Some((began, now));
        let (colours, si, seconds) = (self.colours, self.si, now.duration_since(began).as_secs());
        let step = step();
        let drawn = self.draw(|frame| {
            draw(frame);
            boxes::progress(frame.buffer_mut(), colours, si, title, &step, seconds);
        });
        // The loss of the terminal also stops the operation.
        if drawn.is_ok() { self.asked_to_stop() } else { Control::Stop }
    }

    /// Stops the program until the shell continues it.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.without(signals::sleep)?
    }

    /// The signal that arrived, and that ends the program.
    pub fn signal(&self) -> Option<i32> {
        self.signals.came()
    }

    fn asked_to_stop(&mut self) -> Control {
        loop {
            match self.poll(Duration::ZERO) {
                Ok(Some(Input::Key(key))) if stops(key) => return Control::Stop,
                Ok(Some(Input::Key(key))) if suspends(key) => {
                    if self.suspend().is_err() {
                        return Control::Stop;
                    }
                }
                Ok(Some(Input::Signal(_))) | Err(_) => return Control::Stop,
                Ok(Some(_)) => (),
                Ok(None) => return Control::Go,
            }
        }
    }

    /// Shows the progress of a scan or an import; returns whether to continue. It may be called at any rate.
    pub fn progress(&mut self, title: &str, step: impl FnOnce() -> Step) -> bool {
        let colours = self.colours;
        let draw = |frame: &mut Frame<'_>| {
            let area = frame.area();
            frame.buffer_mut().set_style(area, colours.style(crate::browse::draw::theme::Part::Text, false));
        };
        self.show(title, step, draw) == Control::Go
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}
