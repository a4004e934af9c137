//! `bench-collections plots`: every insertion's time, for slab lists and their peers.
//! `bench/plots/insertions.py` draws it.
//!
//! Each structure in turn is traced in its own process (`trace.rs`, and the same in `peers.cc`), with elements in
//! random order and in sequence; the traces are summed up (`summary.rs`) in one file, `plots.json`.

mod allocations;
pub mod clock;
mod summary;
pub mod trace;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use super::compare::{all_known, is_wanted};
use super::cpp_peers;
use super::load::Order;

/// How many memory samples a run takes.
const SAMPLES: u64 = 300;
/// If frames are few, they may hold the elements' own bytes divided by this.
const RESIDENT: u64 = 16;

/// A traced structure.
struct Peer {
    name: &'static str,
    shown: &'static str,
    cpp: bool,
    /// Whether it is in a heap with few frames.
    cold: bool,
}

const fn peer(name: &'static str, shown: &'static str) -> Peer {
    Peer { name, shown, cpp: false, cold: false }
}

const PEERS: &[Peer] = &[
    peer("slablist", "slab list"),
    Peer { cold: true, ..peer("slablist", "slab list, few frames") },
    Peer { cpp: true, ..peer("absl", "absl::btree_set") },
    peer("btreeset", "BTreeSet"),
    peer("indexset", "indexset"),
    peer("avl", "AVL tree"),
    Peer { cpp: true, ..peer("std::set", "std::set (red-black)") },
    peer("skiplist", "crossbeam skip list"),
];

/// One structure in one order.
#[derive(Serialize)]
struct Traced {
    peer: &'static str,
    order: String,
    insert: summary::Summary,
    remove: summary::Summary,
    samples: Vec<Vec<f64>>,
}

#[derive(Serialize)]
struct Grid {
    columns: usize,
    rows: usize,
    rows_of_ten: usize,
}

/// Everything that is drawn.
#[derive(Serialize)]
struct Page {
    version: u32,
    elements: u64,
    frames: u32,
    frame_bytes: u32,
    machine: String,
    /// The load average of one minute at the beginning.
    load: String,
    clock_ns: f64,
    grid: Grid,
    runs: Vec<Traced>,
}

/// Block size of the heap, its default.
const BLOCK: u32 = 32 << 10;

/// What is traced, and where the result goes.
pub struct Plots<'a> {
    pub out: &'a Path,
    pub elements: u64,
    /// 0: enough for 1/16 of the elements.
    pub frames: u32,
    pub only: &'a [String],
}

impl Plots<'_> {
    /// Traces everything and writes `plots.json`.
    pub fn make(&self) -> Result<(), String> {
        all_known(PEERS.iter().map(|peer| peer.name), self.only)?;
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let cpp = cpp_peers(directory.path());
        if let Err(why) = &cpp {
            eprintln!("without peers in C++: {why}");
        }
        let frames = match self.frames {
            0 => u32::try_from(self.elements * 8 / RESIDENT / u64::from(BLOCK)).unwrap_or(u32::MAX).max(8),
            frames => frames,
        };
        let rate = clock::Rate::new();
        let mut page = Page {
            version: 1,
            elements: self.elements,
            frames,
            frame_bytes: BLOCK,
            machine: machine(),
            load: std::fs::read_to_string("/proc/loadavg")
                .map_or(String::new(), |text| text.split(' ').next().unwrap_or_default().into()),
            clock_ns: clock::own_cost() as f64 / rate.per_ns(),
            grid: Grid { columns: summary::COLUMNS, rows: summary::ROWS, rows_of_ten: summary::ROWS_OF_TEN },
            runs: Vec::new(),
        };
        eprintln!("two looks at the clock differ by {:.0} ns", page.clock_ns);
        for order in [Order::Random, Order::Sequential] {
            let mut left = None;
            for peer in PEERS {
                let is_wanted = is_wanted(peer.name, self.only);
                let program = match (&cpp, peer.cpp) {
                    (Err(_), true) => continue,
                    (Ok(cpp), true) => Some(cpp),
                    (_, false) => None,
                };
                if is_wanted {
                    let frames = if peer.cold { frames } else { 0 };
                    let (traced, now_left) = self.trace(peer, order, frames, program, directory.path())?;
                    if *left.get_or_insert(now_left) != now_left {
                        return Err(format!(
                            "{} is left with {now_left} elements, others with {left:?}",
                            peer.shown
                        ));
                    }
                    page.runs.push(traced);
                }
            }
        }
        let to = self.out.join("plots.json");
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(self.out)?;
            std::fs::write(&to, serde_json::to_string(&page)?)
        };
        write().map_err(|error| format!("{}: {error}", to.display()))
    }

    fn trace(
        &self,
        peer: &Peer,
        order: Order,
        frames: u32,
        cpp: Option<&PathBuf>,
        directory: &Path,
    ) -> Result<(Traced, u64), String> {
        let records = directory.join("records");
        let (elements, samples) = (self.elements.to_string(), SAMPLES.to_string());
        let mut command = if let Some(cpp) = cpp {
            let mut command = Command::new(cpp);
            command.args([peer.name, "trace", &elements, &order.to_string(), &samples]);
            command
        } else {
            let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
            command.args(["trace", peer.name, &elements, &order.to_string(), &frames.to_string(), &samples]);
            command
        };
        let output = command.arg(&records).output().map_err(|error| format!("{}: {error}", peer.name))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let report: trace::Report = serde_json::from_str(said.trim())
            .map_err(|_| format!("{}: {}{said}", peer.name, String::from_utf8_lossy(&output.stderr)))?;
        let records = read(&records, self.elements).map_err(|error| format!("{}: {error}", peer.name))?;
        let (inserted, removed) = records.split_at(self.elements as usize);
        let traced = Traced {
            peer: peer.shown,
            order: order.to_string(),
            insert: summary::summary(inserted),
            remove: summary::summary(removed),
            samples: report.samples,
        };
        eprintln!("{:<24} {order:<10} {}", peer.shown, traced.insert.line());
        Ok((traced, report.left))
    }
}

/// The records of a file: nanoseconds and flags.
fn read(path: &Path, elements: u64) -> Result<Vec<(u32, u32)>, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    if bytes.len() as u64 != (elements + elements / 2) * 8 {
        return Err(format!("{} bytes of records", bytes.len()));
    }
    let word = |bytes: &[u8]| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Ok(bytes.chunks_exact(8).map(|record| (word(&record[..4]), word(&record[4..]))).collect())
}

fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    line.trim_start_matches([' ', '\t', ':']).to_owned()
}
