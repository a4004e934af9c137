//! The steps of a pipeline, and how they are done and undone.
//!
//! ```text
//! scratch   +----------+----------+---------------------------------------+
//!           | buffer   | buffer   | scratch of the steps, one at a time;  |
//!           |          |          | a context of the last may stay there  |
//!           +----------+----------+---------------------------------------+
//! ```
//!
//! A buffer holds the longest possible output of any step but the last. There are as many as needed: none for
//! one step, one for two.

use core::num::NonZeroU64;
use core::str::FromStr;

use super::MOST_STEPS;
use super::element::{Element, steps, whole};
use crate::scratch::parts::{Parts, part};
use crate::{Codec, CodecId, Compressed, Malformed, Scratch, UnknownCodec, codecs};

/// Bits of a step's code.
const BITS: u32 = 9;
const MASK: u64 = (1 << BITS) - 1;

/// The steps of a pipeline: seven codes of nine bits, the first lowest. A code
/// names a step for this process only.
///
/// Its methods are those of a codec whose forms do not contain the steps: the caller must know the chain to
/// read them. A chain of a single codec produces the same forms as that codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chain(NonZeroU64);

impl FromStr for Chain {
    type Err = UnknownCodec;

    fn from_str(name: &str) -> Result<Self, UnknownCodec> {
        let mut codes = 0;
        for (i, step) in name.split('+').enumerate() {
            let code = Element::by_name(step).filter(|_| i < MOST_STEPS).ok_or(UnknownCodec)?;
            codes |= u64::from(code) << (BITS * i as u32);
        }
        NonZeroU64::new(codes).map(Chain).ok_or(UnknownCodec)
    }
}

impl Chain {
    /// The codes as one number that is not zero; for [`Chain::from_number`] in
    /// this process.
    pub(crate) fn number(self) -> u64 {
        self.0.get()
    }

