//! Walks the whole store and verifies its invariants.

use super::blob::{self, Header};
use super::class::{GROUP_SLOTS, Locked};
use super::memory::Memory;
use super::{Ref, Store};

impl<M: Memory> Store<M> {
    /// Verifies every invariant and every blob, and calls `each` for each blob. No put may be under way. The
    /// error says what is wrong.
    pub fn check(&self, mut each: impl FnMut(u64, Ref)) -> Result<(), &'static str> {
        for (number, class) in self.classes.iter() {
            class.lock(&self.memory).check(number, &mut each)?;
        }
        let stats = self.stats();
        let parts = stats.payload_bytes
            + stats.header_bytes
            + stats.rounding_bytes
            + stats.hole_bytes
            + stats.slack_bytes
            + stats.table_bytes;
        if parts != stats.resident_bytes { Err("the parts are not the whole") } else { Ok(()) }
    }
}

impl<M: Memory> Locked<'_, M> {
    fn check(&self, number: usize, each: &mut impl FnMut(u64, Ref)) -> Result<(), &'static str> {
        let (mut live, mut payload) = (0, 0);
        if self.top > 0 && !self.class.is_ready(self.top - 1) {
            return Err("slots in use are not committed");
        }
        if self.committed < self.used_bytes() {
            return Err("more is used than committed");
        }
        for group in 0..self.groups() {
            let bits = self.bits(group);
            if bits & !self.used_mask(group) != 0 {
                return Err("a bit is set above the top");
            }
            if group < self.low && bits != self.used_mask(group) {
                return Err("a hole below the lowest");
            }
            for i in (0..GROUP_SLOTS).filter(|i| bits >> i & 1 != 0) {
                let index = group * GROUP_SLOTS + i;
                let len = self.check_slot(number, index, each)?;
                live += 1;
                payload += len as u64;
            }
        }
        if live != self.live {
            return Err("the count of blobs is wrong");
        }
        if payload != self.payload { Err("the count of payload bytes is wrong") } else { Ok(()) }
    }

    fn check_slot(
        &self,
        number: usize,
        index: u64,
        each: &mut impl FnMut(u64, Ref),
    ) -> Result<usize, &'static str> {
        // SAFETY: the header of a slot below the top.
        let header =
            unsafe { Header::read(self.class.header(index)) }.ok_or("a live slot without a whole header")?;
        let len = self.class.payload_len(header).ok_or("a pad larger than the slot")?;
        // SAFETY: a live slot with an intact header holds `len` bytes; the lock keeps it from being freed.
        let payload = unsafe { core::slice::from_raw_parts(self.class.slot(index), len) };
        if blob::payload_hash(payload) != header.payload_hash {
            return Err("a checksum is wrong");
        }
        each(header.owner, Ref::new(number, index, header.generation));
        Ok(len)
    }
}
