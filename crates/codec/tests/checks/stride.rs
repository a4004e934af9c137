//! The paths of `stride` compared: all produce the same form of a block, and decode arbitrary bytes alike.
//!
//! ```text
//! | what | growth | damages n | n x (place, 2 bytes, and value) | block or form ... |
//! ```

use memfold_codec::cpu::{self, Path};
use memfold_codec::{Codec, CodecId, codec, decoder};

use super::{Memory, damage, grown, take, with_memory};

const MOST: usize = 1 << 16;

/// The paths of this processor.
fn all_paths() -> impl Iterator<Item = Path> {
    Path::ALL.into_iter().filter(|path| *path <= cpu::best())
}

impl Memory {
    fn read_on_all(&mut self, codec: &dyn Codec, form: &[u8], len: usize) -> Option<Vec<u8>> {
        all_paths().map(|path| self.block(codec, form, len, [Path::Scalar, path])).last().flatten()
    }

    fn made_on_all(&mut self, codec: &dyn Codec, block: &[u8]) -> Vec<u8> {
        let mut forms = all_paths().map(|path| {
            take(path);
            self.form(codec, block)
        });
        let scalar = forms.next().expect("the scalar path is always there");
        forms.for_each(|form| assert!(form == scalar, "{codec:?}: a path makes something else"));
        scalar
    }
}

pub fn check(data: &[u8]) {
    let [what, growth, damages, rest @ ..] = data else { return };
    let Some((damages, block)) = rest.split_at_checked(3 * usize::from(damages % 8)) else { return };
    with_memory(|memory| {
        if what & 3 == 3 {
            // Arbitrary bytes as the form of a block of some length.
            if block.len() <= MOST {
                let codec = decoder(CodecId::STRIDE).expect("there is one");
                memory.read_on_all(codec, block, 1 + usize::from(*what >> 2) * 129 + usize::from(*growth));
            }
            return;
        }
        let Some(block) = grown(block, *growth, MOST) else { return };
        let codec = codec(["stride:1", "stride:2", "stride:3"][usize::from(what & 3)]).expect("a name");
        let mut form = memory.made_on_all(codec, &block);
        assert!(
            memory.read_on_all(codec, &form, block.len()).as_deref() == Some(&block),
            "{codec:?} changed the block"
        );
        if !damages.is_empty() {
            damage(&mut form, damages);
            memory.read_on_all(codec, &form, block.len());
        }
    });
}