    /// The inverse of [`Chain::number`]; `None` for zero.
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Chain)
    }

    /// The number of steps: at least one.
    #[allow(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(self) -> usize {
        ((u64::BITS - self.0.leading_zeros()).div_ceil(BITS)) as usize
    }

    /// The code of each step; levels of a codec have different codes.
    pub(crate) fn codes(self) -> impl Iterator<Item = u64> {
        (0..MOST_STEPS as u32).map(move |i| self.0.get() >> (BITS * i) & MASK)
    }

    pub(crate) fn elements(self) -> impl Iterator<Item = Element> {
        self.codes().map_while(|code| Element::by_code(code as u16))
    }

    /// The codecs among the steps.
    pub(crate) fn codecs(self) -> impl Iterator<Item = &'static dyn Codec> {
        self.elements().filter_map(|element| match element {
            Element::Codec(codec) => Some(codec),
            Element::Step(..) => None,
        })
    }

    /// The codec, if it is the only step.
    pub fn codec(self) -> Option<&'static dyn Codec> {
        let mut elements = self.elements();
        match (elements.next(), elements.next()) {
            (Some(Element::Codec(codec)), None) => Some(codec),
            _ => None,
        }
    }

    /// The chain of steps with these stored numbers, ignoring [`LAST`](super::LAST) in each.
    pub(crate) fn of_steps(steps: &[u8]) -> Option<Self> {
        let mut codes = 0;
        for (i, step) in steps.iter().enumerate().take(MOST_STEPS) {
            let code = Element::by_name(Element::to_undo(step & !super::LAST)?.name())?;
            codes |= u64::from(code) << (BITS * i as u32);
        }
        Chain::from_number(codes)
    }

    /// The chain that undoes the same steps: one for all levels of its codecs.
    pub(crate) fn to_undo(self) -> Option<Self> {
        let mut numbers = [0; MOST_STEPS];
        for (to, element) in numbers.iter_mut().zip(self.elements()) {
            *to = element.number();
        }
        Chain::of_steps(&numbers[..self.len()])
    }

    /// The chain of the codec with this number, if it can be in one.
    pub(crate) fn of_codec(id: CodecId) -> Option<Self> {
        let code = Element::by_name(codecs::decoder(id)?.name())?;
        Chain::from_number(code.into())
    }

    fn array(self) -> [Option<Element>; MOST_STEPS] {
        let mut elements = self.elements();
        [(); MOST_STEPS].map(|()| elements.next())
    }

    /// The most bytes that the form of `len` bytes can take.
    pub fn bound(self, len: usize) -> usize {
        if len == 0 {
            return 0;
        }
        let (mut bound, mut head) = (len, 0);
        for (i, element) in self.elements().enumerate() {
            bound = element.bound(bound);
            if i + 1 < self.len() && !element.keeps_length() {
                head += varint_size(bound);
            }
        }
        bound.saturating_add(head)
    }

    /// Bytes of scratch that `compress` needs for a block of at most `len` bytes.
    pub fn compress_scratch(self, len: usize) -> usize {
        let (mut bound, mut work) = (len, 0);
        for element in self.elements() {
            work = work.max(element.forward_scratch(bound));
            bound = element.bound(bound);
        }
        buffers(self.elements(), len).1 + work
    }

    /// Bytes of scratch that `decompress` needs to restore at most `len` bytes.
    pub fn decompress_scratch(self, len: usize) -> usize {
        if len == 0 { 0 } else { backward_scratch(&self.array(), len) }
    }

    /// Like [`crate::Codec::compress`], without the steps in the form.
    ///
    /// # Panics
    /// As for that.
    pub fn compress(
        self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        let room = crate::room(dst, threshold, self.bound(src.len()));
        if src.is_empty() {
            return Compressed::Fits(0);
        }
        self.forward(src, &mut dst[..room], scratch).map_or(Compressed::Incompressible, Compressed::Fits)
    }

    /// Like [`crate::Codec::decompress`], for the output of [`Chain::compress`].
    ///
    /// # Panics
    /// If `scratch` is smaller than `decompress_scratch(dst.len())`.
    pub fn decompress(self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if dst.is_empty() || src.is_empty() {
            return if dst.is_empty() && src.is_empty() { Ok(()) } else { Err(Malformed) };
        }
        assert!(scratch.len() >= self.decompress_scratch(dst.len()), "the scratch is smaller than needed");
        backward(&self.array(), src, dst, scratch)
    }

    /// Performs all steps. `None` if the result does not fit.
    pub(super) fn forward(self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Option<usize> {
        let (each, all) = buffers(self.elements(), src.len());
        scratch.split(all, |bytes, scratch| self.forward_with(src, dst, bytes, each, scratch))
    }

    /// The bytes of each of the two buffers that [`Chain::forward_with`] needs for at most `len` bytes.
    pub(crate) fn buffer(self, len: usize) -> usize {
        buffers(self.elements(), len).0
    }

    /// Performs all steps, with scratch from the caller's source, and buffers of `each` bytes in `bytes`.
    /// `None` if the result does not fit.
    pub(crate) fn forward_with(
        self,
        src: &[u8],
        dst: &mut [u8],
        bytes: &mut [u8],
        each: usize,
        scratch: &mut impl ScratchSource,
    ) -> Option<usize> {
        let elements = self.array();
        let (last, before) = elements[..self.len()].split_last()?;
        let last = (*last)?;
        if before.is_empty() {
            return scratch.lend(last, |scratch| last.forward(src, dst, scratch));
        }
        let mut parts = Parts::new(bytes);
        let (mut from, mut to) =
            (parts.take::<u8>(if before.len() > 1 { each } else { 0 }), parts.take(each));
        let (mut len, mut head) = (src.len(), Head::default());
        for (i, element) in before.iter().flatten().enumerate() {
            let src = if i == 0 { src } else { &from[..len] };
            let to_all = &mut to[..element.bound(src.len())];
            len = scratch.lend(*element, |scratch| element.forward(src, to_all, scratch))?;
            if !element.keeps_length() {
                head.put(len);
            }
            core::mem::swap(&mut from, &mut to);
        }
        let (to, rest) = dst.split_at_mut_checked(head.len)?;
        to.copy_from_slice(&head.bytes[..head.len]);
        let size = scratch.lend(last, |scratch| last.forward(&from[..len], rest, scratch))?;
        Some(head.len + size)
    }
}

