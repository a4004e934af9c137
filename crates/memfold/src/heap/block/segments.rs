//! An array that grows and never moves.
//!
//! ```text
//!   pieces   [ 0 ] -> FIRST items   [ 1 ] -> 2 x FIRST   [ 2 ] -> 4 x FIRST ...
//! ```
//!
//! Readers find an item without a lock while others add some. An item stays where it is until the array is
//! dropped.

use std::boxed::Box;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use std::vec::Vec;

/// Items of the first piece.
const FIRST: usize = 64;
/// Pieces: enough for 2^32 items.
const PIECES: usize = 27;

/// See the module.
pub struct Segments<T> {
    pieces: [AtomicPtr<T>; PIECES],
    bytes: AtomicU64,
}

/// Which piece an item is in, and where.
#[inline]
fn home(index: u32) -> (usize, usize) {
    let shifted = index as usize + FIRST;
    let piece = shifted.ilog2() - FIRST.ilog2();
    (piece as usize, shifted - (FIRST << piece))
}

impl<T> Segments<T> {
    /// An empty array; takes no memory.
    pub const fn new() -> Self {
        Segments { pieces: [const { AtomicPtr::new(ptr::null_mut()) }; PIECES], bytes: AtomicU64::new(0) }
    }

    /// The item, if its piece was made.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (piece, at) = home(index);
        let start = self.pieces[piece].load(Acquire);
        // SAFETY: a piece has that many items, which live as long as the array.
        (!start.is_null()).then(|| unsafe { &*start.add(at) })
    }

    /// Makes the piece of this item, all of whose items are `make()`; `None` if there is no memory. One
    /// caller at a time.
    pub fn make(&self, index: u32, make: impl Fn() -> T) -> Option<&T> {
        let (piece, _) = home(index);
        if self.pieces[piece].load(Acquire).is_null() {
            let len = FIRST << piece;
            let mut items: Vec<T> = Vec::new();
            items.try_reserve_exact(len).ok()?;
            items.resize_with(len, make);
            self.bytes.fetch_add((len * size_of::<T>()) as u64, Relaxed);
            let start = Box::into_raw(items.into_boxed_slice()).cast();
            self.pieces[piece].store(start, Release);
        }
        self.get(index)
    }

    /// Bytes that the first piece will take, if there is none yet.
    pub fn first_bytes(&self) -> u64 {
        if self.bytes() == 0 { (FIRST * size_of::<T>()) as u64 } else { 0 }
    }

    /// Bytes of memory that the pieces take.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

impl<T> Drop for Segments<T> {
    fn drop(&mut self) {
        for (number, piece) in self.pieces.iter_mut().enumerate() {
            let start = *piece.get_mut();
            if !start.is_null() {
                // SAFETY: made by `into_raw` from a slice of that length.
                drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start, FIRST << number)) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_stay_where_they_are() {
        let array: Segments<AtomicU64> = Segments::new();
        assert!(array.get(0).is_none() && array.bytes() == 0);
        for index in 0..5000 {
            array.make(index, || AtomicU64::new(7)).unwrap().store(index.into(), Relaxed);
        }
        for index in 0..5000 {
            assert_eq!(array.get(index).unwrap().load(Relaxed), u64::from(index));
        }
        assert!(array.get(20_000).is_none());
        assert_eq!(home(u32::MAX), (26, 63));
    }
}
