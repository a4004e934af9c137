//! Pipelines: at most seven steps, each of which works on the output of the one before.
//! `delta:8x6+shuffle:8+zstd:1` takes differences, sorts their bytes by rank, and compresses the result.
//!
//! A step is a transform, a coder, or a codec; codecs may be anywhere, not only at the end. Blocks alternate
//! between two buffers in the scratch; the working memory of the steps follows the buffers. So nothing is
//! ever allocated.
//!
//! # The number of a pipeline
//! There are more pipelines than codec numbers, and a table of the pipelines in use would have to outlive
//! every block written with it. So all pipelines share one number, [`CodecId::PIPELINE`], and the first bytes
//! of a block name the steps to undo: one byte each, from a table that only grows. Any process can read it,
//! whatever pipelines it uses itself. Settings that only an encoder needs, such as the level of zstd, are not
//! stored.
//!
//! ```text
//! +--------------------+------------------------+--------------------------+
//! | steps, a byte each | lengths, 1-5 bytes     | what the last step made  |
//! | the last with 0x80 | each                   |                          |
//! +--------------------+------------------------+--------------------------+
//! ```
//!
//! Lengths are those of the outputs of all steps but the last, except for steps that keep the length; seven
//! bits per byte, low ones first, with 0x80 set in all bytes but the last.
//!
//! A program whose table of pipelines lives as long as the blocks (as that of `auto` does) can store a place
//! in the table instead of the steps: a [`Chain`] makes and reads forms without steps, and [`PipelineTable`]
//! is such a table. A pipeline of one codec is that codec, and has its number.

mod chain;
mod element;
mod table;

pub use chain::Chain;
pub(crate) use chain::{ScratchSource, worst_decompress_scratch};
pub(crate) use element::Element;
pub use table::PipelineTable;
pub(crate) use table::interned;

use crate::{Codec, CodecId, Compressed, Malformed, Scratch, UnknownCodec};

/// The most steps of a pipeline.
pub const MOST_STEPS: usize = 7;

/// The steps that are not codecs, for messages.
pub(crate) const STEP_NAMES: &str = "delta:WxN, xor:WxN (words of W bytes, N times, 1 to 6), shuffle:W, \
    bitshuffle:W, lagdelta:W, zerosup, bwt, mtf, jbe, jbe2, rle, huffman, range";

/// Enough for seven of the longest names, `bitshuffle:8`, and the `+` between them.
const NAME: usize = 96;

/// Set in the last of the bytes that name the steps.
pub(crate) const LAST: u8 = 0x80;

/// Splits a form into the bytes that name the steps, and the rest.
pub(crate) fn split_steps(form: &[u8]) -> Option<(&[u8], &[u8])> {
    let last = form.iter().take(MOST_STEPS).position(|step| step & LAST != 0)?;
    Some(form.split_at(last + 1))
}

/// A pipeline with its name: a codec like any other.
///
/// ```
/// use memfold_codec::{Codec, Pipeline};
/// let pipeline: Pipeline = "delta:8x6+shuffle:8+zstd".parse().unwrap();
/// assert_eq!(pipeline.name(), "delta:8x6+shuffle:8+zstd:1");
/// ```
#[derive(Clone, Copy)]
pub struct Pipeline {
    chain: Chain,
    name: [u8; NAME],
    name_len: u8,
}

impl Pipeline {
    /// The steps.
    pub fn chain(&self) -> Chain {
        self.chain
    }

    /// The codec, if it is the only step.
    fn codec(&self) -> Option<&'static dyn Codec> {
        self.chain.codec()
    }
}

impl From<Chain> for Pipeline {
    fn from(chain: Chain) -> Self {
        let (mut name, mut len) = ([0; NAME], 0);
        for (i, element) in chain.elements().enumerate() {
            let plus = if i > 0 { "+" } else { "" };
            for part in [plus, element.name()] {
                name[len..len + part.len()].copy_from_slice(part.as_bytes());
                len += part.len();
            }
        }
        Pipeline { chain, name, name_len: len as u8 }
    }
}

impl core::str::FromStr for Pipeline {
    type Err = UnknownCodec;

