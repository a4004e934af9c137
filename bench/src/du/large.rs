//! A synthetic tree larger than any file system here: another process generates it as an export, and this one
//! imports and browses it.

use std::process::{Command, Stdio};
use std::time::Instant;

use crossterm::event::KeyCode;
use memfold_du::json;
use memfold_du::scan::Progress;
use memfold_du::source::{ROOT, Source};

use crate::browse::{self, Screen};
use crate::process::{peak, user};
use crate::random::Random;
use crate::tree;

/// Imports, opens, scrolls, and deletes everything.
pub fn run(entries: u64, extended: bool, frames: Option<u32>) -> Result<(), String> {
    let failed = |error: memfold_du::Error| error.to_string();
    let said = |error: std::io::Error| error.to_string();
    let heap = tree::heap(1, frames)?;
    let session = heap.session().map_err(|error| error.to_string())?;
    let order = heap.session().map_err(|error| error.to_string())?;
    let mut exporter = Command::new(std::env::current_exe().map_err(said)?);
    exporter.args(["export", "--entries", &entries.to_string()]).args(extended.then_some("-e"));
    let mut exporter = exporter.stdout(Stdio::piped()).spawn().map_err(said)?;
    let from = exporter.stdout.take().ok_or("the exporter has no output")?;
    let (began, before) = (Instant::now(), user());
    let import = json::Import { extended };
    let tick = |progress: &Progress| {
        if frames.is_none() {
            tree::follow(&heap, progress);
        }
        true
    };
    let mut tree = json::read(from, &import, &heap, &session, &Progress::default(), tick)
        .map_err(|error| error.to_string())?;
    exporter.wait().map_err(said)?;
    let items = tree.row(ROOT).map_err(failed)?.items;
    let show = |when: &str| {
        let peak = peak();
        println!(
            "{when}: peak {:.1} MiB, {:.1} bytes per entry",
            peak as f64 / f64::from(1 << 20),
            peak as f64 / items as f64
        );
    };
    println!(
        "{items} entries in {} directories: {:.1} s, with {:.1} s of user CPU time",
        tree.numbers(),
        began.elapsed().as_secs_f64(),
        user() - before
    );
    show("imported");
    tree::will_be_browsed(&heap)?;
    let (widest, slots) = browse::widest(&tree).map_err(failed)?;
    let began = Instant::now();
    drop(browse::open(&order, &tree, widest).map_err(failed)?);
    println!(
        "the widest directory, {slots} entries: opened in {:.1} ms",
        began.elapsed().as_secs_f64() * 1e3
    );
    let mut random = Random(7);
    let mut times = Vec::new();
    for _ in 0..1000 {
        let number = random.below(tree.numbers() as usize) as u32;
        let began = Instant::now();
        drop(browse::open(&order, &tree, number).map_err(failed)?);
        times.push(began.elapsed());
    }
    times.sort_unstable();
    println!("a thousand random directories: opened in {:?} (median), at most {:?}", times[500], times[999]);
    let mut screen = Screen::new(&order, &tree, widest).map_err(failed)?;
    for (name, key) in [("down", KeyCode::Down), ("page down", KeyCode::PageDown), ("up", KeyCode::Up)] {
        let (median, longest) = screen.press_often(key, 300);
        println!("key {name}: {median:?} (median), at most {longest:?}");
    }
    println!("jump to the end: {:?}", screen.press(KeyCode::End));
    println!("sort by name: {:?}", screen.press(KeyCode::Char('n')));
    show("browsed");
    drop(screen);
    let began = Instant::now();
    browse::delete_all(&mut tree).map_err(failed)?;
    println!("all deleted in memory: {:.2} s", began.elapsed().as_secs_f64());
    show("deleted");
    Ok(())
}
