//! Scans a path and browses it: `browse [-e] [--no-progress] [--pretend] PATH`. The tests of the browser drive it in a terminal.
use std::io;
use std::process::Command;
use std::time::Duration;

use memfold::heap::{Heap, Options};
use memfold_du::browse::{self, Actions, Control, End, Event, ReadOnly, Screen, Step};
use memfold_du::source::Source;
use memfold_du::{Error, scan};

/// Looks as if it could do anything, and changes nothing.
struct Pretend<'a>(&'a dyn Source);

/// Something that takes as long as the user likes.
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
            let error = io::ErrorKind::PermissionDenied.into();
            if progress(Event::Failed { path: path.as_bytes(), error: &error }) == Control::Stop {
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

fn main() {
    let mut options = scan::Options::default();
    let (mut progress, mut panics, mut pretends, mut path) = (true, false, false, None);
    for argument in std::env::args_os().skip(1) {
        match argument.to_str() {
            Some("-e") => options.extended = true,
            Some("--no-progress") => progress = false,
            Some("--pretend") => pretends = true,
            Some("--panic") => panics = true,
            _ => path = Some(argument),
        }
    }
    let path = path.expect("a path to scan");
    let heap = Heap::new(Options::new().block_size(64 << 10).alignment(16).codec("zstd:3")).unwrap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    let look = browse::Options::default();
    let mut screen = Screen::new(&look).unwrap();
    let seen = scan::Progress::default();
    let tree = scan::scan(path.as_ref(), &options, &heap, &session, &seen, |seen| {
        !progress || screen.progress("Scanning...", || Step::from(seen))
    });
    let tree = match tree {
        Ok(tree) => tree,
        Err(error) => {
            drop(screen);
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let actions: &mut dyn Actions = if pretends { &mut Pretend(&tree) } else { &mut ReadOnly(&tree) };
    assert!(!panics, "as was asked for");
    let end = browse::run(&mut screen, actions, &order, look);
    drop(screen);
    match end {
        Ok(End::Quit) => (),
        Ok(End::Signal(signal)) => std::process::exit(128 + signal),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
