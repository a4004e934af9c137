//! The phases, for one contender.

use crate::random::Random;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::area::Area;
use crate::clock::{others_cpu, resident_bytes, thread_cpu};
use crate::keeper::Keeper;
use crate::watch::{ALLOWED, Watch};

const LEAST: usize = 200;
const MOST: usize = 3000;
/// Payloads are pieces of this many random bytes.
const SOURCE: usize = 512 << 10;
const ROUNDS: u32 = 5;
const DELETED: u8 = 128;

/// One contender's run.
pub struct Run<'a> {
    name: &'a str,
    json: bool,
    keeper: Box<dyn Keeper>,
    watch: Watch,
    random: Random,
    source: Area<u8>,
    /// How many times each blob has been put, and whether it is deleted.
    versions: Area<u8>,
    payload: usize,
    there: usize,
    operations: usize,
    wall: Duration,
    cpu: Duration,
    others: Duration,
}

impl<'a> Run<'a> {
    /// A run with `blobs` blobs, kept by `keeper`.
    pub fn new(name: &'a str, json: bool, blobs: usize, keeper: Box<dyn Keeper>) -> Self {
        let mut random = Random(42);
        // SAFETY: zeroed bytes.
        let (mut source, versions) = unsafe { (Area::<u8>::new(SOURCE), Area::<u8>::new(blobs)) };
        for word in source.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        let (wall, cpu, others) = (Duration::ZERO, Duration::ZERO, others_cpu());
        let watch = Watch::start();
        let (payload, there, operations) = (0, 0, 0);
        Run {
            name,
            json,
            keeper,
            watch,
            random,
            source,
            versions,
            payload,
            there,
            operations,
            wall,
            cpu,
            others,
        }
    }

    /// Runs the fill, five rounds, and the final deletion.
    pub fn all(mut self) {
        let blobs = self.versions.len();
        let everything = self.order(blobs);
        self.put("fill", &everything, size_of_val(&*everything));
        drop(everything);
        for round in 1..=ROUNDS {
            let order = self.order(blobs);
            let half = &order[..blobs / 2];
            self.delete(&format!("delete {round}"), half, size_of_val(&*order));
            let mut again = self.order(blobs / 2);
            for i in again.iter_mut() {
                *i = half[*i as usize];
            }
            self.put(&format!("refill {round}"), &again, size_of_val(&*order) + size_of_val(&*again));
        }
        let order = self.order(blobs);
        self.delete("delete 90%", &order[..blobs / 10 * 9], size_of_val(&*order));
        let (wall, cpu) = (self.wall, self.cpu);
        self.print("all", self.operations, None, wall, cpu);
        let report = self.keeper.report();
        if !report.is_empty() && !self.json {
            println!("{:9} {report}", self.name);
        }
    }

    /// Numbers below `n`, shuffled.
    fn order(&mut self, n: usize) -> Area<u32> {
        // SAFETY: zeroed integers.
        let mut order = unsafe { Area::<u32>::new(n) };
        for i in 0..n {
            let j = self.random.below(i + 1);
            order[i] = order[j];
            order[j] = i as u32;
        }
        order
    }

    fn put(&mut self, phase: &str, which: &[u32], own: usize) {
        self.measure(phase, which, own, Duration::ZERO, |run, i| {
            run.versions[i] = (run.versions[i] & !DELETED) + 1;
            let piece = piece(i, run.versions[i]);
            run.payload += piece.len();
            run.keeper.put(i, &run.source[piece]);
        });
    }

    fn delete(&mut self, phase: &str, which: &[u32], own: usize) {
        // Measuring takes time, too.
        let wait = ALLOWED - Duration::from_millis(1);
        self.measure(phase, which, own, wait, |run, i| {
            run.payload -= piece(i, run.versions[i]).len();
            run.keeper.free(i);
            run.versions[i] |= DELETED;
        });
    }

    /// Runs a phase, measures, prints and verifies. `own` is the size of the shuffled orders of operations,
    /// which belong to the benchmark and not to the contender.
    fn measure(
        &mut self,
        phase: &str,
        which: &[u32],
        own: usize,
        wait: Duration,
        mut operation: impl FnMut(&mut Self, usize),
    ) {
        self.watch.shared().own.store(own, Ordering::Relaxed);
        let watched = self.watch.shared().clone();
        self.watch.worst();
        let (cpu, start) = (thread_cpu(), Instant::now());
        for &i in which {
            operation(self, i as usize);
            watched.payload.store(self.payload, Ordering::Relaxed);
        }
        let (wall, cpu) = (start.elapsed(), thread_cpu() - cpu);
        std::thread::sleep(wait);
        let rss = (resident_bytes() - own) as f64 / self.payload as f64;
        let worst = if wait.is_zero() { rss } else { self.watch.worst() };
        // The cost includes what other threads did since the last phase was measured, for example while its blobs
        // were verified.
        let others = others_cpu();
        let cpu = cpu + others - self.others;
        self.others = others;
        self.there = self.versions.iter().filter(|v| **v != 0 && **v & DELETED == 0).count();
        self.print(phase, which.len(), Some((rss, worst)), wall, cpu);
        self.operations += which.len();
        self.wall += wall;
        self.cpu += cpu;
        self.verify();
    }

    fn print(&self, phase: &str, n: usize, ratios: Option<(f64, f64)>, wall: Duration, cpu: Duration) {
        let per = |time: Duration| time.as_nanos() as f64 / n as f64;
        let (wall, cpu, (name, there)) = (per(wall), per(cpu), (self.name, self.there));
        if self.json {
            let (rss, worst) = ratios.map_or(("null".into(), "null".into()), |(rss, worst)| {
                (format!("{rss:.4}"), format!("{worst:.4}"))
            });
            println!(
                "{{\"contender\":\"{name}\",\"phase\":\"{phase}\",\"operations\":{n},\"blobs\":{there},\
                 \"rss_per_payload\":{rss},\"worst\":{worst},\"wall_ns\":{wall:.1},\"cpu_ns\":{cpu:.1}}}"
            );
            return;
        }
        let (rss, worst) = ratios.map_or((String::new(), String::new()), |(rss, worst)| {
            (format!("{rss:.3}"), format!("{worst:.3}"))
        });
        println!("{name:9} {phase:10} {n:>10} {rss:>11} {worst:>9} {wall:>10.0} {cpu:>9.0}");
    }

    /// Compares every blob with what was put.
    fn verify(&self) {
        for i in 0..self.versions.len() {
            if self.versions[i] & DELETED == 0 {
                let right = self.keeper.is(i, &self.source[piece(i, self.versions[i])]);
                assert!(right, "blob {i} came back different");
            }
        }
    }
}

/// The piece of the source that is the payload of blob `i` when it is put for the n-th time.
fn piece(i: usize, version: u8) -> Range<usize> {
    let mut random = Random(i as u64 * 64 + u64::from(version & 63));
    let bits = random.next() as usize;
    let len = LEAST + (bits >> 32) % (MOST - LEAST + 1);
    let start = (bits & 0xffff_ffff) % (SOURCE - MOST);
    start..start + len
}
