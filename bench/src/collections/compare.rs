//! Compares structures: each repeat runs them one after the other, each in its own process. Prints medians,
//! and the ratios of memfold's structures to some of the others.

use std::collections::HashMap;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::load::{Finds, Key, Load, Zipf, cpu, memory, peak};
use super::{Kind, cpp_peers};

/// A structure to be measured.
pub struct Peer {
    /// Its name on the command line.
    pub name: &'static str,
    /// Whether it is in `peers.cc`.
    pub cpp: bool,
    /// Whether it is memfold's.
    pub own: bool,
}

pub const fn rust(name: &'static str) -> Peer {
    Peer { name, cpp: false, own: false }
}

pub const fn cpp(name: &'static str) -> Peer {
    Peer { name, cpp: true, own: false }
}

pub const fn own(name: &'static str) -> Peer {
    Peer { name, cpp: false, own: true }
}

/// The operations of a structure.
pub trait Set<K> {
    fn insert(&mut self, x: &K);
    fn contains(&self, x: &K) -> bool;
    /// Reads all elements.
    fn sum(&self) -> u64;
    fn remove(&mut self, x: &K);
    fn len(&self) -> u64;
    /// Increments an element's count, in a map.
    fn count(&mut self, _: &K) {}
    /// Called when all elements were added.
    fn settle(&mut self) {}
}

/// The result of one run: CPU times in seconds for all operations of a kind, and sizes in bytes.
#[derive(Serialize, Deserialize, Clone)]
pub struct Run {
    pub peer: String,
    pub len: u64,
    pub found: u64,
    pub sum: u64,
    pub left: u64,
    pub insert: f64,
    pub find: f64,
    /// 0 if the structure does not count.
    #[serde(default)]
    pub count: f64,
    pub scan: f64,
    pub remove: f64,
    pub bytes: u64,
    pub half_bytes: u64,
    /// Peak memory of the whole process.
    pub peak: u64,
}

/// Looks up as many elements as there are; returns how many were found, and the time.
fn finds<K: Key>(load: &Load, set: &impl Set<K>) -> (u64, f64) {
    if load.finds == Finds::Uniform {
        let begin = cpu();
        let found = (0..load.elements).filter(|i| set.contains(&K::at(load, load.turn(*i)))).count() as u64;
        return (found, cpu() - begin);
    }
    let (zipf, mut ranks) = (Zipf::new(load.elements), vec![0; 1 << 16]);
    let (mut found, mut time) = (0, 0.0);
    for from in (0..load.elements).step_by(ranks.len()) {
        ranks.truncate((load.elements - from) as usize);
        ranks.iter_mut().zip(from..).for_each(|(rank, i)| *rank = zipf.rank(i));
        let begin = cpu();
        found += ranks.iter().filter(|rank| set.contains(&K::at(load, **rank))).count() as u64;
        time += cpu() - begin;
    }
    (found, time)
}

/// All measurements of a structure.
pub fn run<K: Key>(peer: &str, load: Load, before: u64, mut set: impl Set<K>) -> Run {
    let begin = cpu();
    (0..load.elements).for_each(|i| set.insert(&K::at(&load, i)));
    set.settle();
    let insert = cpu() - begin;
    let (bytes, len) = (memory().saturating_sub(before), set.len());
    let (found, find) = finds(&load, &set);
    let begin = cpu();
    (0..load.elements).for_each(|i| set.count(&K::at(&load, load.turn(i))));
    let count = cpu() - begin;
    let begin = cpu();
    let sum = black_box(set.sum());
    let scan = cpu() - begin;
    let begin = cpu();
    (0..load.elements / 2).for_each(|i| set.remove(&K::at(&load, load.turn(i))));
    std::thread::sleep(Duration::from_secs(1));
    let remove = cpu() - begin;
    let half_bytes = memory().saturating_sub(before);
    let left = set.len();
    Run {
        peer: peer.into(),
        len,
        found,
        sum,
        left,
        insert,
        find,
        count,
        scan,
        remove,
        bytes,
        half_bytes,
        peak: peak(),
    }
}

/// What is compared, how often, and where the rows go.
pub struct Comparison<'a> {
    pub kind: Kind,
    pub load: Load,
    pub only: &'a [String],
    pub repeats: usize,
    pub out: Option<&'a Path>,
}

/// Whether the peer is wanted: its name contains one of these words, or none is given.
pub fn is_wanted(peer: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|part| peer.contains(&part.to_lowercase()))
}

/// An error for a word that no peer's name contains.
pub fn all_known<'n>(peers: impl Iterator<Item = &'n str> + Clone, only: &[String]) -> Result<(), String> {
    let is_unknown = |part: &&String| !peers.clone().any(|peer| is_wanted(peer, std::slice::from_ref(part)));
    let names = || peers.clone().collect::<Vec<_>>().join(", ");
    only.iter()
        .find(is_unknown)
        .map_or(Ok(()), |part| Err(format!("no peer has {part} in its name; there are {}", names())))
}

/// A peer and its runs so far.
struct Row {
    peer: &'static Peer,
    runs: Vec<Run>,
}

