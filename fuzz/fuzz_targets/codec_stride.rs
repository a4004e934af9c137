//! The paths of `stride` against one another: what they make of a block, and
//! what they read from bytes of any origin, is the same on all of them.
//!
//! ```text
//! | what, 1 byte | repeats, 1 byte | damages n, 1 byte | n x (place u16, value) | block or form ... |
//! ```
#![no_main]

#[path = "../../crates/codec/tests/common/guard.rs"]
mod guard;

use std::cell::RefCell;

use guard::{Against, Guarded};
use libfuzzer_sys::fuzz_target;
use memfold_codec::cpu::{self, Path};
use memfold_codec::{Codec, CodecId, Compressed, ScratchBuf, codec, decoder};

const MOST: usize = 1 << 16;

struct Memory {
    scratch: ScratchBuf,
    src: Guarded,
    dst: Guarded,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::new(Memory {
        scratch: ScratchBuf::with_size(1 << 20),
        src: Guarded::new(2 * MOST),
        dst: Guarded::new(2 * MOST),
    });
}

/// Runs `work` on each path of this processor; all must answer the same.
fn on_all_paths<T: PartialEq>(mut work: impl FnMut() -> T) -> T {
    let mut answers = Path::ALL.into_iter().filter_map(|path| {
        cpu::force(Some(path)).ok()?;
        Some((path, work()))
    });
    let (_, first) = answers.next().expect("the scalar path is always there");
    for (path, answer) in answers {
        assert!(answer == first, "{path:?} answers something else");
    }
    first
}

impl Memory {
    fn read(&mut self, codec: &dyn Codec, form: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut scratch = self.scratch.scratch();
        on_all_paths(|| {
            [(Against::Start, 0x00), (Against::End, 0xFF)].map(|(against, before)| {
                let src = self.src.copy(form, against);
                let dst = self.dst.slice(len, against);
                dst.fill(before);
                codec.decompress(src, dst, &mut scratch).ok().map(|()| dst.to_vec())
            })
        })
        .into_iter()
        .reduce(|a, b| if a == b { a } else { panic!("bytes are left unwritten") })
        .flatten()
    }

    fn make(&mut self, codec: &dyn Codec, block: &[u8]) -> Vec<u8> {
        let mut scratch = self.scratch.scratch();
        on_all_paths(|| {
            let src = self.src.copy(block, Against::End);
            let dst = self.dst.slice(codec.bound(src.len()), Against::End);
            match codec.compress(src, dst, usize::MAX, &mut scratch) {
                Compressed::Fits(size) => dst[..size].to_vec(),
                Compressed::Incompressible => panic!("{codec:?} does not fit into its bound"),
            }
        })
    }
}

fuzz_target!(|data: &[u8]| {
    let [what, repeats, damages, rest @ ..] = data else { return };
    let damages = 3 * usize::from(damages % 8);
    let Some((damages, block)) = rest.split_at_checked(damages) else { return };
    MEMORY.with_borrow_mut(|memory| {
        if what & 3 == 3 {
            // A form that nobody made, for a block of some length.
            if block.len() <= MOST {
                let codec = decoder(CodecId::STRIDE).expect("there is one");
                memory.read(codec, block, 1 + usize::from(*what >> 2) * 129 + usize::from(*repeats));
            }
            return;
        }
        let block = block.repeat(1 + usize::from(*repeats));
        if block.is_empty() || block.len() > MOST {
            return;
        }
        let codec = codec(["stride:1", "stride:2", "stride:3"][usize::from(what & 3)]).expect("a name");
        let mut form = memory.make(codec, &block);
        assert!(
            memory.read(codec, &form, block.len()).as_deref() == Some(&block),
            "{codec:?} changed the block"
        );
        for damage in damages.chunks_exact(3) {
            let place = usize::from(u16::from_le_bytes([damage[0], damage[1]])) % form.len();
            form[place] ^= damage[2];
        }
        if !damages.is_empty() {
            memory.read(codec, &form, block.len());
        }
    });
});