    fn from_str(name: &str) -> Result<Self, UnknownCodec> {
        name.parse::<Chain>().map(Pipeline::from)
    }
}

impl core::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Pipeline {
    fn eq(&self, other: &Self) -> bool {
        self.chain == other.chain
    }
}

impl Eq for Pipeline {}

impl Codec for Pipeline {
    fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..usize::from(self.name_len)]).unwrap_or_default()
    }

    fn id(&self) -> CodecId {
        self.codec().map_or(CodecId::PIPELINE, |codec| codec.id())
    }

    fn bound(&self, len: usize) -> usize {
        match self.codec() {
            Some(codec) => codec.bound(len),
            None if len == 0 => 0,
            None => self.chain.bound(len).saturating_add(self.chain.len()),
        }
    }

    fn compress_scratch(&self, len: usize) -> usize {
        match self.codec() {
            Some(codec) => codec.compress_scratch(len),
            None => self.chain.compress_scratch(len),
        }
    }

    fn compress_scratch_up_to(&self, len: usize) -> usize {
        match self.codec() {
            Some(codec) => codec.compress_scratch_up_to(len),
            None => self.chain.compress_scratch(len),
        }
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        match self.codec() {
            Some(codec) => codec.decompress_scratch(len),
            None => self.chain.decompress_scratch(len),
        }
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        if let Some(codec) = self.codec() {
            return codec.compress(src, dst, threshold, scratch);
        }
        let room = crate::room(dst, threshold, self.bound(src.len()));
        if src.is_empty() {
            return Compressed::Fits(0);
        }
        let Some((steps, rest)) = dst[..room].split_at_mut_checked(self.chain.len()) else {
            return Compressed::Incompressible;
        };
        let mut last = None;
        for (to, element) in steps.iter_mut().zip(self.chain.elements()) {
            *to = element.number();
            last = Some(to);
        }
        if let Some(last) = last {
            *last |= LAST;
        }
        match self.chain.forward(src, rest, scratch) {
            Some(size) => Compressed::Fits(self.chain.len() + size),
            None => Compressed::Incompressible,
        }
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if let Some(codec) = self.codec() {
            return codec.decompress(src, dst, scratch);
        }
        assert!(scratch.len() >= self.decompress_scratch(dst.len()), "the scratch is smaller than needed");
        ANY.decompress(src, dst, scratch)
    }
}

/// The decoder for blocks of all pipelines. As an encoder it is a pipeline of `copy`.
///
/// Its `decompress_scratch` is what the worst pipeline needs. With a smaller scratch, it reads blocks of all
/// pipelines for which that suffices, and refuses the others.
pub(crate) struct Any;

pub(crate) static ANY: Any = Any;

impl Codec for Any {
    fn name(&self) -> &str {
        "pipeline"
    }

    fn id(&self) -> CodecId {
        CodecId::PIPELINE
    }

    fn bound(&self, len: usize) -> usize {
        if len == 0 { 0 } else { len.saturating_add(1) }
    }

    fn compress_scratch(&self, _len: usize) -> usize {
        0
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { chain::worst_decompress_scratch(len) }
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        _scratch: &mut Scratch<'_>,
    ) -> Compressed {
        let room = crate::room(dst, threshold, self.bound(src.len()));
        if room < self.bound(src.len()) {
            return Compressed::Incompressible;
        }
        if let Some((step, rest)) = dst[..room].split_first_mut() {
            *step = element::of_codec(CodecId::COPY) | LAST;
            rest.copy_from_slice(src);
        }
        Compressed::Fits(room)
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if dst.is_empty() || src.is_empty() {
            return if dst.is_empty() && src.is_empty() { Ok(()) } else { Err(Malformed) };
        }
        let (steps, body) = split_steps(src).ok_or(Malformed)?;
        let mut elements = [None; MOST_STEPS];
        for (element, step) in elements.iter_mut().zip(steps) {
            *element = Some(Element::to_undo(step & !LAST).ok_or(Malformed)?);
        }
        chain::backward(&elements, body, dst, scratch)
    }
}

#[cfg(test)]
mod tests;
