//! Working memory that a caller hands to codecs, call after call.
//!
//! Some codecs keep a context that costs microseconds to set up (zstd zeroes
//! its tables and asks the processor what it can do) and nothing to use again.
//! A [`Scratch`] therefore remembers what was set up in its memory. The next
//! call of the same codec for the same length finds its context ready; any
//! other use starts afresh. So one scratch may serve all codecs in turn, in
//! any order, and is correct in each; it is fastest when it serves one codec
//! in one direction. A codec that needs no scratch leaves a context alone, so
//! a thread that stores with `lz4` and reads back `lz4` and `zstd` wants two:
//! one to compress with, one to decompress with.
//!
//! ```text
//! memory (aligned to 64 bytes)                                  memory + len
//! +------------------------------------+------------------------+----------+
//! | context of the codec that was here | space for one call     |  unused  |
//! | last: valid while `kept` names it  | only, contents random  |          |
//! +------------------------------------+------------------------+----------+
//! ```
//!
//! Invariant: while `kept` is `Some`, nobody but the codec it names has
//! written to the memory since that codec set its context up. It holds because
//! the memory is borrowed for as long as the scratch lives and every other way
//! to the bytes, all in this module, clears `kept` first.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::CodecId;

/// What a codec has set up in a scratch. Two equal values mean that a context
/// made for one call serves the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub codec: CodecId,
    pub compress: bool,
    pub level: i32,
    pub block_len: usize,
}

/// Working memory for codecs, owned by one thread at a time.
#[derive(Debug)]
pub struct Scratch<'a> {
    memory: NonNull<u8>,
    len: usize,
    kept: Option<Kept>,
    borrow: PhantomData<&'a mut [u8]>,
}

// SAFETY: a scratch is its memory, borrowed exclusively, and a note about it.
// The contexts in it are plain data of C libraries that are not bound to a
// thread, and every use of them goes through `&mut Scratch`.
unsafe impl Send for Scratch<'_> {}

impl<'a> Scratch<'a> {
    /// What the memory of a scratch must be aligned to.
    pub const ALIGN: usize = 64;

    /// A scratch in `memory`, what it holds does not matter.
    ///
    /// # Panics
    /// If `memory` is not empty and not aligned to [`Scratch::ALIGN`].
    pub fn new(memory: &'a mut [u8]) -> Self {
        let len = memory.len();
        let memory = NonNull::from(memory).cast::<u8>();
        assert!(len == 0 || memory.addr().get() % Self::ALIGN == 0, "scratch memory is not aligned");
        Scratch { memory, len, kept: None, borrow: PhantomData }
    }

    /// A scratch without memory, for codecs that need none.
    pub const fn empty() -> Self {
        Scratch { memory: NonNull::dangling(), len: 0, kept: None, borrow: PhantomData }
    }

    /// How many bytes of memory there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no memory.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets any context, so that the memory may be put to another use (or
    /// its pages given back) before the next call.
    pub fn forget(&mut self) {
        self.kept = None;
    }
}
