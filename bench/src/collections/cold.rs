//! How much memory elements take when nearly all of them are cold, and how long it takes to find them.

use std::time::Instant;

use memfold::collections::SlabList;
use memfold::heap::{Error, Heap, Limit, Options, Session};

use super::load::{Finds, Zipf, cpu, memory, mix};

/// Frames may hold the elements' own bytes divided by this.
const RESIDENT: u64 = 16;
/// Elements are inserted in runs of this length: runs are in order, and elements are in random order within a
/// run. So each block is compressed a few times, not millions of times.
const RUN: usize = 20_000;

/// Elements, in order.
fn all(what: &str, elements: u64) -> Vec<u64> {
    let mut all: Vec<u64> = match what {
        "sequential" => (0..elements).collect(),
        "below 16 n" => (0..elements).map(|i| mix(i) % (16 * elements)).collect(),
        _ => (0..elements).map(mix).collect(),
    };
    all.sort_unstable();
    all.dedup();
    all
}

/// How heaps keep what is cold.
#[derive(clap::Args)]
pub struct Cold {
    /// The heap's codec
    #[arg(long, default_value = "zstd:1")]
    codec: String,
    /// Bytes of a block
    #[arg(long, default_value_t = 32 << 10)]
    block: usize,
}

impl Cold {
    /// A heap with this many frames.
    fn heap(&self, frames: u64) -> Result<Heap, String> {
        let frames = Limit::Blocks(u32::try_from(frames).unwrap_or(u32::MAX));
        let options = Options::new().codec(&self.codec).block_size(self.block).limit(frames);
        Heap::new(options).map_err(|error| error.to_string())
    }

    /// Frames for the resident part of this many elements.
    fn frames(&self, elements: u64) -> u64 {
        (elements * 8 / RESIDENT / self.block as u64).max(8)
    }
}

fn fill<'s>(session: &'s Session<'_>, all: &mut [u64], is_random: bool) -> Result<SlabList<'s, u64>, String> {
    let mut list = SlabList::new(session);
    for run in all.chunks_mut(RUN) {
        if is_random {
            run.sort_unstable_by_key(|x| mix(*x));
        }
        run.iter().try_for_each(|x| list.insert(x).map(|_| ())).map_err(|error| error.to_string())?;
    }
    Ok(list)
}

/// Fills lists and prints bytes per element: of the whole process, and as the heap reports it.
pub fn table(elements: u64, cold: &Cold) -> Result<(), String> {
    println!(
        "{elements} elements, {}, blocks of {}, frames for 1/{RESIDENT} of their bytes: bytes an element",
        cold.codec, cold.block
    );
    println!("{:<28} {:>8} {:>8} {:>8} {:>8}", "", "all", "payload", "tables", "frames");
    for what in ["sequential", "below 16 n", "of 64 bits"] {
        let mut all = all(what, elements);
        let before = memory();
        let heap = cold.heap(cold.frames(elements))?;
        let session = heap.session().map_err(|error| error.to_string())?;
        let list = fill(&session, &mut all, what != "sequential")?;
        let (len, stats) = (list.len() as f64, heap.stats());
        println!(
            "{what:<28} {:>8.2} {:>8.2} {:>8.2} {:>8.2}",
            memory().saturating_sub(before) as f64 / len,
            stats.payload_bytes as f64 / len,
            (stats.table_bytes + list.own_bytes() as u64) as f64 / len,
            stats.frame_bytes as f64 / len
        );
    }
    Ok(())
}

/// The positions of the elements to find. With Zipf's law, a rank is a position, or its position is scattered
/// over all.
fn wanted(finds: Finds, is_scattered: bool, len: u64, count: u64) -> Vec<u64> {
    let zipf = Zipf::new(len);
    (0..count)
        .map(|i| match finds {
            Finds::Uniform => mix(i) % len,
            Finds::Zipf if is_scattered => {
                (u128::from(zipf.rank(i)) * 2_654_435_761 % u128::from(len)) as u64
            }
            Finds::Zipf => zipf.rank(i),
        })
        .collect()
}