/// Where elements get their scratch.
pub(crate) trait ScratchSource {
    /// Calls `work` with scratch for that element.
    fn lend<R>(&mut self, element: Element, work: impl FnOnce(&mut Scratch<'_>) -> R) -> R;
}

impl ScratchSource for Scratch<'_> {
    fn lend<R>(&mut self, _element: Element, work: impl FnOnce(&mut Scratch<'_>) -> R) -> R {
        work(self)
    }
}

/// The lengths that precede a form.
#[derive(Default)]
struct Head {
    bytes: [u8; 5 * (MOST_STEPS - 1)],
    len: usize,
}

impl Head {
    fn put(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.bytes[self.len] = value as u8 | 0x80;
            self.len += 1;
            value >>= 7;
        }
        self.bytes[self.len] = value as u8;
        self.len += 1;
    }
}

fn varint_size(value: usize) -> usize {
    (usize::BITS - value.leading_zeros()).div_ceil(7).max(1) as usize
}

/// A length, and the bytes after it.
fn varint(src: &[u8]) -> Option<(usize, &[u8])> {
    let len = src.iter().take(5).position(|byte| byte & 0x80 == 0)? + 1;
    let (bytes, rest) = src.split_at(len);
    let value = bytes.iter().rev().fold(0_u64, |value, byte| value << 7 | u64::from(byte & 0x7F));
    usize::try_from(value).ok().map(|value| (value, rest))
}

/// Bytes of one buffer, and of all of them together.
fn buffers(elements: impl Iterator<Item = Element>, len: usize) -> (usize, usize) {
    let (mut bound, mut longest, mut count) = (len, 0, 0_usize);
    for element in elements {
        // The output of the last one goes elsewhere.
        longest = if count > 0 { bound.max(longest) } else { 0 };
        bound = element.bound(bound);
        count += 1;
    }
    (longest, (count.clamp(1, 3) - 1) * part::<u8>(longest))
}

fn backward_scratch(elements: &[Option<Element>], len: usize) -> usize {
    let elements = elements.iter().flatten().copied();
    let (mut bound, mut work) = (len, 0);
    for element in elements.clone() {
        work = work.max(element.backward_scratch(bound));
        bound = element.bound(bound);
    }
    buffers(elements, len).1 + work
}

/// At least the [`backward_scratch`] of the worst pipeline. It leaves room for Zstandard's context at the
/// end, so that the context survives the work of all codecs before it.
pub(crate) fn worst_decompress_scratch(len: usize) -> usize {
    let elements = || steps().chain(whole().map(|(_, codec)| Element::Codec(codec)));
    let mut longest = len;
    for _ in 1..MOST_STEPS {
        longest = elements().map(|element| element.bound(longest)).max().unwrap_or(longest);
    }
    let worst = |elements: &mut dyn Iterator<Item = Element>| {
        elements.map(|element| part::<u8>(element.backward_scratch(longest))).max().unwrap_or(0)
    };
    let stays = |element: &Element| matches!(element, Element::Codec(codec) if codec.id() == CodecId::ZSTD);
    let context = worst(&mut elements().filter(stays));
    let work = worst(&mut elements().filter(|element| !stays(element)));
    2 * part::<u8>(longest) + work + context
}

/// Undoes the elements, the last first. `elements` is filled from the front; all after the first empty one
/// are empty. Refuses a form that needs more scratch than there is.
pub(super) fn backward(
    elements: &[Option<Element>; MOST_STEPS],
    src: &[u8],
    dst: &mut [u8],
    scratch: &mut Scratch<'_>,
) -> Result<(), Malformed> {
    if scratch.len() < backward_scratch(elements, dst.len()) {
        return Err(Malformed);
    }
    let count = elements.iter().flatten().count();
    let (each, all) = buffers(elements.iter().flatten().copied(), dst.len());
    // The length of the block before each element, and after the last but one.
    let mut lens = [dst.len(); MOST_STEPS];
    let (mut bound, mut body) = (dst.len(), src);
    for (i, element) in elements[..count].iter().flatten().enumerate().take(count - 1) {
        bound = element.bound(bound);
        lens[i + 1] = lens[i];
        if !element.keeps_length() {
            (lens[i + 1], body) = varint(body).ok_or(Malformed)?;
        }
        if lens[i + 1] == 0 || lens[i + 1] > bound {
            return Err(Malformed);
        }
    }
    if body.is_empty() {
        return Err(Malformed);
    }
    scratch.split(all, |bytes, scratch| {
        let mut parts = Parts::new(bytes);
        let (mut from, mut to) =
            (parts.take::<u8>(if count > 2 { each } else { 0 }), parts.take(each * usize::from(count > 1)));
        for i in (0..count).rev() {
            let element = elements[i].ok_or(Malformed)?;
            let src = if i + 1 == count { body } else { &from[..lens[i + 1]] };
            if i == 0 {
                return element.backward(src, dst, scratch);
            }
            element.backward(src, &mut to[..lens[i]], scratch)?;
            core::mem::swap(&mut from, &mut to);
        }
        Err(Malformed)
    })
}
