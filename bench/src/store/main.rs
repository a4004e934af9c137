//! Memory for compressed blobs: the store against allocators.
//!
//! A million blobs of 200 to 3000 bytes are put, then five times half of
//! them, chosen at random, are deleted and as many put again, then 90 % are
//! deleted. An operation is one put, which copies the payload in, or one
//! deletion. Each contender runs in a process of its own with the same
//! random sequence. After each phase the resident size is divided by the
//! bytes of payload; after a deletion that is 100 ms later. Time is wall time
//! of the operations, and CPU time of the whole process up to the moment of
//! measuring: what background threads do counts.
//!
//! The resident size is the process's whole `VmRSS`, so the array of slots (8
//! bytes a blob, for all), the program and the source of payloads count.
//! After each phase every blob is compared with what was put.

mod area;
mod keeper;

use std::process::Command;
use std::time::{Duration, Instant};

use area::Area;
use keeper::{Keeper, Kept, Malloc, Slots};

const CONTENDERS: [&str; 4] = ["store", "glibc", "mimalloc", "jemalloc"];
const LEAST: usize = 200;
const MOST: usize = 3000;
/// Payloads are pieces of this many random bytes.
const SOURCE: usize = 512 << 10;
const ROUNDS: u32 = 5;
const DELETED: u8 = 128;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_default();
    if first == "--one" {
        let name = arguments.next().expect("a contender");
        let blobs = arguments.next().and_then(|n| n.parse().ok()).expect("a number of blobs");
        return one(&name, blobs);
    }
    let mut blobs = 1_000_000;
    let mut names: Vec<String> = Vec::new();
    for argument in std::iter::once(first).chain(arguments).filter(|a| !a.is_empty()) {
        match argument.parse() {
            Ok(n) => blobs = n,
            Err(_) if CONTENDERS.contains(&&*argument) => names.push(argument),
            Err(_) => {
                eprintln!("usage: bench-store [BLOBS] [{}]...", CONTENDERS.join("|"));
                std::process::exit(2);
            }
        }
    }
    if names.is_empty() {
        names = CONTENDERS.map(String::from).to_vec();
    }
    println!(
        "{:9} {:10} {:>9} {:>9} {:>12} {:>11}",
        "contender", "phase", "blobs", "RSS/pay", "wall ns/op", "CPU ns/op"
    );
    for name in names {
        let exe = std::env::current_exe().expect("this program");
        let status = Command::new(exe).args(["--one", &name, &blobs.to_string()]).status();
        assert!(status.expect("the contender runs").success(), "{name} failed");
    }
}

/// Runs one contender, in this process.
fn one(name: &str, blobs: usize) {
    // SAFETY: zeroed atomics.
    let slots: Slots = unsafe { Area::new(blobs) };
    let keeper: Box<dyn Keeper> = match name {
        "store" => Box::new(Kept::new(slots)),
        "glibc" => Box::new(Malloc { slots, malloc: libc::malloc, free: libc::free }),
        "mimalloc" => {
            Box::new(Malloc { slots, malloc: libmimalloc_sys::mi_malloc, free: libmimalloc_sys::mi_free })
        }
        "jemalloc" => {
            Box::new(Malloc { slots, malloc: tikv_jemalloc_sys::malloc, free: tikv_jemalloc_sys::free })
        }
        _ => panic!("no contender {name}"),
    };
    Run::new(name, blobs, keeper).all();
}

struct Run<'a> {
    name: &'a str,
    keeper: Box<dyn Keeper>,
    random: Random,
    source: Area<u8>,
    /// How often each blob has been put, and whether it is deleted.
    versions: Area<u8>,
    payload: usize,
    there: usize,
    operations: usize,
    wall: Duration,
    cpu: Duration,
    last_cpu: Duration,
    /// Bytes of the orders of operations at hand.
    orders: usize,
}

impl<'a> Run<'a> {
    fn new(name: &'a str, blobs: usize, keeper: Box<dyn Keeper>) -> Self {
        let mut random = Random(42);
        // SAFETY: zeroed bytes.
        let (mut source, versions) = unsafe { (Area::<u8>::new(SOURCE), Area::<u8>::new(blobs)) };
        for word in source.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        let (wall, cpu, last_cpu) = (Duration::ZERO, Duration::ZERO, cpu_time());
        Run {
            name,
            keeper,
            random,
            source,
            versions,
            payload: 0,
            there: 0,
            operations: 0,
            wall,
            cpu,
            last_cpu,
            orders: 0,
        }
    }

