//! Any block through any codec and back, on any two paths, with an exact answer to the threshold and a `dst`
//! of every allowed length; then the form read as a block of any other length. Not all formats detect that:
//! the owner of a form knows the block's length.
//!
//! ```text
//! | codec | level | growth | paths | threshold, 2 bytes | other length, 2 bytes | block ... |
//! ```

use memfold_codec::{Compressed, fill, same_filled};

use super::{Against, codec, grown, most, paths, take, with_memory};

pub fn check(data: &[u8]) {
    let [which, level, growth, path, t0, t1, l0, l1, block @ ..] = data else { return };
    let Some(codec) = codec(*which, *level) else { return };
    let Some(block) = grown(block, *growth, most(codec)) else { return };
    let paths = paths(*path);
    with_memory(|memory| {
        take(paths[0]);
        let full = memory.form(codec, &block);
        let (size, bound) = (full.len(), codec.bound(block.len()));

        take(paths[1]);
        let again = memory.again.slice(block.len(), Against::End);
        again.fill(0xA5);
        codec.decompress(&full, again, &mut memory.decompress).expect("its own work");
        assert!(*again == *block, "{codec:?} changed the block");
        if let Some(word) = same_filled(again) {
            again.fill(0xA5);
            fill(again, word);
            assert!(*again == *block, "fill is not the inverse of same_filled");
        }

        // Often near the size, otherwise anywhere; and `dst` as short as allowed, or longer.
        let threshold = usize::from(u16::from_le_bytes([*t0, *t1]));
        let threshold = match threshold {
            0..32 => (size + 16).saturating_sub(threshold),
            _ => (threshold * (bound + 9)) >> 16,
        };
        let room = threshold.min(bound) + usize::from(*t1 & 1) * usize::from(*t0);
        let src = memory.src.copy(&block, Against::Start);
        let dst = memory.dst.slice(room, Against::End);
        match codec.compress(src, dst, threshold, &mut memory.compress) {
            Compressed::Fits(fits) => {
                assert!(size <= threshold, "{codec:?}: {size} does not fit {threshold}");
                assert!(fits == size && dst[..fits] == full, "{codec:?} makes something else");
            }
            Compressed::Incompressible => assert!(size > threshold, "{codec:?}: {size} fits {threshold}"),
        }

        let other = (usize::from(u16::from_le_bytes([*l0, *l1])) * (block.len() + 64)) >> 15;
        let taken = memory.block(codec, &full, other, paths);
        assert!(other != block.len() || taken.as_ref() == Some(&block));
    });
}
