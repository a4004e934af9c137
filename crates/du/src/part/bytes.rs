//! Numbers as bytes: little-endian, LEB128, and zigzag for differences.

use super::Malformed;

pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends a number as [`Bytes::leb`] reads it.
pub fn put_leb(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Bytes that are read from their beginning on.
#[derive(Clone, Copy)]
pub struct Bytes<'b>(pub &'b [u8]);

impl<'b> Bytes<'b> {
    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'b [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A number of `len` bytes, at most eight.
    pub(super) fn number(&mut self, len: usize) -> Result<u64, Malformed> {
        let mut bytes = [0; 8];
        bytes.get_mut(..len).ok_or(Malformed)?.copy_from_slice(self.take(len)?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// A number in LEB128.
    pub fn leb(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    pub(super) fn step(&mut self, last: u64) -> Result<u64, Malformed> {
        Ok(last.wrapping_add(unzigzag(self.leb()?) as u64))
    }
}
