//! The elements of lists in random operations.

use std::fmt::Debug;

use memfold::collections::Element;
use memfold::heap::Plain;

/// An element type, and how its values are derived from numbers.
pub trait Number: Element + ToOwned<Owned = Self> + Plain + Copy + Ord + Debug {
    const NAME: &'static str;
    fn from_number(number: u64) -> Self;
}

impl Number for u64 {
    const NAME: &'static str = "u64";
    fn from_number(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Number for i64 {
    const NAME: &'static str = "i64";
    fn from_number(number: u64) -> i64 {
        number as i64 - 1000
    }
}

impl Number for u32 {
    const NAME: &'static str = "u32";
    fn from_number(number: u64) -> u32 {
        number as u32
    }
}

impl Number for u8 {
    const NAME: &'static str = "u8";
    fn from_number(number: u64) -> u8 {
        number as u8
    }
}

impl Number for [u64; 2] {
    const NAME: &'static str = "two u64";
    fn from_number(number: u64) -> [u64; 2] {
        [number % 16, number / 16]
    }
}
