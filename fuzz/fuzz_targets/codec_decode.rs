//! Decoders given bytes that no encoder made. They fill the block or refuse;
//! input and output lie against pages that must not be touched, which catches
//! the C code too.
//!
//! ```text
//! | which decoder, 1 byte | length of the block, 3 bytes | compressed form ... |
//! ```
#![no_main]

#[path = "../../crates/codec/tests/common/guard.rs"]
mod guard;
mod options;

use std::cell::RefCell;

use guard::{Against, Guarded};
use libfuzzer_sys::fuzz_target;
use memfold_codec::{CodecId, MAX_BLOCK, ScratchBuf, decoder};

struct Memory {
    scratch: ScratchBuf,
    src: Guarded,
    dst: Guarded,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::new(Memory {
        scratch: ScratchBuf::with_size(8 << 20),
        src: Guarded::new(1 << 20),
        dst: Guarded::new(MAX_BLOCK),
    });
}

fuzz_target!(|data: &[u8]| {
    let [which, a, b, c, src @ ..] = data else { return };
    let Some(codec) = decoder(CodecId(which % 32)) else { return };
    let len = u32::from_le_bytes([*a, *b, *c, 0]) as usize % (MAX_BLOCK + 1);
    // Pipelines can ask for a lot of work.
    let len = if [CodecId::PIPELINE, CodecId::AUTO].contains(&codec.id()) { len % (1 << 15) } else { len };
    if src.len() > 1 << 20 {
        return;
    }
    MEMORY.with_borrow_mut(|memory| {
        let mut scratch = memory.scratch.scratch();
        let results = [(Against::Start, 0x00), (Against::End, 0xFF)].map(|(against, before)| {
            let src = memory.src.copy(src, against);
            let dst = memory.dst.slice(len, against);
            dst.fill(before);
            codec.decompress(src, dst, &mut scratch).map(|()| dst.to_vec())
        });
        assert!(results[0] == results[1], "{codec:?} leaves bytes unwritten");
    });
});
