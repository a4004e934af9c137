//! Working memory that a caller hands to codecs, call after call.
//!
//! Some codecs keep a context that costs microseconds to set up (zstd zeroes its tables and queries the
//! processor's features) and nothing to reuse. A [`Scratch`] therefore remembers what was set up in its
//! memory. The next call of the same codec for the same length finds its context ready; any other use starts
//! afresh. So one scratch may serve all codecs in turn, in any order; it is fastest when it serves one codec
//! in one direction. A codec that needs no scratch leaves a context alone, so a thread that stores with `lz4`
//! and reads `lz4` and `zstd` should have two: one for compressing, one for decompressing.
//!
//! ```text
//! memory (aligned to 64 bytes)                               memory + len
//! +----------------------------+---------------------------+----------+
//! | what a codec wants for one | context: valid as long as |  unused  |
//! | call, contents random      | `context` describes it    |          |
//! +----------------------------+---------------------------+----------+
//! ```
//!
//! A codec that calls others (a pipeline) splits the scratch: it takes the first part and lends out the rest,
//! as a scratch that may keep a context, too. A context that several pipelines share is at the end of the
//! memory instead, which is the same for a scratch and its parts. So its position does not depend on the
//! steps before it in a pipeline.
//!
//! Invariant: while `context` is `Some`, only the codec that it names has written to the memory from
//! `context.memory` on since that codec set up its context. This holds because the memory is borrowed for as
//! long as the scratch lives, and every other access to the bytes (all in this module) clears `context` first
//! or lends only bytes before `context.memory`.

#[cfg(feature = "std")]
pub(crate) mod buffer;
pub(crate) mod parts;

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::CodecId;

/// Identifies a context that a codec has set up in a scratch. If two values are equal, a context made for one
/// call serves the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub codec: CodecId,
    pub compress: bool,
    pub level: i32,
    pub block_len: usize,
}

/// A context that lives in a scratch.
#[derive(Debug, Clone, Copy)]
struct Context {
    kept: Kept,
    /// The start of the scratch in which it was set up: this one, or a part of it that was lent out.
    memory: NonNull<u8>,
    /// Where the codec put it.
    at: NonNull<u8>,
}

/// Working memory for codecs, owned by one thread at a time.
#[derive(Debug)]
pub struct Scratch<'a> {
    memory: NonNull<u8>,
    len: usize,
    context: Option<Context>,
    borrow: PhantomData<&'a mut [u8]>,
}

// SAFETY: a scratch is exclusively borrowed memory, and a description of it. The contexts in it are plain
// data of C libraries that are not bound to a thread, and every use of them goes through `&mut Scratch`.
unsafe impl Send for Scratch<'_> {}

impl<'a> Scratch<'a> {
    /// The alignment that the memory of a scratch must have.
    pub const ALIGN: usize = 64;

    /// A scratch in `memory`, whose content does not matter.
    ///
    /// # Panics
    /// If `memory` is not empty and not aligned to [`Scratch::ALIGN`].
    pub fn new(memory: &'a mut [u8]) -> Self {
        let len = memory.len();
        let memory = NonNull::from(memory).cast::<u8>();
        assert!(len == 0 || memory.addr().get() % Self::ALIGN == 0, "scratch memory is not aligned");
        Scratch { memory, len, context: None, borrow: PhantomData }
    }

