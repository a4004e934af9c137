//! Looking at a node in place, and changing it there: for search structures in nodes, which need a few bytes of
//! a node, not a copy of it.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::vec::Vec;

use zerocopy::IntoBytes;

use crate::heap::access::bytes::Bytes;
use crate::heap::access::bytes::NodeBytes;
use crate::heap::access::session::Session;
use crate::heap::access::typed::Plain;
use crate::heap::block::handle::Handle;
use crate::heap::error::Error;

/// How many times a node is looked at in place if something changes it or evicts its block each time. After
/// that, a copy is looked at. More attempts would not help if the code that looks uses so many other nodes
/// that the block is always evicted.
const TIMES: u32 = 2;

/// The bytes of a node in place. If others write to them meanwhile, the result is discarded, and the node is
/// looked at again.
#[derive(Clone, Copy)]
pub struct View<'n> {
    bytes: Bytes,
    node: PhantomData<&'n [u8]>,
}

impl<'n> View<'n> {
    #[inline(always)]
    pub(crate) fn new(bytes: Bytes) -> Self {
        View { bytes, node: PhantomData }
    }

    /// Bytes of the node.
    #[inline(always)]
    #[expect(clippy::len_without_is_empty, reason = "no node is empty")]
    pub fn len(self) -> usize {
        self.bytes.len()
    }

    /// The value that begins at byte `from`; `None` if the node ends before it does.
    #[inline(always)]
    pub fn get<T: Plain>(self, from: usize) -> Option<T> {
        let mut value = T::new_zeroed();
        if self.bytes.copy_words(from, value.as_mut_bytes()) || self.bytes.copy_to(from, value.as_mut_bytes())
        {
            Some(value)
        } else {
            None
        }
    }

    /// Copies the bytes from `from` on into `to`; returns false if there are too few.
    #[inline(always)]
    pub fn copy_to(self, from: usize, to: &mut [u8]) -> bool {
        self.bytes.copy_words(from, to) || self.bytes.copy_to(from, to)
    }

    /// The values of an array that begins at byte `from`, for access one by one. `None` if the node ends too
    /// early, or if single values can't be read in one access at that position: use [`View::get`] then.
    #[inline(always)]
    pub(crate) fn array<T: Plain>(self, from: usize, count: usize) -> Option<Array<'n, T>> {
        let size = const { size_of::<T>() };
        // A value is read in one load, or word by word.
        let fits = matches!(size, 1 | 2 | 4) || size > 0 && size.is_multiple_of(8);
        let is_aligned = from.is_multiple_of(size.clamp(1, 8)) && self.bytes.has_words();
        let end = count.checked_mul(size)?.checked_add(from)?;
        if !fits || !is_aligned || end > self.bytes.len() {
            return None;
        }
        // SAFETY: within the node.
        let start = unsafe { self.bytes.spot().bytes.add(from) };
        Some(Array { start, count, node: PhantomData })
    }

    /// Appends the `count` values of an array that begins at byte `from`; returns false if there are too few.
    #[inline]
    pub(crate) fn append<T: Plain + Copy>(self, from: usize, count: usize, to: &mut Vec<T>) -> bool {
        to.reserve(count);
        if let Some(array) = self.array::<T>(from, count) {
            to.extend((0..count).map(|number| array.get(number)));
            return true;
        }
        let old = to.len();
        to.resize_with(old + count, T::new_zeroed);
        self.copy_to(from, to[old..].as_mut_bytes())
    }

    /// Prefetches these bytes, which will be looked at soon.
    #[inline(always)]
    pub fn prefetch(self, from: usize, len: usize) {
        let end = from.saturating_add(len).min(self.bytes.len());
        for line in (from..end).step_by(64) {
            prefetch(self.bytes.spot().bytes.as_ptr().wrapping_add(line));
        }
    }
}

/// Consecutive values in a node. Others may be writing to them.
#[derive(Clone, Copy)]
pub(crate) struct Array<'n, T> {
    start: NonNull<u8>,
    count: usize,
    node: PhantomData<&'n [T]>,
}

impl<T: Plain> Array<'_, T> {
    /// The number of values.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.count
    }

    /// One of the values.
    #[inline(always)]
    pub fn get(self, number: usize) -> T {
        assert!(number < self.count);
        let mut value = T::new_zeroed();
        let to = value.as_mut_bytes();
        // SAFETY: here and below: within the node, and at a multiple of the size of each access, as was
        // checked when the array was made; bytes that may be written at the same time are read by atomic
        // operations.
        unsafe {
            let at = self.start.add(number * const { size_of::<T>() });
            match const { size_of::<T>() } {
                1 => to[0] = at.cast::<AtomicU8>().as_ref().load(Relaxed),
                2 => to.copy_from_slice(&at.cast::<AtomicU16>().as_ref().load(Relaxed).to_ne_bytes()),
                4 => to.copy_from_slice(&at.cast::<AtomicU32>().as_ref().load(Relaxed).to_ne_bytes()),
                _ => {
                    for (i, to) in to.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                        *to = at.cast::<AtomicU64>().add(i).as_ref().load(Relaxed).to_ne_bytes();
                    }
                }
            }
        }
        value
    }
}

#[inline(always)]
fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which may name any address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

impl<'h> Session<'h> {
    /// Calls `look` with a node in place, or with a copy. If another thread writes to the node meanwhile, or
    /// if `look` itself uses the heap, it may see an invalid node. It is then called again, and only the last
    /// result counts.
    ///
    /// ```
    /// # use memfold::heap::{Heap, Options};
    /// let heap = Heap::new(Options::new())?;
    /// let mut session = heap.session()?;
    /// let node = session.put(&[1u32, 2, 3])?;
    /// let sum = session.view(node, |view| (0..3).filter_map(|i| view.get::<u32>(4 * i)).sum::<u32>())?;
    /// assert_eq!(sum, 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn view<R>(&self, handle: Handle, mut look: impl FnMut(View<'_>) -> R) -> Result<R, Error> {
        match self.look_once(handle, |bytes| Some(look(View::new(bytes)))) {
            Some(result) => Ok(result),
            None => self.view_hard(handle, look),
        }
    }

    #[cold]
    #[inline(never)]
    fn view_hard<R>(&self, handle: Handle, mut look: impl FnMut(View<'_>) -> R) -> Result<R, Error> {
        let is_copied = self.core().plain().is_some() || self.is_large(handle);
        if !is_copied
            && let Some(result) = self.look_times(handle, TIMES, &mut |bytes| look(View::new(bytes)))?
        {
            return Ok(result);
        }
        // A copy stays unchanged, whatever is evicted or faulted in meanwhile.
        let mut copy: Vec<u8> = self.read(handle)?;
        let len = copy.len();
        let Some(bytes) = NonNull::new(copy.as_mut_ptr()) else { return Err(Error::OutOfMemory) };
        Ok(look(View::new(Bytes::alone(NodeBytes { bytes, len }))))
    }

    /// Calls `change` to change a node in place; nobody sees it half changed. Meanwhile other writes to nodes
    /// by this session fail with [`Error::Busy`].
    #[inline]
    pub fn change_in_place<R>(
        &self,
        handle: Handle,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Error> {
        let _alone = self.change_alone()?;
        let mut node = self.write_shared(handle)?;
        Ok(change(&mut node))
    }
}
