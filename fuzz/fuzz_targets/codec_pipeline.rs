//! Any block through any pipeline and back, with the threshold answered exactly;
//! then the form with some bytes changed, which must be refused or read.
//!
//! ```text
//! | steps n | n times: which | repeats | damages m | m times: place, 2 bytes, and value | block ... |
//! ```
#![no_main]

#[path = "../../crates/codec/tests/common/guard.rs"]
mod guard;
mod options;

use std::cell::RefCell;

use guard::{Against, Guarded};
use libfuzzer_sys::fuzz_target;
use memfold_codec::{Codec, Compressed, MOST_STEPS, Pipeline, Scratch, ScratchBuf};

const STEPS: [&str; 40] = [
    "delta:1x1",
    "delta:1x6",
    "delta:2x2",
    "delta:4x3",
    "delta:8x1",
    "delta:8x6",
    "xor:1x2",
    "xor:2x6",
    "xor:4x1",
    "xor:8x5",
    "shuffle:2",
    "shuffle:4",
    "shuffle:8",
    "bitshuffle:1",
    "bitshuffle:2",
    "bitshuffle:4",
    "bitshuffle:8",
    "lagdelta:1",
    "lagdelta:2",
    "lagdelta:4",
    "lagdelta:8",
    "zerosup",
    "bwt",
    "mtf",
    "jbe",
    "jbe2",
    "rle",
    "huffman",
    "range",
    "copy",
    "lz4",
    "zstd:1",
    "pbpm",
    "pbpm:tapes",
    "pbpm:word",
    "wkdm",
    "bewalgo",
    "bewalgo2",
    "842",
    "lzrw1a",
];

const MOST: usize = 1 << 14;

struct Memory {
    compress: Scratch<'static>,
    decompress: Scratch<'static>,
    src: Guarded,
    dst: Guarded,
    again: Guarded,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::new(Memory {
        compress: ScratchBuf::with_size(4 << 20).leak(),
        decompress: ScratchBuf::with_size(4 << 20).leak(),
        src: Guarded::new(4 * MOST),
        dst: Guarded::new(4 * MOST),
        again: Guarded::new(MOST),
    });
}

fuzz_target!(|data: &[u8]| {
    let [count, rest @ ..] = data else { return };
    let Some((steps, rest)) = rest.split_at_checked(1 + usize::from(*count) % MOST_STEPS) else { return };
    let names: Vec<&str> = steps.iter().map(|step| STEPS[usize::from(*step) % STEPS.len()]).collect();
    let pipeline: Pipeline = names.join("+").parse().expect("steps that there are");
    let [repeats, damages, rest @ ..] = rest else { return };
    let Some((damages, block)) = rest.split_at_checked(3 * usize::from(damages % 8)) else { return };
    let block = block.repeat(1 + usize::from(*repeats));
    if block.len() > MOST {
        return;
    }
    MEMORY.with_borrow_mut(|memory| {
        let src = memory.src.copy(&block, Against::End);
        let bound = pipeline.bound(src.len());
        let dst = memory.dst.slice(bound, Against::End);
        let Compressed::Fits(size) = pipeline.compress(src, dst, usize::MAX, &mut memory.compress) else {
            panic!("{pipeline:?} knows no threshold and still does not fit");
        };
        let mut form = dst[..size].to_vec();
        let again = memory.again.slice(block.len(), Against::End);
        again.fill(0xA5);
        pipeline.decompress(&form, again, &mut memory.decompress).expect("its own work");
        assert!(again == src, "{pipeline:?} changed the block");

        for threshold in [size, size.saturating_sub(1)] {
            let dst = memory.dst.slice(threshold, Against::End);
            match pipeline.compress(src, dst, threshold, &mut memory.compress) {
                Compressed::Fits(fits) => assert!(fits == size && threshold == size && dst == form),
                Compressed::Incompressible => assert!(size > threshold, "{pipeline:?}: {size} fits"),
            }
        }

        if form.is_empty() || damages.is_empty() {
            return;
        }
        for damage in damages.chunks_exact(3) {
            let place = usize::from(u16::from_le_bytes([damage[0], damage[1]])) % form.len();
            form[place] ^= damage[2];
        }
        let results = [(Against::Start, 0x00), (Against::End, 0xFF)].map(|(against, before)| {
            let src = memory.src.copy(&form, against);
            let dst = memory.again.slice(block.len(), against);
            dst.fill(before);
            pipeline.decompress(src, dst, &mut memory.decompress).map(|()| dst.to_vec())
        });
        assert!(results[0] == results[1], "{pipeline:?} leaves bytes unwritten");
    });
});
