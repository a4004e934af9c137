//! Compressed forms that were true once: made by an encoder, then damaged in a
//! few places. That reaches deeper into the decoders than bytes of no origin.
//!
//! ```text
//! | which codec | repeats | damages n | n times: place, 2 bytes, and value | block ... |
//! ```
#![no_main]

#[path = "../../crates/codec/tests/common/guard.rs"]
mod guard;
mod options;

use std::cell::RefCell;

use guard::{Against, Guarded};
use libfuzzer_sys::fuzz_target;
use memfold_codec::{Compressed, MAX_BLOCK, ScratchBuf, codec};

const NAMES: [&str; 21] = [
    "lz4",
    "stride:1",
    "stride:2",
    "zstd:-5",
    "zstd:1",
    "zstd:6",
    "pbpm",
    "pbpm:tapes",
    "pbpm:word",
    "wkdm",
    "bewalgo",
    "bewalgo2",
    "842",
    "lzrw1a",
    "deflate:6",
    "snappy",
    "bzip2",
    "xz:0",
    "lzo",
    "auto",
    "auto:dense",
];

struct Memory {
    scratch: ScratchBuf,
    src: Guarded,
    dst: Guarded,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::new(Memory {
        scratch: ScratchBuf::with_size(8 << 20),
        src: Guarded::new(2 * MAX_BLOCK),
        dst: Guarded::new(MAX_BLOCK),
    });
}

fuzz_target!(|data: &[u8]| {
    let [which, repeats, damages, rest @ ..] = data else { return };
    let codec = codec(NAMES[usize::from(*which) % NAMES.len()]).expect("a name");
    let damages = 3 * usize::from(damages % 8);
    let Some((damages, block)) = rest.split_at_checked(damages) else { return };
    let block = block.repeat(1 + usize::from(*repeats));
    if block.is_empty() || block.len() > 1 << 16 {
        return;
    }
    MEMORY.with_borrow_mut(|memory| {
        let mut scratch = memory.scratch.scratch();
        let mut form = vec![0; codec.bound(block.len())];
        let Compressed::Fits(size) = codec.compress(&block, &mut form, usize::MAX, &mut scratch) else {
            panic!("{codec:?} knows no threshold and still does not fit");
        };
        form.truncate(size);
        for damage in damages.chunks_exact(3) {
            let place = usize::from(u16::from_le_bytes([damage[0], damage[1]])) % form.len();
            form[place] ^= damage[2];
        }
        let results = [(Against::Start, 0x00), (Against::End, 0xFF)].map(|(against, before)| {
            let src = memory.src.copy(&form, against);
            let dst = memory.dst.slice(block.len(), against);
            dst.fill(before);
            codec.decompress(src, dst, &mut scratch).map(|()| dst.to_vec())
        });
        assert!(results[0] == results[1], "{codec:?} leaves bytes unwritten");
    });
});
