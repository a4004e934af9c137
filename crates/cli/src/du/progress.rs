//! Shows progress until the tree can be browsed: on the whole screen, in a line, or not at all.

use std::io::Stderr;

use memfold_args::DuArgs;
use memfold_du::Error;
use memfold_du::browse::{Options, ProgressLine, Screen, Step};
use memfold_du::scan::Progress;

use crate::output::failure::Failure;

/// Where it is shown.
pub enum Shown {
    /// On the screen of the browser.
    Screen(Box<Screen>),
    /// On standard error.
    Line(ProgressLine<Stderr>),
    /// Nowhere.
    Nowhere,
}

impl Shown {
    /// Follows the user's options, or fits the use of the tree. A terminal that the browser cannot use is an
    /// error now, not after the scan.
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

    /// Shows the progress, and returns whether to continue.
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

    /// A signal that arrived and must end the program. Without a screen, signals end it directly.
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
