//! Any block through any codec and back, in scratches that live for ever; and
//! the threshold answered exactly, in a `dst` not one byte too large.
//!
//! ```text
//! | which codec, 1 byte | repeats, 1 byte | distance to the threshold, 1 byte | block ... |
//! ```
#![no_main]

#[path = "../../crates/codec/tests/common/guard.rs"]
mod guard;
mod options;

use std::cell::RefCell;

use guard::{Against, Guarded};
use libfuzzer_sys::fuzz_target;
use memfold_codec::{Codec, CodecId, Compressed, MAX_BLOCK, Scratch, ScratchBuf, all, fill, same_filled};

struct Memory {
    compress: Scratch<'static>,
    decompress: Scratch<'static>,
    src: Guarded,
    dst: Guarded,
    again: Guarded,
}

const SCRATCH: usize = 16 << 20;

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::new(Memory {
        compress: ScratchBuf::with_size(SCRATCH).leak(),
        decompress: ScratchBuf::with_size(SCRATCH).leak(),
        src: Guarded::new(MAX_BLOCK),
        dst: Guarded::new(MAX_BLOCK + MAX_BLOCK / 4),
        again: Guarded::new(MAX_BLOCK),
    });
}

/// All codecs but `zstd` above level 9, which `auto:max` has as well. Denser levels are slow, and in the file that only
/// they use (zstd_opt.c) AddressSanitizer of gcc raises a false alarm: a local
/// table of constants, which the flag -fmerge-all-constants makes a global one,
/// is to it a variable used out of its scope.
fn codec(which: u8) -> &'static dyn Codec {
    let dense =
        |name: &str| name.strip_prefix("zstd:").is_some_and(|level| level.parse::<i32>().unwrap_or(0) > 9);
    let codecs = || all().filter(|codec| !dense(codec.name()) && codec.name() != "auto:max");
    codecs().nth(usize::from(which) % codecs().count()).expect("below the count")
}

fuzz_target!(|data: &[u8]| {
    let [which, repeats, distance, block @ ..] = data else { return };
    let codec = codec(*which);
    let block = block.repeat(1 + usize::from(*repeats));
    if block.len() > MAX_BLOCK {
        return;
    }
    MEMORY.with_borrow_mut(|memory| {
        let src = memory.src.copy(&block, Against::End);
        let again = memory.again.slice(block.len(), Against::End);

        if let Some(word) = same_filled(src) {
            fill(again, word);
            assert!(again == src, "fill is not the inverse of same_filled");
        }

        let bound = codec.bound(src.len());
        let dst = memory.dst.slice(bound, Against::End);
        let Compressed::Fits(size) = codec.compress(src, dst, usize::MAX, &mut memory.compress) else {
            panic!("{codec:?} knows no threshold and still does not fit");
        };
        let full = dst[..size].to_vec();
        again.fill(0xA5);
        codec.decompress(&full, again, &mut memory.decompress).expect("its own work");
        assert!(again == src, "{codec:?} changed the block");

        let src = memory.src.copy(&block, Against::Start);
        let threshold = (size + 4).saturating_sub(usize::from(distance % 8));
        let dst = memory.dst.slice(threshold.min(bound), Against::End);
        if codec.id() == CodecId::AUTO {
            // It may make something else this time, but nothing larger and nothing wrong.
            if let Compressed::Fits(fits) = codec.compress(src, dst, threshold, &mut memory.compress) {
                assert!(fits <= threshold);
                codec.decompress(&dst[..fits], again, &mut memory.decompress).expect("its own work");
                assert!(again == src, "{codec:?} changed the block");
            }
            return;
        }
        match codec.compress(src, dst, threshold, &mut memory.compress) {
            Compressed::Fits(fits) => assert!(fits == size && size <= threshold && dst[..size] == full),
            Compressed::Incompressible => assert!(size > threshold, "{codec:?}: {size} fits {threshold}"),
        }
    });
});
