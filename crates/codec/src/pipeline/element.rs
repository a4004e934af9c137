//! One place in a pipeline: a [`Step`] or a codec.

use crate::steps::Step;
use crate::steps::coders::{bwt, huffman, jbe, mtf, range, rle};
use crate::steps::transforms::{bit_shuffle, difference, lag, shuffle, zero};
use crate::{Codec, CodecId, Compressed, Malformed, Scratch, codecs};

/// An element of a pipeline.
#[derive(Clone, Copy)]
pub(crate) enum Element {
    Step(u8, &'static dyn Step),
    Codec(&'static dyn Codec),
}

/// A step by its stored number. Append-only: a number is assigned once and means the same for ever. Numbers
/// from [`CODECS`] on are codecs.
fn step(number: u8) -> Option<&'static dyn Step> {
    Some(match number {
        1..=24 => &difference::DELTA[usize::from(number - 1)],
        25..=48 => &difference::XOR[usize::from(number - 25)],
        49 => &shuffle::SHUFFLE_2,
        50 => &shuffle::SHUFFLE_4,
        51 => &shuffle::SHUFFLE_8,
        52 => &bit_shuffle::BIT_SHUFFLE_1,
        53 => &bit_shuffle::BIT_SHUFFLE_2,
        54 => &bit_shuffle::BIT_SHUFFLE_4,
        55 => &bit_shuffle::BIT_SHUFFLE_8,
        56 => &lag::LAG_DELTA_1,
        57 => &lag::LAG_DELTA_2,
        58 => &lag::LAG_DELTA_4,
        59 => &lag::LAG_DELTA_8,
        60 => &zero::ZeroSuppression,
        61 => &bwt::Bwt,
        62 => &mtf::MoveToFront,
        63 => &jbe::JBE,
        64 => &jbe::JBE2,
        65 => &rle::Rle,
        66 => &huffman::Huffman,
        67 => &range::Range,
        _ => return None,
    })
}

/// The stored number of a codec is this plus its own.
const CODECS: u8 = 96;

/// The largest number of a codec that can be in a pipeline.
const LAST_CODEC: u8 = 0x7F - CODECS;

/// The stored number of a codec.
pub(super) const fn of_codec(id: CodecId) -> u8 {
    CODECS + id.0
}

/// All steps that are not codecs.
pub(super) fn steps() -> impl Iterator<Item = Element> {
    (1..CODECS).map_while(|number| step(number).map(|step| Element::Step(number, step)))
}

/// All codecs that can be in a pipeline, with the index of each in [`codecs::all`]. `auto` is not among them,
/// since it chooses among pipelines; nor is `zstd-dict`, whose forms depend on more than the block.
pub(super) fn whole() -> impl Iterator<Item = (usize, &'static dyn Codec)> {
    codecs::all().enumerate().filter(|(_, codec)| codec.id().0 <= LAST_CODEC)
}

impl Element {
    /// The element that undoes the step with this stored number.
    pub(crate) fn to_undo(number: u8) -> Option<Self> {
        match number.checked_sub(CODECS) {
            Some(id) => codecs::decoder(CodecId(id)).map(Element::Codec),
            None => step(number).map(|step| Element::Step(number, step)),
        }
    }

    /// The stored number.
    pub(crate) fn number(self) -> u8 {
        match self {
            Element::Step(number, _) => number,
            Element::Codec(codec) => of_codec(codec.id()),
        }
    }

    /// The code of the element with this name; [`Element::by_code`] is the inverse.
    pub(crate) fn by_name(name: &str) -> Option<u16> {
        if let Some(step) = steps().find(|step| step.name() == name) {
            return Some(step.number().into());
        }
        let name = codecs::alias(name);
        let (index, _) = whole().find(|(_, codec)| codec.name() == name)?;
        Some(u16::from(CODECS) + index as u16)
    }

    /// The element with that code. Codes are valid in this process only, unlike the numbers, which are
    /// stored.
    pub(crate) fn by_code(code: u16) -> Option<Self> {
        match usize::from(code).checked_sub(CODECS.into()) {
            Some(index) => codecs::all().nth(index).map(Element::Codec),
            None => step(code as u8).map(|step| Element::Step(code as u8, step)),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Element::Step(_, step) => step.name(),
            Element::Codec(codec) => codec.name(),
        }
    }

    pub(crate) fn keeps_length(self) -> bool {
        match self {
            Element::Step(_, step) => step.keeps_length(),
            Element::Codec(_) => false,
        }
    }

    pub(crate) fn bound(self, len: usize) -> usize {
        match self {
            Element::Step(_, step) => step.bound(len),
            Element::Codec(codec) => codec.bound(len),
        }
    }

    /// For at most `len` bytes.
    pub(crate) fn forward_scratch(self, len: usize) -> usize {
        match self {
            Element::Step(_, step) => step.forward_scratch(len),
            Element::Codec(codec) => codec.compress_scratch_up_to(len),
        }
    }

    pub(crate) fn backward_scratch(self, len: usize) -> usize {
        match self {
            Element::Step(_, step) => step.backward_scratch(len),
            Element::Codec(codec) => codec.decompress_scratch(len),
        }
    }

    pub(crate) fn forward(self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize> {
        match self {
            Element::Step(_, step) => step.forward(src, dst, scratch),
            Element::Codec(codec) => match codec.compress(src, dst, dst.len(), scratch) {
                Compressed::Fits(size) => Some(size),
                Compressed::Incompressible => None,
            },
        }
    }

    pub(crate) fn backward(
        self,
        src: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch<'_>,
    ) -> Result<(), Malformed> {
        match self {
            Element::Step(_, step) => step.backward(src, dst, scratch),
            Element::Codec(codec) => codec.decompress(src, dst, scratch),
        }
    }
}