    /// A scratch for a caller that owns the memory and keeps the scratch in a context of its own, so that
    /// codecs may keep contexts in it between calls.
    ///
    /// # Safety
    /// `memory` is aligned to [`Scratch::ALIGN`] and has `len` bytes, all initialised. Nothing else accesses
    /// them between the first and the last use of the result; once the caller does, it no longer uses the
    /// result.
    pub(crate) unsafe fn kept(memory: NonNull<u8>, len: usize) -> Scratch<'static> {
        Scratch { memory, len, context: None, borrow: PhantomData }
    }

    /// A scratch without memory, for codecs that need none.
    pub const fn empty() -> Self {
        Scratch { memory: NonNull::dangling(), len: 0, context: None, borrow: PhantomData }
    }

    /// How many bytes of memory there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no memory.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets any context, so that the memory may be used otherwise (or its pages returned) before the next
    /// call.
    pub fn forget(&mut self) {
        self.context = None;
    }

    /// Memory for one call. A context after that memory is kept.
    ///
    /// # Panics
    /// If there are fewer than `size` bytes.
    #[inline]
    pub(crate) fn take(&mut self, size: usize) -> NonNull<u8> {
        let memory = self.memory_of(size);
        // SAFETY: `size` is not more than the length.
        let end = unsafe { memory.add(size) };
        self.context = self.context.filter(|context| context.memory >= end);
        memory
    }

    /// The first `size` bytes for one call, with arbitrary content: the working memory of a codec outside
    /// this crate.
    ///
    /// # Panics
    /// If there are fewer than `size` bytes.
    #[inline]
    pub fn bytes(&mut self, size: usize) -> &mut [u8] {
        let memory = self.take(size);
        // SAFETY: `take` guarantees `size` bytes. They were initialised when the scratch was made, and only
        // bytes were written since. They are borrowed as long as `self` is.
        unsafe { core::slice::from_raw_parts_mut(memory.as_ptr(), size) }
    }

    /// Lends the first `size` bytes, and the rest as a scratch of its own, in which a context survives until
    /// the next call that splits at the same place.
    ///
    /// # Panics
    /// If there are fewer than `size` bytes, or `size` is not a multiple of
    /// [`Scratch::ALIGN`].
    pub(crate) fn split<R>(&mut self, size: usize, work: impl FnOnce(&mut [u8], &mut Scratch<'_>) -> R) -> R {
        assert!(size.is_multiple_of(Self::ALIGN), "a scratch is split where no scratch may begin");
        let memory = self.memory_of(size);
        // SAFETY: `size` is not more than the length.
        let rest = unsafe { memory.add(size) };
        let context = self.context.take().filter(|context| context.memory >= rest);
        let mut rest = Scratch { memory: rest, len: self.len - size, context, borrow: PhantomData };
        // SAFETY: as in `bytes`; the scratch beside it begins where it ends.
        let bytes = unsafe { core::slice::from_raw_parts_mut(memory.as_ptr(), size) };
        let result = work(bytes, &mut rest);
        self.context = rest.context;
        result
    }

    /// The memory, and in it the context that `kept` describes. If there is another or none, `size` returns
    /// how many bytes are needed, and `set_up` makes a context and returns where it is.
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
        if let Some(there) = self.context.filter(|there| there.kept == kept && there.memory == self.memory) {
            return (self.memory, there.at);
        }
        let memory = self.take(size());
        let at = set_up(memory);
        self.context = Some(Context { kept, memory, at });
        (memory, at)
    }

    /// The same for a context of `size` bytes at the end of the scratch.
    ///
    /// # Panics
    /// If there are fewer than `size` bytes.
    #[inline]
    pub(crate) fn keep_last(
        &mut self,
        kept: Kept,
        size: usize,
        set_up: impl FnOnce(NonNull<u8>) -> NonNull<u8>,
    ) -> NonNull<u8> {
        let memory = self.memory_of(size);
        let end = memory.addr().get() + self.len;
        // Its start depends only on the end of the memory; otherwise a part would not find the context that
        // the whole scratch has set up.
        let at = (end - size) / Self::ALIGN * Self::ALIGN;
        // SAFETY: the memory is aligned, so it does not begin after `at`.
        let memory = unsafe { memory.add(at - memory.addr().get()) };
        if let Some(there) = self.context.filter(|there| there.kept == kept && there.memory == memory) {
            return there.at;
        }
        self.context = None;
        let at = set_up(memory);
        self.context = Some(Context { kept, memory, at });
        at
    }

    #[inline]
    fn memory_of(&self, size: usize) -> NonNull<u8> {
        // Continuing with less memory would turn a caller's mistake into blocks that seem incompressible or
        // damaged.
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
    fn a_context_in_the_rest_lives_on_until_that_is_used() {
        let mut memory = Aligned([0; 256]);
        let mut scratch = Scratch::new(&mut memory.0);
        assert!(scratch.split(64, |_, rest| sets_up(rest, KEPT)));
        assert!(!scratch.split(64, |bytes, rest| {
            bytes.fill(1);
            sets_up(rest, KEPT)
        }));
        // At another place, in the whole scratch, and after the whole scratch was used.
        assert!(scratch.split(128, |_, rest| sets_up(rest, KEPT)));
        assert!(scratch.split(64, |_, rest| sets_up(rest, KEPT)));
        assert!(sets_up(&mut scratch, KEPT));
        assert!(scratch.split(64, |_, rest| sets_up(rest, KEPT)));
        scratch.bytes(64);
        assert!(!scratch.split(64, |_, rest| sets_up(rest, KEPT)));
        scratch.bytes(65);
        assert!(scratch.split(64, |_, rest| sets_up(rest, KEPT)));
        // A scratch that is split may itself be a part.
        assert!(scratch.split(0, |_, rest| rest.split(64, |_, rest| !sets_up(rest, KEPT))));
        // Lending the part before the context does no harm; lending a part that includes it does.
        scratch.split(128, |_, _| ());
        assert!(scratch.split(64, |_, rest| sets_up(rest, KEPT)));
    }

    #[test]
    fn a_context_at_the_end_serves_all_parts() {
        let keeps = |scratch: &mut Scratch<'_>| {
            let mut called = false;
            let at = scratch.keep_last(KEPT, 60, |memory| {
                called = true;
                memory
            });
            (called, at)
        };
        let mut memory = Aligned([0; 256]);
        let begin = NonNull::from(&mut memory.0).cast::<u8>().addr().get();
        let mut scratch = Scratch::new(&mut memory.0[..250]);
        let (set_up, at) = keeps(&mut scratch);
        // It starts 60 bytes before the end, rounded down to the alignment.
        assert!(set_up && at.addr().get() == begin + 128);
        assert_eq!(scratch.split(64, |_, rest| keeps(rest)), (false, at));
        assert_eq!(scratch.split(128, |_, rest| keeps(rest)), (false, at));
        scratch.bytes(128).fill(1);
        assert_eq!(keeps(&mut scratch), (false, at));
        assert_eq!(
            scratch.split(64, |bytes, rest| rest.split(64, |_, rest| (bytes.len(), keeps(rest)).1)),
            (false, at)
        );
        // Taking some of its bytes discards it.
        scratch.bytes(129).fill(1);
        assert!(keeps(&mut scratch).0);
        assert!(sets_up(&mut scratch, KEPT));
        assert!(keeps(&mut scratch).0);
        scratch.split(192, |_, _| ());
        assert!(keeps(&mut scratch).0);
    }

    #[test]
    #[should_panic = "smaller than the codec needs"]
    fn too_little_memory_panics() {
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
