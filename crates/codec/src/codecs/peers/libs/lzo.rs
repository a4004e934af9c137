//! `lzo`: the LZO1X format, by the crate `lzokay`, which looks for long matches. The fast compressor of the
//! original library takes less time, and its results are larger.

use lzokay::compress::{Dict, compress_no_alloc, compress_worst_size};
use lzokay::decompress::decompress;

use super::super::staged::staged;
use crate::{Codec, CodecId, Compressed, Malformed, Scratch, room};

pub(crate) static LZO: Lzo = Lzo;

/// The codec `lzo`.
pub(crate) struct Lzo;

const DICTIONARY: usize = size_of::<Dict>().next_multiple_of(Scratch::ALIGN);

impl Codec for Lzo {
    fn name(&self) -> &str {
        "lzo"
    }

    fn id(&self) -> CodecId {
        CodecId::LZO
    }

    fn bound(&self, len: usize) -> usize {
        if len == 0 { 0 } else { compress_worst_size(len) }
    }

    fn compress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { DICTIONARY + self.bound(len) }
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
        let memory = scratch.bytes(self.compress_scratch(src.len()));
        let (dictionary, staging) = memory.split_at_mut(DICTIONARY);
        // The result must not depend on its previous content.
        dictionary.fill(0);
        // SAFETY: the bytes have the size of a dictionary, are aligned to 64, and are borrowed exclusively; a
        // dictionary consists of integers, for which zeros are valid.
        let dictionary = unsafe { &mut *dictionary.as_mut_ptr().cast::<Dict>() };
        staged(dst, staging, (room, bound, threshold), |to| compress_no_alloc(src, to, dictionary).ok())
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if dst.is_empty() || src.is_empty() {
            return if dst.is_empty() && src.is_empty() { Ok(()) } else { Err(Malformed) };
        }
        if decompress(src, dst) == Ok(dst.len()) { Ok(()) } else { Err(Malformed) }
    }
}
