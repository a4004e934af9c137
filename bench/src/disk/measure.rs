//! Measures one codec on one file: the file is written to a device and read back.
//!
//! One thread does this, a page at a time. The device has no tier except the requested one, no sharing, and
//! no uncompressed copies. Every pass compares what it reads with the file.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memfold_disk::settings::Settings;
use memfold_disk::status::About;
use memfold_disk::{Disk, Maintenance};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::PAGE;

/// The minimum time to measure each direction.
const AT_LEAST: Duration = Duration::from_millis(300);
const LEAST_PASSES: usize = 3;
/// The memory that the device may assume; its limit is half of it, which is more than any file here needs.
const MEMORY: u64 = 64 << 30;
/// The number of passes for dense contenders. Each includes a slow background pass, after which only one read
/// pass is possible without promotions.
const DENSE_PASSES: usize = 3;
/// The background thread is done when it has found nothing for this long.
const QUIET: Duration = Duration::from_millis(600);

/// The codec for writing, and what happens before reading.
#[derive(Debug, Clone)]
pub struct Contender {
    /// The heading of its column.
    pub name: String,
    /// The setting.
    pub codec: String,
    /// Whether the background thread makes everything denser between writing and reading.
    pub dense: bool,
}

/// Figures of one contender on one file.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    pub file: String,
    pub codec: String,
    pub original_bytes: u64,
    /// [`memfold_disk::Stats::payload_bytes`] of a new device with the file: the size of the compressed
    /// forms.
    pub payload_bytes: u64,
    /// The same before the background thread did its work, if any.
    pub written_payload_bytes: u64,
    /// Bytes of pages that are kept uncompressed, now and when they were written.
    pub incompressible_bytes: u64,
    pub written_incompressible_bytes: u64,
    pub same_filled_bytes: u64,
    /// All memory of that device, including the index, the store's overhead, and working memory.
    pub memory_bytes: u64,
    /// Its memory before anything was written: mostly working memory, which does not grow with the device.
    pub empty_memory_bytes: u64,
    pub index_bytes: u64,
    /// Pages that were decompressed and compressed again because they were read, in all passes. Should be
    /// zero.
    pub promotions: u64,
    pub passes: [usize; 2],
    /// The median CPU time of the thread for one pass, in seconds; the wall time is beside it.
    pub write_s: f64,
    pub read_s: f64,
    pub wall_write_s: f64,
    pub wall_read_s: f64,
}

/// User and system time of the calling thread, which other work on the machine hardly affects.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the clock works").into()
}

/// Times of passes in one direction.
#[derive(Default)]
struct Passes {
    cpu: Vec<f64>,
    wall: Vec<f64>,
}

impl Passes {
    fn measure(&mut self, pass: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let (wall, cpu) = (Instant::now(), thread_cpu());
        pass()?;
        self.cpu.push((thread_cpu() - cpu).as_secs_f64());
        self.wall.push(wall.elapsed().as_secs_f64());
        Ok(())
    }

    fn are_enough(&self) -> bool {
        self.cpu.len() >= LEAST_PASSES && self.cpu.iter().sum::<f64>() >= AT_LEAST.as_secs_f64()
    }
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Measures `contender` on the pages of a file.
pub fn measure(file: &str, pages: &[u8], contender: &Contender) -> Result<Measured, String> {
    let of = |message: String| format!("{file}, {}: {message}", contender.name);
    let counted = count(pages, contender).map_err(of)?;
    let mut read = vec![0; pages.len()];
    let (mut writing, mut reading, mut promotions) = (Passes::default(), Passes::default(), 0);
    if contender.dense {
        for _ in 0..DENSE_PASSES {
            let disk = device(pages, contender).map_err(of)?;
            // Overwrite, as most passes of the other contenders do.
            write(&disk, pages).map_err(of)?;
            writing.measure(|| write(&disk, pages)).map_err(of)?;
            let before = background(&disk).map_err(of)?;
            reading.measure(|| read_back(&disk, &mut read)).map_err(of)?;
            same(pages, &read).map_err(of)?;
            promotions += disk.stats().promotions - before;
        }
    } else {
        let disk = device(pages, contender).map_err(of)?;
        while !writing.are_enough() {
            writing.measure(|| write(&disk, pages)).map_err(of)?;
        }
        while !reading.are_enough() {
            read.fill(0xa5);
            reading.measure(|| read_back(&disk, &mut read)).map_err(of)?;
            same(pages, &read).map_err(of)?;
        }
        promotions = disk.stats().promotions;
    }
    Ok(Measured {
        file: file.to_owned(),
        codec: contender.name.clone(),
        original_bytes: pages.len() as u64,
        promotions,
        passes: [writing.cpu.len(), reading.cpu.len()],
        write_s: median(&writing.cpu),
        read_s: median(&reading.cpu),
        wall_write_s: median(&writing.wall),
        wall_read_s: median(&reading.wall),
        ..counted
    })
}

fn device(pages: &[u8], contender: &Contender) -> Result<Arc<Disk>, String> {
    let mut settings = Settings::default();
    let size = pages.len().to_string();
    let all = [("size", &*size), ("codec", &*contender.codec), ("resident", "0"), ("share", "no")];
    // Newly written data may soon go to the dense tier, but only if there is one and a background thread.
    for (name, value) in all.into_iter().chain([("cold", "0.01")]) {
        settings.set(name, value).map_err(|error| error.to_string())?;
    }
    let mut options = settings.options(MEMORY).map_err(|error| error.to_string())?;
    options.works = Some(1);
    Ok(Arc::new(Disk::new(options).map_err(|error| error.to_string())?))
}

fn write(disk: &Disk, pages: &[u8]) -> Result<(), String> {
    let mut at = 0;
    for page in pages.chunks_exact(PAGE) {
        disk.write(at, page).map_err(|error| format!("write at {at}: {error}"))?;
        at += PAGE as u64;
    }
    Ok(())
}

fn read_back(disk: &Disk, to: &mut [u8]) -> Result<(), String> {
    let mut at = 0;
    for page in to.chunks_exact_mut(PAGE) {
        disk.read(at, page).map_err(|error| format!("read at {at}: {error}"))?;
        at += PAGE as u64;
    }
    Ok(())
}

fn same(written: &[u8], read: &[u8]) -> Result<(), String> {
    if written == read {
        return Ok(());
    }
    match written.iter().zip(read).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(at) => Err(format!("byte {at} came back as {:#x}, and was {:#x}", read[at], written[at])),
    }
}

