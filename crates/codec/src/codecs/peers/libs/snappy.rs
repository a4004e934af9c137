//! `snappy`, by the crate `snap`. Its encoder keeps a hash table between calls, one for each thread, which it
//! allocates itself.

use std::cell::RefCell;
use std::thread_local;

use super::super::staged::staged;
use crate::{Codec, CodecId, Compressed, Malformed, Scratch, room};

pub(crate) static SNAPPY: Snappy = Snappy;

/// The codec `snappy`.
pub(crate) struct Snappy;

thread_local! {
    static ENCODER: RefCell<snap::raw::Encoder> = RefCell::new(snap::raw::Encoder::new());
}

impl Codec for Snappy {
    fn name(&self) -> &str {
        "snappy"
    }

    fn id(&self) -> CodecId {
        CodecId::SNAPPY
    }

    /// `max_compress_len`.
    fn bound(&self, len: usize) -> usize {
        if len == 0 { 0 } else { len.saturating_add(32 + len / 6) }
    }

    fn compress_scratch(&self, len: usize) -> usize {
        self.bound(len)
    }

    fn decompress_scratch(&self, _len: usize) -> usize {
        0
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        let bound = self.bound(src.len());
        let room = room(dst, threshold, bound);
        if src.is_empty() {
            return Compressed::Fits(0);
        }
        staged(dst, scratch.bytes(bound), (room, bound, threshold), |to| {
            ENCODER.with_borrow_mut(|encoder| encoder.compress(src, to).ok())
        })
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if dst.is_empty() || src.is_empty() {
            return if dst.is_empty() && src.is_empty() { Ok(()) } else { Err(Malformed) };
        }
        let len = snap::raw::decompress_len(src).map_err(|_| Malformed)?;
        let made = if len == dst.len() { snap::raw::Decoder::new().decompress(src, dst).ok() } else { None };
        if made == Some(dst.len()) { Ok(()) } else { Err(Malformed) }
    }
}
