//! What elements take when nearly all of them are cold.

use memfold::collections::SlabList;
use memfold::heap::{Heap, Limit, Options};

use super::sets::{memory, mix};

/// Of the bytes that elements have by themselves, this part may be in frames.
const RESIDENT: u64 = 16;
/// Elements come in order of such runs, at random within: so each block is compressed a few times and not millions of times.
const RUN: usize = 20_000;

/// Fills lists and prints bytes for an element: all of the process, and what the heap says of it.
pub fn table(elements: u64, codec: &str) -> Result<(), String> {
    println!("{elements} elements, {codec}, frames for 1/{RESIDENT} of their bytes: bytes an element");
    println!("{:<28} {:>8} {:>8} {:>8} {:>8}", "", "all", "payload", "tables", "frames");
    for what in ["sequential", "below 16 n", "of 64 bits"] {
        let mut all: Vec<u64> = match what {
            "sequential" => (0..elements).collect(),
            "below 16 n" => (0..elements).map(|i| mix(i) % (16 * elements)).collect(),
            _ => (0..elements).map(mix).collect(),
        };
        all.sort_unstable();
        all.dedup();
        let before = memory();
        let frames = u32::try_from(elements * 8 / RESIDENT / (32 << 10)).unwrap_or(u32::MAX).max(8);
        let options = Options::new().codec(codec).limit(Limit::Blocks(frames));
        let heap = Heap::new(options).map_err(|error| error.to_string())?;
        let session = heap.session().map_err(|error| error.to_string())?;
        let mut list = SlabList::new(&session);
        for run in all.chunks_mut(RUN) {
            if what != "sequential" {
                run.sort_unstable_by_key(|x| mix(*x));
            }
            run.iter().try_for_each(|x| list.insert(x).map(|_| ())).map_err(|error| error.to_string())?;
        }
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