impl Comparison<'_> {
    /// The command that runs a peer once.
    fn command(&self, peer: &Peer, cpp: &Path) -> Result<Command, String> {
        let mut command = if peer.cpp {
            Command::new(cpp)
        } else {
            let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
            command.arg("one");
            command
        };
        let Load { elements, order, finds, universe, per_slab } = self.load;
        command.args([peer.name, &self.kind.to_string(), &elements.to_string(), &order.to_string()]);
        command.args([finds.to_string(), universe.to_string()]);
        if !peer.cpp {
            command.arg(per_slab.to_string());
        }
        Ok(command)
    }

    fn run_once(&self, peer: &Peer, cpp: &Path) -> Result<Run, String> {
        let output = self.command(peer, cpp)?.output().map_err(|error| format!("{}: {error}", peer.name))?;
        let said = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(said.trim())
            .map_err(|_| format!("{}: {}{said}", peer.name, String::from_utf8_lossy(&output.stderr)))
    }

    fn keep(&self, run: &Run, repeat: usize) -> Result<(), String> {
        let Some(out) = self.out else { return Ok(()) };
        let keep = || -> std::io::Result<()> {
            let mut row = serde_json::to_value(run)?;
            row["kind"] = self.kind.to_string().into();
            row["order"] = self.load.order.to_string().into();
            row["finds"] = self.load.finds.to_string().into();
            row["elements"] = self.load.elements.into();
            row["repeat"] = repeat.into();
            writeln!(std::fs::OpenOptions::new().create(true).append(true).open(out)?, "{row}")
        };
        keep().map_err(|error| format!("{}: {error}", out.display()))
    }

    /// Runs all peers and prints a table. Each repeat runs all peers one after the other, so that other work on
    /// the machine affects all of them.
    pub fn table(&self) -> Result<(), String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let cpp = cpp_peers(directory.path());
        if let Err(why) = &cpp {
            println!("without peers in C++: {why}");
        }
        all_known(self.kind.peers().iter().map(|peer| peer.name), self.only)?;
        let is_wanted = |peer: &&Peer| is_wanted(peer.name, self.only) && (!peer.cpp || cpp.is_ok());
        let mut rows: Vec<Row> =
            self.kind.peers().iter().filter(is_wanted).map(|peer| Row { peer, runs: Vec::new() }).collect();
        if rows.is_empty() {
            return Err(format!("{} can't run here", self.only.join(" and ")));
        }
        let cpp = cpp.unwrap_or_default();
        let mut truth: Option<(u64, u64, u64, u64)> = None;
        for repeat in 0..self.repeats.max(1) {
            for row in &mut rows {
                let run = self.run_once(row.peer, &cpp)?;
                let answer = (run.len, run.found, run.sum, run.left);
                if *truth.get_or_insert(answer) != answer {
                    return Err(format!("{} answers {answer:?}, others {truth:?}", row.peer.name));
                }
                self.keep(&run, repeat)?;
                row.runs.push(run);
            }
        }
        self.print(&rows);
        self.print_ratios(&rows);
        Ok(())
    }

    fn print(&self, rows: &[Row]) {
        let Load { elements, order, finds, .. } = self.load;
        let repeats = self.repeats.max(1);
        println!(
            "{elements} {}, {order}, finds {finds}, medians of {repeats}: ns of CPU an operation, bytes an element, MiB of the process at its peak",
            self.kind
        );
        println!(
            "{:<20} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>14} {:>8}",
            "", "insert", "find", "count", "scan", "remove", "bytes", "half removed", "peak"
        );
        let per = |seconds: f64, count: u64| seconds * 1e9 / count as f64;
        for Row { runs, .. } in rows {
            let of = |what: fn(&Run) -> f64| median(runs.iter().map(what).collect());
            let (len, left) = (runs[0].len, runs[0].left);
            println!(
                "{:<20} {:>8.0} {:>8.0} {:>8.0} {:>8.2} {:>8.0} {:>8.2} {:>14.2} {:>8.0}",
                runs[0].peer,
                per(of(|run| run.insert), elements),
                per(of(|run| run.find), elements),
                per(of(|run| run.count), elements),
                per(of(|run| run.scan), len),
                per(of(|run| run.remove), len - left),
                of(|run| run.bytes as f64) / len as f64,
                of(|run| run.half_bytes as f64) / left as f64,
                of(|run| run.peak as f64) / f64::from(1 << 20),
            );
        }
    }

    /// Prints the ratios of memfold's structures to the peers in [`Kind::bases`], of each repeat.
    fn print_ratios(&self, rows: &[Row]) {
        let by_name: HashMap<&str, &Row> = rows.iter().map(|row| (row.peer.name, row)).collect();
        for base in self.kind.bases().iter().filter_map(|name| by_name.get(name)) {
            for row in rows.iter().filter(|row| row.peer.own) {
                let ratio = |what: fn(&Run) -> f64| {
                    let all: Vec<f64> =
                        row.runs.iter().zip(&base.runs).map(|(a, b)| what(a) / what(b)).collect();
                    let low = all.iter().copied().fold(f64::INFINITY, f64::min);
                    let high = all.iter().copied().fold(0.0, f64::max);
                    format!("{:.2} ({low:.2}..{high:.2})", median(all))
                };
                println!(
                    "{} / {}: insert {}, find {}, count {}, scan {}, remove {}",
                    row.runs[0].peer,
                    base.runs[0].peer,
                    ratio(|run| run.insert),
                    ratio(|run| run.find),
                    ratio(|run| run.count),
                    ratio(|run| run.scan),
                    ratio(|run| run.remove),
                );
            }
        }
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    let (low, high) = (all[(all.len() - 1) / 2], all[all.len() / 2]);
    f64::midpoint(low, high)
}
