//! dalloc's figure 2, here for nodes of 8 to 100 bytes: the time to allocate and free nodes, and the size of
//! each, with dalloc's headers of 24 and of 8 bytes, with malloc, and in the heap.
//!
//! - time: allocating a thousand nodes and freeing them in the same order, ten thousand times: seconds of CPU.
//! - bytes per node, with a million live ones: in the node's block, uncompressed, and as a share of all of
//!   the heap's memory, including tables and buffers. The heap is measured with all blocks resident, and with
//!   only 16 resident and the rest compressed.
//!
//! dalloc itself rounds to eight bytes; its figures follow from that and are not measured.

use memfold::heap::{Heap, Limit, Options};
use serde_json::json;

use crate::measure::rows::Rows;
use crate::measure::timed;

const SIZES: [usize; 5] = [8, 16, 24, 32, 100];
const TIMES: usize = 10_000;
const AT_ONCE: usize = 1000;
const LIVE: usize = 1_000_000;

/// Bytes of a node, and seconds.
struct Taken {
    name: &'static str,
    seconds: Option<f64>,
    /// Bytes in its block, including headers and rounding.
    block: f64,
    /// Bytes including everything else.
    all: Option<f64>,
}

/// Measures and prints one table for each size.
pub fn run(rows: &mut Rows) -> Result<(), String> {
    println!(
        "{:>6}  {:24} {:>9} {:>12} {:>10} {:>10}",
        "bytes", "", "seconds", "bytes/node", "overhead", "everything"
    );
    for size in SIZES {
        let rounded = size.next_multiple_of(8) as f64;
        let dalloc = |name, header: f64| Taken { name, seconds: None, block: rounded + header, all: None };
        let measured = [
            dalloc("dalloc, 24-byte headers", 24.0),
            dalloc("dalloc, 8-byte headers", 8.0),
            malloc(size),
            heap(size, 8192)?,
            heap(size, 16)?,
        ];
        for taken in measured {
            let seconds = taken.seconds.map_or_else(|| String::from("-"), |seconds| format!("{seconds:.3}"));
            let all = taken.all.map_or_else(|| String::from("-"), |all| format!("{all:.2}"));
            let overhead = taken.block - size as f64;
            println!(
                "{size:>6}  {:24} {seconds:>9} {:>12.2} {overhead:>10.2} {all:>10}",
                taken.name, taken.block
            );
            let key = json!({ "size": size, "name": taken.name });
            if rows.find("overhead", &key).is_none() {
                let row =
                    json!({ "seconds": taken.seconds, "bytes_a_node": taken.block, "everything": taken.all });
                rows.add("overhead", &key, row)?;
            }
        }
    }
    Ok(())
}

fn malloc(size: usize) -> Taken {
    let alloc = || {
        // SAFETY: any size may be requested.
        let node = unsafe { libc::malloc(size) };
        assert!(!node.is_null(), "no memory");
        node
    };
    // SAFETY: `alloc` returned the node, and it is freed once.
    let free = |node| unsafe { libc::free(node) };
    let mut held = Vec::with_capacity(LIVE);
    let ((), cost) = timed(|| {
        for _ in 0..TIMES {
            held.extend((0..AT_ONCE).map(|_| alloc()));
            held.drain(..).for_each(free);
        }
    });
    let used = || crate::measure::memory().malloc;
    let before = used();
    held.extend((0..LIVE).map(|_| alloc()));
    let bytes = (used() - before) as f64 / LIVE as f64;
    held.drain(..).for_each(free);
    Taken { name: "malloc", seconds: Some(cost.cpu), block: bytes, all: Some(bytes) }
}

fn heap(size: usize, resident: u32) -> Result<Taken, String> {
    const BLOCK: usize = 32 << 10;
    let options = Options::new().block_size(BLOCK).limit(Limit::Blocks(resident));
    let heap = Heap::new(options).map_err(|bad| bad.to_string())?;
    let session = heap.session().map_err(|error| error.to_string())?;
    let alloc = || session.alloc(size).expect("room");
    let free = |node| session.free(node).expect("a live node");
    let mut held = Vec::with_capacity(LIVE);
    let ((), cost) = timed(|| {
        for _ in 0..TIMES {
            held.extend((0..AT_ONCE).map(|_| alloc()));
            held.drain(..).for_each(free);
        }
    });
    held.extend((0..LIVE).map(|_| alloc()));
    let stats = heap.stats();
    Ok(Taken {
        name: if resident == 16 { "heap, 16 blocks resident" } else { "heap, all resident" },
        seconds: Some(cost.cpu),
        block: (stats.blocks * BLOCK as u64) as f64 / LIVE as f64,
        all: Some(stats.memory_bytes() as f64 / LIVE as f64),
    })
}