/// Finds elements in a fully resident list and in one that is almost entirely cold; prints nanoseconds of CPU
/// time per find, and their ratio.
///
/// With Zipf's law, the most frequently wanted elements are either adjacent (as if recent elements were
/// wanted most) or scattered.
pub fn finds(elements: u64, cold: &Cold, finds: Finds, repeats: usize) -> Result<(), String> {
    let finds_made = elements.min(500_000);
    println!(
        "{elements} elements of 64 bits, {}, blocks of {}, {finds_made} finds, {finds}: ns of CPU a find",
        cold.codec, cold.block
    );
    println!(
        "{:<28} {:>8} {:>8} {:>8} {:>12} {:>16} {:>16}",
        "", "resident", "1/16", "ratio", "min..max", "faults a find", "peeks a find"
    );
    let mut all = all("of 64 bits", elements);
    let (warm_heap, cold_heap) = (cold.heap(1 << 20)?, cold.heap(cold.frames(elements))?);
    let warm_session = warm_heap.session().map_err(|error| error.to_string())?;
    let cold_session = cold_heap.session().map_err(|error| error.to_string())?;
    let warm = fill(&warm_session, &mut all, true)?;
    let cold = fill(&cold_session, &mut all, true)?;
    all.sort_unstable();
    let places: &[(&str, bool)] = match finds {
        Finds::Uniform => &[("anywhere", false)],
        Finds::Zipf => &[("the most wanted together", false), ("scattered", true)],
    };
    for (place, is_scattered) in places {
        let wanted: Vec<u64> = wanted(finds, *is_scattered, all.len() as u64, finds_made)
            .into_iter()
            .map(|at| all[at as usize])
            .collect();
        let time = |list: &SlabList<'_, u64>| -> Result<f64, String> {
            let begin = cpu();
            let found = wanted.iter().try_fold(0, |found, x| Ok(found + u64::from(list.contains(x)?)));
            let time = (cpu() - begin) * 1e9 / finds_made as f64;
            match found.map_err(|error: Error| error.to_string())? {
                found if found == finds_made => Ok(time),
                found => Err(format!("{found} of {finds_made} were found")),
            }
        };
        let mut runs = Vec::new();
        // A first pass makes the wanted elements resident.
        time(&cold)?;
        let before = cold_heap.stats();
        for _ in 0..repeats.max(1) {
            let (warm, cold) = (time(&warm)?, time(&cold)?);
            runs.push((cold / warm, warm, cold));
        }
        let (after, all_finds) = (cold_heap.stats(), (repeats.max(1) as u64 * finds_made) as f64);
        let faults = (after.faults - before.faults) as f64 / all_finds;
        let peeks = (after.peeks - before.peeks) as f64 / all_finds;
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, warm, cold) = runs[runs.len() / 2];
        let range = format!("{:.1}..{:.1}", runs[0].0, runs[runs.len() - 1].0);
        println!("{place:<28} {warm:>8.0} {cold:>8.0} {ratio:>8.2} {range:>12} {faults:>16.4} {peeks:>16.2}");
    }
    Ok(())
}

/// Folds a fully resident list and one that is almost entirely cold, with one thread and with one per
/// processor; prints nanoseconds per element, and the speed-up of all threads.
pub fn folds(elements: u64, cold: &Cold, repeats: usize) -> Result<(), String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{elements} elements of 64 bits, {}, blocks of {}: ns an element to fold",
        cold.codec, cold.block
    );
    println!(
        "{:<28} {:>8} {:>12} {:>8} {:>12}",
        "",
        "1 thread",
        format!("{threads} threads"),
        "times",
        "min..max"
    );
    let mut all = all("of 64 bits", elements);
    for (what, frames) in [("resident", 1 << 20), ("1/16 resident", cold.frames(elements))] {
        let heap = cold.heap(frames)?;
        let session = heap.session().map_err(|error| error.to_string())?;
        let list = fill(&session, &mut all, true)?;
        row(&format!("{what}, sum"), &list, repeats, |x| x)?;
        row(&format!("{what}, sum of a hash"), &list, repeats, turned)?;
    }
    Ok(())
}

/// A row of `folds`.
fn row(
    name: &str,
    list: &SlabList<'_, u64>,
    repeats: usize,
    f: impl Fn(u64) -> u64 + Sync,
) -> Result<(), String> {
    let mut runs = Vec::new();
    for _ in 0..repeats.max(1) {
        let begin = Instant::now();
        let one = list.fold(0, |sum: u64, x| sum.wrapping_add(f(x)));
        let between = Instant::now();
        let many = list.par_fold(|| 0, |sum: u64, x| sum.wrapping_add(f(x)), u64::wrapping_add);
        let (alone, together) = ((between - begin).as_secs_f64(), between.elapsed().as_secs_f64());
        let (one, many) = one.and_then(|one| Ok((one, many?))).map_err(|error| error.to_string())?;
        if one != many {
            return Err(format!("{name} is {one}, and {many} with several threads"));
        }
        runs.push((alone / together, alone, together));
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (times, alone, together) = runs[runs.len() / 2];
    let range = format!("{:.2}..{:.2}", runs[0].0, runs[runs.len() - 1].0);
    let each = |time: f64| time * 1e9 / list.len() as f64;
    println!("{name:<28} {:>8.2} {:>12.2} {times:>8.2} {range:>12}", each(alone), each(together));
    Ok(())
}

/// A hash, so that there is work other than waiting for memory.
fn turned(x: u64) -> u64 {
    (0..4).fold(x, |x, _| mix(x))
}
