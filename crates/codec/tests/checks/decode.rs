//! Decoders given arbitrary bytes: they fill the block or return an error.
//!
//! ```text
//! | decoder | paths | length of the block, 3 bytes | compressed form ... |
//! ```

use memfold_codec::{CodecId, MAX_BLOCK, decoder};

use super::{SHORT, paths, with_memory};

pub fn check(data: &[u8]) {
    let [which, path, a, b, c, form @ ..] = data else { return };
    let Some(codec) = decoder(CodecId(which % 32)) else { return };
    let len = u32::from_le_bytes([*a, *b, *c, 0]) as usize % (MAX_BLOCK + 1);
    // A pipeline can require a lot of work.
    let slow = [CodecId::PIPELINE, CodecId::AUTO].contains(&codec.id());
    let len = if slow { len % (2 * SHORT) } else { len };
    if form.len() <= MAX_BLOCK {
        with_memory(|memory| {
            memory.block(codec, form, len, paths(*path));
        });
    }
}
