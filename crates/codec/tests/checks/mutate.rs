//! Forms that an encoder made, then damaged in a few places, truncated, or extended, and read as a block of
//! any length. They reach deeper into the decoders than arbitrary bytes.
//!
//! ```text
//! | codec | level | growth | paths | cut | other length | damages n | n x (place, 2 bytes, and value) | block ... |
//! ```
//!
//! An odd `cut` removes bytes at the end, an even one appends some; one below 64 does nothing. The other
//! length works in the same way.

use super::{codec, damage, grown, most, paths, take, with_memory};

pub fn check(data: &[u8]) {
    let [which, level, growth, path, cut, other, damages, rest @ ..] = data else { return };
    let Some(codec) = codec(*which, *level) else { return };
    let Some((damages, block)) = rest.split_at_checked(3 * usize::from(damages % 8)) else { return };
    let Some(block) = grown(block, *growth, most(codec).min(1 << 16)) else { return };
    let paths = paths(*path);
    with_memory(|memory| {
        take(paths[0]);
        let mut form = memory.form(codec, &block);
        damage(&mut form, damages);
        let changed = |len: usize, by: u8| match (by.checked_sub(64).map(usize::from), by % 2) {
            (None, _) => len,
            (Some(by), 0) => len + by / 2,
            (Some(by), _) => len.saturating_sub(by / 2),
        };
        form.resize(changed(form.len(), *cut), *cut);
        memory.block(codec, &form, changed(block.len(), *other), paths);
    });
}
