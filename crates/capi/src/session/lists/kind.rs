//! Elements in C's form, and orders that C provides.
//!
//! Numbers of all three kinds are stored as `u64` with the same order, so that lists of numbers are one type:
//!
//! ```text
//!   u64   as it is
//!   i64   with its sign bit inverted
//!   f64   with its sign bit inverted and, if it is negative, all other bits, too: IEEE 754's total order
//! ```

use std::cmp::Ordering;
use std::ffi::{c_int, c_void};

use memfold::collections::slabmap::Key;
use memfold::collections::{Compare, Element};

use crate::entry::callback;
use crate::error::{Code, Failure};

/// As in `memfold.h`.
pub type memfold_compare =
    Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize, *const c_void, usize) -> c_int>;

const SIGN: u64 = 1 << 63;

/// The kind of elements or keys, with the numbers of `enum memfold_elements`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    U64 = 0,
    I64 = 1,
    F64 = 2,
    Bytes = 3,
}

impl Kind {
    pub fn new(number: u32) -> Option<Self> {
        [Kind::U64, Kind::I64, Kind::F64, Kind::Bytes].into_iter().find(|kind| *kind as u32 == number)
    }

    /// The stored form of a number's bits.
    fn keep(self, bits: u64) -> u64 {
        match self {
            Kind::I64 => bits ^ SIGN,
            Kind::F64 if bits & SIGN != 0 => !bits,
            Kind::F64 => bits | SIGN,
            Kind::U64 | Kind::Bytes => bits,
        }
    }

    /// The original bits of a stored number.
    fn give(self, kept: u64) -> u64 {
        match self {
            Kind::I64 => kept ^ SIGN,
            Kind::F64 if kept & SIGN == 0 => !kept,
            Kind::F64 => kept & !SIGN,
            Kind::U64 | Kind::Bytes => kept,
        }
    }
}

/// What the lists and maps here store.
pub trait Item: Element + Ord + Key<[u8], Entry = [u8]> {
    /// Calls `work` with the element that C gives as these bytes.
    fn take<R>(kind: Kind, bytes: &[u8], work: impl FnOnce(&Self) -> R) -> Result<R, Failure>;

    /// Calls `work` with the bytes for C.
    fn give<R>(&self, kind: Kind, work: impl FnOnce(&[u8]) -> R) -> R;
}

impl Item for u64 {
    fn take<R>(kind: Kind, bytes: &[u8], work: impl FnOnce(&Self) -> R) -> Result<R, Failure> {
        let number = bytes.try_into().map_err(|_| {
            let len = bytes.len();
            Failure::new(
                Code::Kind,
                format!("the elements or keys are numbers of 8 bytes, but {len} were given"),
            )
        })?;
        Ok(work(&kind.keep(u64::from_ne_bytes(number))))
    }

    fn give<R>(&self, kind: Kind, work: impl FnOnce(&[u8]) -> R) -> R {
        work(&kind.give(*self).to_ne_bytes())
    }
}

impl Item for [u8] {
    fn take<R>(_: Kind, bytes: &[u8], work: impl FnOnce(&Self) -> R) -> Result<R, Failure> {
        Ok(work(bytes))
    }

    fn give<R>(&self, _: Kind, work: impl FnOnce(&[u8]) -> R) -> R {
        work(self)
    }
}

/// An order that a callback provides.
#[derive(Clone, Copy)]
pub struct By {
    compare: unsafe extern "C" fn(*mut c_void, *const c_void, usize, *const c_void, usize) -> c_int,
    context: *mut c_void,
    kind: Kind,
}

impl By {
    /// # Safety
    /// While this value lives, the callback reads no further than the lengths that it is given, and writes to
    /// neither element.
    pub unsafe fn new(compare: memfold_compare, context: *mut c_void, kind: Kind) -> Option<Self> {
        compare.map(|compare| By { compare, context, kind })
    }
}

impl<E: ?Sized + Item> Compare<E> for By {
    fn compare(&self, a: &E, b: &E) -> Ordering {
        a.give(self.kind, |a| {
            b.give(self.kind, |b| {
                let (from, to) = (a.as_ptr().cast(), b.as_ptr().cast());
                // SAFETY: promised when this was made; both have the given lengths.
                let order = callback(|| unsafe { (self.compare)(self.context, from, a.len(), to, b.len()) });
                order.cmp(&0)
            })
        })
    }
}

/// Such an order, or the elements' own.
#[derive(Clone, Copy)]
pub struct Order(pub Option<By>);

impl<E: ?Sized + Item> Compare<E> for Order {
    fn compare(&self, a: &E, b: &E) -> Ordering {
        match &self.0 {
            Some(by) => by.compare(a, b),
            None => a.cmp(b),
        }
    }
}
