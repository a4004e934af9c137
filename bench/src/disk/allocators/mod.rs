//! Allocators for compressed pages: repeats the choice of CRAMES (Yang, Dick, Lekatsas, Chakradhar:
//! *High-performance operating system controlled online memory compression*, 2010, section 3.1).
//!
//! The contenders are five classical kernel allocators, as models that handle only offsets, and memfold's store
//! and malloc, which copy the payload. All grow in chunks of 64 KiB, or as they like, and return memory when they
//! can know that it is free. The sizes are those of real pages.
//!
//! Columns: memory divided by payload after each phase, and the worst value after the first; CPU time per
//! allocation or release. The owner's own records of blobs are not counted; those of the allocator are, see
//! [`Keeper::bytes`].

mod blocks;
mod buddy;
mod chunks;
mod lazy;
mod map;
mod mckusick;
mod powers;
mod real;
mod trace;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use memfold_codec::{Compressed, ScratchBuf, same_filled};

use crate::{PAGE, pages};
use trace::{BLOBS, Trace};

/// As on the device: a page that needs more than this is kept uncompressed.
const MOST: usize = PAGE / 16 * 15;

/// Keeps blobs by number.
pub trait Keeper {
    /// Allocates blob `i`.
    fn put(&mut self, i: usize, len: usize);
    /// Frees it.
    fn free(&mut self, i: usize, len: usize);
    /// Background work: called now and then, and its time counts.
    fn tick(&mut self) {}
    /// Does all background work, after a phase.
    fn settle(&mut self) {}
    /// Bytes that it takes: the area, and its own records. `None` for one that is not an allocator.
    fn bytes(&mut self) -> Option<usize>;
    /// Checks that each blob has its place, or its content; blobs without a length do not exist.
    fn check(&self, lens: &[Option<usize>]);
}

/// A model of an allocator, which handles only offsets.
pub trait Model {
    fn allocate(&mut self, len: usize) -> u64;
    fn free(&mut self, at: u64, len: usize);
    /// As in [`Keeper`].
    fn bytes(&self) -> usize;
    fn has(&self, at: u64) -> bool;
}

/// A model, and the places of blobs.
struct Places<M>(M, Vec<u64>);

impl<M: Model> Keeper for Places<M> {
    fn put(&mut self, i: usize, len: usize) {
        self.1[i] = self.0.allocate(len);
    }

    fn free(&mut self, i: usize, len: usize) {
        self.0.free(self.1[i], len);
    }

    fn bytes(&mut self) -> Option<usize> {
        Some(self.0.bytes())
    }

    fn check(&self, lens: &[Option<usize>]) {
        let places = self.1.iter().zip(lens).filter_map(|(&at, len)| Some((at, (*len)? as u64)));
        let mut places: Vec<_> = places.collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "two blobs at one place");
        assert!(
            places.iter().all(|&(at, len)| self.0.has(at) && self.0.has(at + len - 1)),
            "no memory there"
        );
    }
}

/// Names, and whether they copy the payload.
const CONTENDERS: [(&str, bool); 8] = [
    ("resource map, first fit", false),
    ("power-of-two free lists", false),
    ("McKusick-Karels", false),
    ("binary buddy", false),
    ("lazy buddy", false),
    ("memfold's store", true),
    ("glibc malloc", true),
    ("copying alone", true),
];

fn keeper(number: usize, lens: &[usize]) -> Box<dyn Keeper> {
    // Written, so that they are in memory before anything is measured.
    let places = vec![u64::MAX; BLOBS];
    match number {
        0 => Box::new(Places(map::ResourceMap::default(), places)),
        1 => Box::new(Places(powers::PowersOfTwo::default(), places)),
        2 => Box::new(Places(mckusick::McKusickKarels::default(), places)),
        3 => Box::new(Places(buddy::Buddy::default(), places)),
        4 => Box::new(Places(lazy::LazyBuddy::default(), places)),
        5 => Box::new(real::Kept::new()),
        6 => Box::new(real::Malloc::new(places)),
        _ => Box::new(real::Copying::new(lens)),
    }
}

/// Runs each contender in its own process, and prints the table.
pub fn run(seconds: u64, files: &[PathBuf]) -> Result<(), String> {
    let sizes = sizes(files)?;
    let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
    let raw = sizes.iter().filter(|&&len| len == PAGE).count();
    println!(
        "{} pages with a compressed form, {mean:.0} bytes on average, {raw} of them kept as they are; {BLOBS} blobs.\n",
        sizes.len()
    );
    println!(
        "| allocator | copies | filled | overwritten | half trimmed | 90 % trimmed | worst | ns/operation |"
    );
    println!("| --- | --- |{}", " ---: |".repeat(6));
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    for (name, copies) in CONTENDERS {
        let mut command = Command::new(&exe);
        command.args(["allocators", "--one", name, "--seconds", &seconds.to_string(), "--"]).args(files);
        let output = command.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let figures: trace::Figures =
            serde_json::from_slice(&output.stdout).map_err(|error| format!("{name}: {error}"))?;
        let ratio = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.3}"));
        let ratios: String = figures.after.iter().map(|&it| format!(" {} |", ratio(it))).collect();
        let ns = if figures.given_up { "given up".into() } else { format!("{:.0}", figures.ns) };
        let copies = if copies { "yes" } else { "no" };
        println!("| {name} | {copies} |{ratios} {} | {ns} |", ratio(figures.worst));
    }
    Ok(())
}

/// Runs one contender in this process.
pub fn one(name: &str, most: Duration, files: &[PathBuf]) -> Result<(), String> {
    let number = CONTENDERS.iter().position(|(other, _)| *other == name);
    let number = number.ok_or_else(|| format!("there is no '{name}'"))?;
    let sizes = sizes(files)?;
    let figures = Trace::new(&sizes).run(|lens| keeper(number, lens), most);
    println!("{}", serde_json::json!(figures));
    Ok(())
}

/// The sizes of pages after `auto:fast`; pages of one repeated word take no memory.
fn sizes(files: &[PathBuf]) -> Result<Vec<usize>, String> {
    let codec = memfold_codec::codec("auto:fast").map_err(|error| error.to_string())?;
    let mut scratch = ScratchBuf::with_size(codec.compress_scratch(PAGE)).leak();
    let (mut sizes, mut packed) = (Vec::new(), vec![0; PAGE]);
    for file in files {
        for page in pages(file)?.chunks_exact(PAGE).filter(|page| same_filled(page).is_none()) {
            sizes.push(match codec.compress(page, &mut packed, MOST, &mut scratch) {
                Compressed::Fits(len) => len,
                Compressed::Incompressible => PAGE,
            });
        }
    }
    if sizes.is_empty() { Err("all pages are of one repeated word".into()) } else { Ok(sizes) }
}
