//! `copy`: the compressed form is the block itself, so it is never smaller. This codec is the baseline for
//! speed, and stores blocks that must be stored although they do not compress.

use crate::{Codec, CodecId, Compressed, Malformed, Scratch, room};

/// The codec that does nothing.
pub(crate) struct Copy;

impl Codec for Copy {
    fn name(&self) -> &str {
        "copy"
    }

    fn id(&self) -> CodecId {
        CodecId::COPY
    }

    fn bound(&self, len: usize) -> usize {
        len
    }

    fn compress_scratch(&self, _len: usize) -> usize {
        0
    }

    fn decompress_scratch(&self, _len: usize) -> usize {
        0
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        _scratch: &mut Scratch<'_>,
    ) -> Compressed {
        let room = room(dst, threshold, src.len());
        if room < src.len() {
            return Compressed::Incompressible;
        }
        dst[..src.len()].copy_from_slice(src);
        Compressed::Fits(src.len())
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if src.len() != dst.len() {
            return Err(Malformed);
        }
        dst.copy_from_slice(src);
        Ok(())
    }
}
