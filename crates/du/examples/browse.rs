//! Scans a path and browses it: `browse [-e] [--no-progress] PATH`. The tests of the browser drive it in a terminal.
use memfold::heap::{Heap, Options};
use memfold_du::browse::{self, Actions, End, ReadOnly, Screen, Step};
use memfold_du::scan;

fn main() {
    let mut options = scan::Options::default();
    let (mut progress, mut panics, mut path) = (true, false, None);
    for argument in std::env::args_os().skip(1) {
        match argument.to_str() {
            Some("-e") => options.extended = true,
            Some("--no-progress") => progress = false,
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
    let actions: &mut dyn Actions = &mut ReadOnly(&tree);
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
