//! How long it takes to open the directory with most entries of a tree, and to take steps there: `browse_time PATH`; or of one that has so many
//! files in its root, and stands nowhere else: `browse_time --files COUNT`.
use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use memfold::heap::{Heap, Options, Session};
use memfold_du::browse::{Browser, Options as Look, ReadOnly, Sort, View};
use memfold_du::entry::{Entry, Kind};
use memfold_du::scan;
use memfold_du::source::Source;
use memfold_du::tree::{Builder, Row, Tree};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn memory(when: &str) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    for line in status.lines().filter(|line| line.starts_with("VmHWM") || line.starts_with("VmRSS")) {
        println!("{when} {line}");
    }
}

fn files<'s>(heap: &'s Heap, session: &'s Session<'_>, count: u64) -> Tree<'s> {
    let file = Entry { name: b"/", kind: Kind::Directory(0), size: 0, blocks: 8, link: None, extended: None };
    let mut builder = Builder::new(heap, session, file.into(), Row::default()).unwrap();
    for number in 0..count {
        let size = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
        let name = format!("file-{}.dat", number * 7919 % count);
        let (name, blocks) = (name.as_bytes(), size.div_ceil(4096) * 8);
        builder.add(&Entry { name, kind: Kind::File, size, blocks, ..file }).unwrap();
    }
    builder.end().unwrap();
    builder.finish(vec![0]).unwrap()
}

fn main() {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let heap = Heap::new(Options::new().block_size(64 << 10).alignment(16).codec("zstd:3")).unwrap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    let tree = match &arguments[..] {
        [path] => {
            let progress = scan::Progress::default();
            scan::scan(path.as_ref(), &scan::Options::default(), &heap, &session, &progress, |_| true)
                .unwrap()
        }
        [_, count] => files(&heap, &session, count.to_str().unwrap().parse().unwrap()),
        _ => panic!("a path, or --files and how many"),
    };
    let slots = |number| tree.row(number).unwrap().contents().slots;
    let largest = (0..tree.numbers()).max_by_key(|number| slots(*number)).unwrap();
    println!("directory {largest} has {} entries", slots(largest));
    memory("scanned");
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