    fn all(mut self) {
        let blobs = self.versions.len();
        let everything = self.order(blobs);
        self.orders = size_of_val(&*everything);
        self.put("fill", &everything);
        drop(everything);
        for round in 1..=ROUNDS {
            let order = self.order(blobs);
            let half = &order[..blobs / 2];
            self.orders = size_of_val(&*order);
            self.delete(&format!("delete {round}"), half);
            let mut again = self.order(blobs / 2);
            for i in again.iter_mut() {
                *i = half[*i as usize];
            }
            self.orders += size_of_val(&*again);
            self.put(&format!("refill {round}"), &again);
        }
        let order = self.order(blobs);
        self.orders = size_of_val(&*order);
        self.delete("delete 90%", &order[..blobs / 10 * 9]);
        let (n, wall, cpu) =
            (self.operations as f64, self.wall.as_nanos() as f64, self.cpu.as_nanos() as f64);
        println!(
            "{:9} {:10} {:>9} {:>9} {:>12.0} {:>11.0}",
            self.name,
            "all",
            self.operations,
            "",
            wall / n,
            cpu / n
        );
        let report = self.keeper.report();
        if !report.is_empty() {
            println!("{:9} {report}", self.name);
        }
    }

    /// Numbers below `n`, shuffled, in memory that the next deletion gives back.
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

    fn put(&mut self, phase: &str, which: &[u32]) {
        self.start();
        let start = Instant::now();
        for &i in which {
            let i = i as usize;
            self.versions[i] = (self.versions[i] & !DELETED) + 1;
            let piece = piece(i, self.versions[i]);
            self.payload += piece.len();
            self.keeper.put(i, &self.source[piece]);
        }
        self.there += which.len();
        self.finish(phase, which, start.elapsed(), Duration::ZERO);
    }

    fn delete(&mut self, phase: &str, which: &[u32]) {
        self.start();
        let start = Instant::now();
        for &i in which {
            let i = i as usize;
            self.payload -= piece(i, self.versions[i]).len();
            self.keeper.free(i);
            self.versions[i] |= DELETED;
        }
        self.there -= which.len();
        self.finish(phase, which, start.elapsed(), Duration::from_millis(99));
    }

    fn start(&mut self) {
        self.last_cpu = cpu_time();
    }

    /// Measures, prints and verifies.
    fn finish(&mut self, phase: &str, which: &[u32], wall: Duration, wait: Duration) {
        std::thread::sleep(wait);
        // The order of the operations (for a refill, also that of the
        // deletion before) is the bench's and not the contender's.
        let rss = resident_bytes() - self.orders;
        let cpu = cpu_time() - self.last_cpu;
        let n = which.len() as f64;
        println!(
            "{:9} {:10} {:>9} {:>9.3} {:>12.0} {:>11.0}",
            self.name,
            phase,
            self.there,
            rss as f64 / self.payload as f64,
            wall.as_nanos() as f64 / n,
            cpu.as_nanos() as f64 / n
        );
        self.operations += which.len();
        self.wall += wall;
        self.cpu += cpu;
        for i in 0..self.versions.len() {
            if self.versions[i] & DELETED == 0 {
                let right = self.keeper.is(i, &self.source[piece(i, self.versions[i])]);
                assert!(right, "blob {i} came back different");
            }
        }
    }
}

/// The piece of the source that is blob `i` when put for the n-th time.
fn piece(i: usize, version: u8) -> std::ops::Range<usize> {
    let mut random = Random(i as u64 * 64 + u64::from(version & 63));
    let bits = random.next() as usize;
    let len = LEAST + (bits >> 32) % (MOST - LEAST + 1);
    let start = (bits & 0xffff_ffff) % (SOURCE - MOST);
    start..start + len
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: usize = statm.split(' ').nth(1).and_then(|p| p.parse().ok()).expect("resident pages");
    pages * 4096
}

/// User and system time of the whole process.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `time` only.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
