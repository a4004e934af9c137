//! How long it takes to open the directory with most entries of a tree, and to take steps there: `browse_time PATH`.
use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use memfold::heap::{Heap, Options};
use memfold_du::browse::{Browser, Options as Look, ReadOnly, Sort, View};
use memfold_du::scan;
use memfold_du::source::Source;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn memory(when: &str) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    for line in status.lines().filter(|line| line.starts_with("VmHWM") || line.starts_with("VmRSS")) {
        println!("{when} {line}");
    }
}

fn main() {
    let path = std::env::args_os().nth(1).expect("a path to scan");
    let heap = Heap::new(Options::new().block_size(64 << 10).alignment(16).codec("zstd:3")).unwrap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    let progress = scan::Progress::default();
    let tree =
        scan::scan(path.as_ref(), &scan::Options::default(), &heap, &session, &progress, |_| true).unwrap();
    let slots = |number| tree.row(number).unwrap().contents().slots;
    let largest = (0..tree.numbers()).max_by_key(|number| slots(*number)).unwrap();
    println!("directory {largest} has {} entries", slots(largest));
    memory("scanned");
    println!("{:?}", heap.stats());
    for natural in [false, true] {
        let began = Instant::now();
        let view = View::open(&order, &tree, largest, Sort { natural, ..Sort::default() }).unwrap();
        println!("opened in {:?}, natural: {natural}, {}", began.elapsed(), view.len());
        memory("opened");
    }
    let mut browser = Browser::new(&order, &tree, Look::default(), jiff::tz::TimeZone::UTC).unwrap();
    let mut terminal = Terminal::new(TestBackend::new(120, 50)).unwrap();
    let actions = ReadOnly(&tree);
    let mut press = |browser: &mut Browser<'_, '_>, key| {
        let began = Instant::now();
        browser.key(&actions, KeyEvent::new(key, KeyModifiers::NONE));
        browser.prepare(&tree, terminal.size().unwrap());
        terminal.draw(|frame| browser.draw(frame)).unwrap();
        began.elapsed()
    };
    memory("browser");
    // Down to it.
    let mut above = vec![];
    let mut at = largest;
    while at != 0 {
        above.push(at);
        at = tree.above(at).unwrap();
    }
    let mut opened = Default::default();
    for number in above.into_iter().rev() {
        while browser.selected_directory() != Some(number) {
            press(&mut browser, KeyCode::Down);
        }
        opened = press(&mut browser, KeyCode::Enter);
    }
    memory("entered");
    println!("{:?}", heap.stats());
    println!("opened and drawn in {opened:?}");
    for (name, key) in [("down", KeyCode::Down), ("page down", KeyCode::PageDown), ("up", KeyCode::Up)] {
        let mut times: Vec<_> = (0..200).map(|_| press(&mut browser, key)).collect();
        times.sort();
        memory(name);
        println!("{name}: median {:?}, longest {:?}", times[100], times[199]);
    }
    println!("end: {:?}", press(&mut browser, KeyCode::End));
    memory("end");
    println!("sort by name: {:?}", press(&mut browser, KeyCode::Char('n')));
    memory("sorted");
    println!("up: {:?}", press(&mut browser, KeyCode::Left));
    memory("browsed");
}
