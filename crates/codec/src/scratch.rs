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
//! memory (aligned to 64 bytes)                               memory + len
//! +----------------------------+---------------------------+----------+
//! | what a codec wants for one | context: valid as long as |  unused  |
//! | call, contents random      | `kept` describes it       |          |
//! +----------------------------+---------------------------+----------+
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
    /// What is set up, and where the codec says its context is.
    kept: Option<(Kept, NonNull<u8>)>,
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

    /// Memory for one call that keeps nothing.
    ///
    /// # Panics
    /// If there are fewer than `size` bytes.
    #[inline]
    pub(crate) fn take(&mut self, size: usize) -> NonNull<u8> {
        self.kept = None;
        self.memory_of(size)
    }

    /// The memory, and in it the context that `kept` describes. If there is
    /// another or none, `size` tells how many bytes are needed and `set_up`
    /// makes one and tells where it is.
    ///
    /// # Panics
    /// If there are fewer than `size()` bytes.
    #[inline]
    pub(crate) fn keep(
        &mut self,
        kept: Kept,
        size: impl FnOnce() -> usize,
        set_up: impl FnOnce(NonNull<u8>) -> NonNull<u8>,
    ) -> (NonNull<u8>, NonNull<u8>) {
        if let Some((_, context)) = self.kept.filter(|(there, _)| *there == kept) {
            return (self.memory, context);
        }
        let memory = self.take(size());
        let context = set_up(memory);
        self.kept = Some((kept, context));
        (memory, context)
    }

    #[inline]
    fn memory_of(&self, size: usize) -> NonNull<u8> {
        // Going on with less would turn a mistake of the caller into blocks
        // that seem incompressible or damaged.
        assert!(self.len >= size, "the scratch is smaller than the codec needs");
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Kept = Kept { codec: CodecId::ZSTD, compress: true, level: 1, block_len: 4096 };

    #[repr(align(64))]
    struct Aligned([u8; 256]);

    fn sets_up(scratch: &mut Scratch<'_>, kept: Kept) -> bool {
        let mut called = false;
        let set_up = |memory: NonNull<u8>| {
            called = true;
            memory
        };
        scratch.keep(kept, || 100, set_up);
        called
    }

    #[test]
    fn a_context_is_set_up_once() {
        let mut memory = Aligned([0; 256]);
        let mut scratch = Scratch::new(&mut memory.0);
        assert!(sets_up(&mut scratch, KEPT));
        assert!(!sets_up(&mut scratch, KEPT));
    }

    #[test]
    fn any_other_use_ends_a_context() {
        let others = [
            Kept { compress: false, ..KEPT },
            Kept { level: 2, ..KEPT },
            Kept { block_len: 4095, ..KEPT },
            Kept { codec: CodecId::LZ4, ..KEPT },
        ];
        let mut memory = Aligned([0; 256]);
        let mut scratch = Scratch::new(&mut memory.0);
        for other in others {
            sets_up(&mut scratch, KEPT);
            assert!(sets_up(&mut scratch, other));
            assert!(sets_up(&mut scratch, KEPT));
        }
        scratch.take(1);
        assert!(sets_up(&mut scratch, KEPT));
        scratch.forget();
        assert!(sets_up(&mut scratch, KEPT));
    }

    #[test]
    #[should_panic = "smaller than the codec needs"]
    fn too_little_memory_is_no_silent_failure() {
        let mut memory = Aligned([0; 256]);
        Scratch::new(&mut memory.0[..64]).take(65);
    }

    #[test]
    #[should_panic = "not aligned"]
    fn unaligned_memory_is_refused() {
        let mut memory = Aligned([0; 256]);
        Scratch::new(&mut memory.0[8..]);
    }
}
