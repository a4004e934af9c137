//! How far it is, before there is anything to be browsed: on the whole screen, in a line, or not at all.

use std::io::Stderr;

use memfold_du::Error;
use memfold_du::browse::{Options, ProgressLine, Screen, Step};
use memfold_du::scan::Progress;

use super::args::DuArgs;
use crate::failure::Failure;

/// Where it is shown.
pub enum Shown {
    /// On the screen on which the tree is browsed then.
    Screen(Box<Screen>),
    /// On standard error.
    Line(ProgressLine<Stderr>),
    /// Nowhere.
    Nowhere,
}

impl Shown {
    /// As is asked for, or else fits what comes then. A terminal that the browser can't use is an error now, not after the scan.
    pub fn new(args: &DuArgs, look: &Options, browses: bool) -> Result<Self, Failure> {
        let wants_screen = args.screen || (browses && !args.line && !args.quiet);
        if wants_screen || browses {
            let screen = Screen::new(look).map_err(|error| Failure::new(error.to_string()))?;
            if wants_screen {
                return Ok(Shown::Screen(Box::new(screen)));
            }
        }
        let line = if args.quiet { None } else { ProgressLine::stderr(args.si, args.slow) };
        Ok(line.map_or(Shown::Nowhere, Shown::Line))
    }

    /// Shows it; whether to go on.
    pub fn show(&mut self, title: &str, progress: &Progress) -> bool {
        match self {
            Shown::Screen(screen) => screen.progress(title, || Step::from(progress)),
            Shown::Line(line) => {
                line.show(|| Step::from(progress));
                true
            }
            Shown::Nowhere => true,
        }
    }

    /// The signal that came, which ends the program. Where there is no screen, signals do so by themselves.
    pub fn signal(&self) -> Option<i32> {
        match self {
            Shown::Screen(screen) => screen.signal(),
            Shown::Line(_) | Shown::Nowhere => None,
        }
    }

    /// The screen on which the tree is browsed.
    pub fn into_screen(self, look: &Options) -> Result<Screen, Error> {
        match self {
            Shown::Screen(screen) => Ok(*screen),
            Shown::Line(_) | Shown::Nowhere => {
                drop(self);
                Screen::new(look)
            }
        }
    }
}
