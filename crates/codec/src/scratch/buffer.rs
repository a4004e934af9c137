//! A scratch with memory of its own, for callers that may allocate.

use std::vec;
use std::vec::Vec;

use crate::{Codec, Scratch};

/// Heap memory suitable for a [`Scratch`].
#[derive(Debug, Default)]
pub struct ScratchBuf {
    memory: Vec<Line>,
}

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; Scratch::ALIGN]);

impl ScratchBuf {
    /// At least `size` bytes.
    pub fn with_size(size: usize) -> Self {
        ScratchBuf { memory: vec![Line([0; Scratch::ALIGN]); size.div_ceil(Scratch::ALIGN)] }
    }

    /// Enough for `codecs` to compress and decompress blocks of `len` bytes.
    pub fn for_codecs<'c>(codecs: impl IntoIterator<Item = &'c dyn Codec>, len: usize) -> Self {
        let sizes = codecs.into_iter().map(|c| c.compress_scratch(len).max(c.decompress_scratch(len)));
        Self::with_size(sizes.max().unwrap_or(0))
    }

    /// How many bytes there are.
    pub fn size(&self) -> usize {
        self.memory.len() * Scratch::ALIGN
    }

    /// The scratch. Keep it for many calls: making another one discards the contexts in it.
    pub fn scratch(&mut self) -> Scratch<'_> {
        Scratch::new(bytes(&mut self.memory))
    }

    /// Makes a scratch that lives until the program ends; a structure can own it without borrowing.
    pub fn leak(self) -> Scratch<'static> {
        Scratch::new(bytes(self.memory.leak()))
    }
}

fn bytes(lines: &mut [Line]) -> &mut [u8] {
    // SAFETY: a `Line` is an array of bytes and nothing else.
    unsafe { core::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines)) }
}
