//! Scans and says how much memory it took.
use memfold::heap::{Heap, Options};
use memfold_du::scan;
use memfold_du::source::Source;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let threads = args[2].parse().unwrap();
    let extended = args.get(3).is_some_and(|a| a == "-e");
    let block = args.get(4).map_or(64, |a| a.parse().unwrap()) << 10;
    let codec = args.get(5).map_or("zstd:3", |a| a.as_str());
    let heap = Heap::new(Options::new().block_size(block).alignment(16).codec(codec)).unwrap();
    let session = heap.session().unwrap();
    let options = scan::Options { threads, extended, ..Default::default() };
    let progress = scan::Progress::default();
    let tree = scan::scan(args[1].as_ref(), &options, &heap, &session, &progress, |_| true).unwrap();
    let row = tree.row(0).unwrap();
    println!("{row:?}");
    let stats = heap.stats();
    println!(
        "{stats:?} memory {} {:.2}",
        stats.memory_bytes(),
        stats.memory_bytes() as f64 / row.items as f64
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    for line in status.lines().filter(|l| l.starts_with("VmHWM") || l.starts_with("Rss")) {
        println!("{line}");
    }
}