/// Does what the background thread does to an idle device: it compresses cold data more densely, and finally
/// everything. Returns the pages promoted so far.
///
/// `condense` alone leaves the pages marked as recently used, because they were just written; then the first
/// read of a block would move all of its pages back to the fast tier.
fn background(disk: &Arc<Disk>) -> Result<u64, String> {
    let keeper = Maintenance::start(disk, &About { name: "bench".into(), door: "none", address: None })
        .map_err(|error| error.to_string())?;
    let (mut merges, mut since) = (0, Instant::now());
    while since.elapsed() < QUIET {
        std::thread::sleep(Duration::from_millis(20));
        let now = disk.stats().merges;
        if now != merges {
            (merges, since) = (now, Instant::now());
        }
    }
    drop(keeper);
    disk.condense().map_err(|error| error.to_string())?;
    Ok(disk.stats().promotions)
}

/// Counts the bytes on a separate device.
fn count(pages: &[u8], contender: &Contender) -> Result<Measured, String> {
    let disk = device(pages, contender)?;
    let empty = disk.stats().memory_bytes;
    write(&disk, pages)?;
    let stats = disk.stats();
    let written = (stats.payload_bytes, stats.memory_bytes, stats.index_bytes);
    let mut counted = Measured {
        file: String::new(),
        codec: String::new(),
        original_bytes: 0,
        payload_bytes: written.0,
        written_payload_bytes: written.0,
        incompressible_bytes: 0,
        written_incompressible_bytes: 0,
        same_filled_bytes: stats.same_filled_bytes,
        memory_bytes: written.1,
        empty_memory_bytes: empty,
        index_bytes: written.2,
        promotions: 0,
        passes: [0, 0],
        write_s: 0.0,
        read_s: 0.0,
        wall_write_s: 0.0,
        wall_read_s: 0.0,
    };
    if contender.dense {
        disk.condense().map_err(|error| error.to_string())?;
        let stats = disk.stats();
        counted.payload_bytes = stats.payload_bytes;
        counted.memory_bytes = stats.memory_bytes;
    }
    counted.incompressible_bytes = incompressible(&disk)?;
    if contender.dense {
        // Written again, so that all pages are in the fast codec's form.
        write(&disk, pages)?;
        counted.written_incompressible_bytes = incompressible(&disk)?;
    } else {
        counted.written_incompressible_bytes = counted.incompressible_bytes;
    }
    Ok(counted)
}

/// Trims all pages one by one. A page that frees a whole page of payload, and was not in a dense block, was
/// stored uncompressed.
fn incompressible(disk: &Disk) -> Result<u64, String> {
    let (mut bytes, mut before) = (0, disk.stats());
    for at in (0..disk.size()).step_by(PAGE) {
        disk.trim(at, PAGE as u64).map_err(|error| format!("trim at {at}: {error}"))?;
        let now = disk.stats();
        if before.payload_bytes - now.payload_bytes == PAGE as u64 && before.dense_bytes == now.dense_bytes {
            bytes += PAGE as u64;
        }
        before = now;
    }
    if before.payload_bytes == 0 { Ok(bytes) } else { Err("a device of holes has payload".into()) }
}
