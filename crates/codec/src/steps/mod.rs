//! The elements of pipelines: a step changes a block and can change it back.
//!
//! A step that **keeps the length** is a transform: its output compresses better. The others are coders,
//! whose output may be longer or shorter. Neither stores the length of its input: the caller knows it when it
//! asks for the input (a pipeline stores it where it must).
//!
//! A step that is useful alone is also a codec, by [`Standalone`].

pub(crate) mod coders;
pub(crate) mod transforms;

use crate::{Codec, CodecId, Compressed, Malformed, Scratch, room};

/// A transform or a coder.
///
/// The requirements of a [`Codec`] apply: the result depends on the block alone, and nothing outside the
/// given buffers is read or written. A block has at least one byte.
pub(crate) trait Step: Sync {
    /// Its name in a pipeline: `delta:8x6`.
    fn name(&self) -> &'static str;

    /// Whether the output is always as long as the input.
    fn keeps_length(&self) -> bool {
        false
    }

    /// The longest output for `len` bytes. It never decreases as `len` grows.
    fn bound(&self, len: usize) -> usize;

    /// Bytes of scratch that `forward` needs for a block of at most `len` bytes.
    fn forward_scratch(&self, len: usize) -> usize;

    /// Bytes of scratch that `backward` needs to restore at most `len` bytes.
    fn backward_scratch(&self, len: usize) -> usize;

    /// Transforms `src` into the first bytes of `dst` and returns how many; `None` exactly if they do not fit
    /// into `dst`.
    fn forward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize>;

    /// Restores the whole of `dst` from all of `src`; an error if `src` is not the form of such a block.
    fn backward(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed>;
}

/// A step that is also a codec.
#[cfg_attr(not(feature = "papers"), expect(dead_code, reason = "only the codecs of papers use it so far"))]
pub(crate) struct Standalone<S> {
    pub step: S,
    pub id: CodecId,
}

impl<S: Step> Codec for Standalone<S> {
    fn name(&self) -> &str {
        self.step.name()
    }

    fn id(&self) -> CodecId {
        self.id
    }

    fn bound(&self, len: usize) -> usize {
        if len == 0 { 0 } else { self.step.bound(len) }
    }

    fn compress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { self.step.forward_scratch(len) }
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { self.step.backward_scratch(len) }
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        let room = room(dst, threshold, self.bound(src.len()));
        if src.is_empty() {
            return Compressed::Fits(0);
        }
        match self.step.forward(src, &mut dst[..room], scratch) {
            Some(size) => Compressed::Fits(size),
            None => Compressed::Incompressible,
        }
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        match (src, &mut *dst) {
            ([], []) => Ok(()),
            ([], _) | (_, []) => Err(Malformed),
            _ => self.step.backward(src, dst, scratch),
        }
    }
}
