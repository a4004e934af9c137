//! A blob: its name, its header, and what is verified when it is read.
//!
//! ```text
//!   Ref     63..60 owner's bits │ 59..49 class │ 48..16 index │ 15..0 generation
//!
//!   header  ├── word 0 ──┼── word 1 ──┤            slot  ├── payload ── ─ ─ ─┼─ pad ─┤
//!   word 0  63..16 owner │ 15..0 generation
//!   word 1  63..32 checksum │ 31..16 bytes of pad │ 15..8 tag │ 7..0 guard
//! ```
//!
//! The *checksum* is the payload's hash, combined by exclusive or with a mix of everything else in the
//! header. So changing the owner or the generation costs a few instructions and does not hide earlier damage.
//! The *guard* is a parity byte over the header alone. It shows operations that cannot afford to read the
//! payload (free, compaction) that the slot holds a blob and that the header is intact. Neither a fresh
//! page's zeros nor a header withdrawn by [`Header::withdraw`] passes it.
//!
//! Headers are separate from their slots (see `class`): freeing a blob does not touch its payload, which is
//! probably not cached.
//!
//! The payload is written first and word 1 last, with release order: if the guard passes, the blob has been
//! written completely.

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};

use super::hash;

/// A header as it is stored in memory.
pub(super) type Words = [AtomicU64; 2];
/// Bytes of a blob's header.
pub(super) const HEADER: usize = size_of::<Words>();
/// Owners are smaller than this: a block's number, or an address.
pub const OWNER_LIMIT: u64 = 1 << 48;

pub(super) const INDEX_BITS: u32 = 33;
const GENERATION_BITS: u32 = 16;
const CLASS_BITS: u32 = 11;
const PACKED_INDEX_BITS: u32 = 56 - CLASS_BITS - GENERATION_BITS;

/// The name of a blob: never zero, and only in the low 60 bits, so that the owner has four bits of its slot
/// for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Ref(NonZeroU64);

impl Ref {
    /// The bits that a reference uses.
    pub const MASK: u64 = (1 << (CLASS_BITS + INDEX_BITS + GENERATION_BITS)) - 1;

    pub(super) fn new(class: usize, index: u64, generation: u16) -> Self {
        debug_assert!(class < 1 << CLASS_BITS && index < 1 << INDEX_BITS && generation != 0);
        let bits = (class as u64) << (INDEX_BITS + GENERATION_BITS)
            | index << GENERATION_BITS
            | u64::from(generation);
        Ref(NonZeroU64::new(bits).unwrap_or(NonZeroU64::MIN))
    }

    /// The reference as a number, to be stored in a slot.
    pub fn to_bits(self) -> u64 {
        self.0.get()
    }

    /// The reference in `bits`, without the owner's own bits; `None` if there is none.
    pub fn from_bits(bits: u64) -> Option<Self> {
        // A generation is never zero, so neither is a reference.
        if bits as u16 == 0 { None } else { NonZeroU64::new(bits & Self::MASK).map(Ref) }
    }

    /// The reference in seven bytes, for tables in which an eighth of each entry matters; `None` for a blob
    /// beyond the first 2^29 of its size class.
    pub fn pack(self) -> Option<[u8; 7]> {
        let bits = (self.class() as u64) << (56 - CLASS_BITS)
            | self.index() << GENERATION_BITS
            | u64::from(self.generation());
        let [packed @ .., _] = bits.to_le_bytes();
        (self.index() < 1 << PACKED_INDEX_BITS).then_some(packed)
    }

    /// The inverse of [`Ref::pack`]; `None` if `packed` is not a reference.
    pub fn unpack(packed: [u8; 7]) -> Option<Self> {
        let mut bits = [0; 8];
        bits[..7].copy_from_slice(&packed);
        let bits = u64::from_le_bytes(bits);
        let index = bits >> GENERATION_BITS & ((1 << PACKED_INDEX_BITS) - 1);
        let generation = bits as u16;
        (generation != 0).then(|| Ref::new((bits >> (56 - CLASS_BITS)) as usize, index, generation))
    }

    /// Bytes of the blob's slot: its payload is a little shorter.
    pub fn slot_bytes(self) -> usize {
        super::class::size::slot_bytes(self.class())
    }

    pub(super) fn class(self) -> usize {
        (self.0.get() >> (INDEX_BITS + GENERATION_BITS)) as usize
    }

    pub(super) fn index(self) -> u64 {
        self.0.get() >> GENERATION_BITS & ((1 << INDEX_BITS) - 1)
    }

    pub(super) fn generation(self) -> u16 {
        self.0.get() as u16
    }
}

/// The fields of a header's two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub owner: u64,
    pub generation: u16,
    pub pad: u16,
    pub tag: u8,
    /// The bits of the payload's hash that the checksum holds.
    pub payload_hash: u32,
}

impl Header {
    /// Reads the header at `at`; `None` if there is no intact one.
    ///
    /// # Safety
    ///
    /// `at` is the aligned address of a header in committed memory.
    pub(super) unsafe fn read(at: *const Words) -> Option<Self> {
        // SAFETY: as the caller guarantees; headers are only ever accessed as atomics.
        let [word0, word1] = unsafe { &*at };
        let word1 = word1.load(Ordering::Acquire);
        let word0 = word0.load(Ordering::Relaxed);
        if guard(word0, word1) != word1 as u8 {
            return None;
        }
        let mut header = Header {
            owner: word0 >> GENERATION_BITS,
            generation: word0 as u16,
            pad: (word1 >> 16) as u16,
            tag: (word1 >> 8) as u8,
            payload_hash: 0,
        };
        header.payload_hash = (word1 >> 32) as u32 ^ header.mixed();
        Some(header)
    }

    /// Writes the header, which makes its slot a blob.
    ///
    /// # Safety
    ///
    /// As for `read`, and the slot is the caller's to write.
    pub(super) unsafe fn write(self, at: *const Words) {
        // SAFETY: as in `read`.
        let [at0, at1] = unsafe { &*at };
        let word0 = self.owner << GENERATION_BITS | u64::from(self.generation);
        let word1 = u64::from(self.payload_hash ^ self.mixed()) << 32
            | u64::from(self.pad) << 16
            | u64::from(self.tag) << 8;
        at0.store(word0, Ordering::Relaxed);
        at1.store(word1 | u64::from(guard(word0, word1)), Ordering::Release);
    }

    /// Withdraws an intact header: its slot holds no blob any more.
    ///
    /// # Safety
    ///
    /// As for `write`.
    pub(super) unsafe fn withdraw(at: *const Words) {
        // SAFETY: as in `read`.
        let [_, word1] = unsafe { &*at };
        let wrong = word1.load(Ordering::Relaxed) ^ 0xff;
        word1.store(wrong, Ordering::Relaxed);
    }

    /// The part of the checksum that comes from the header.
    fn mixed(&self) -> u32 {
        let word0 = self.owner << GENERATION_BITS | u64::from(self.generation);
        hash::mix(word0, u64::from(self.pad) << 8 | u64::from(self.tag))
    }
}

/// The parity of all other bytes of a header; not zero if the header is all zeros.
fn guard(word0: u64, word1: u64) -> u8 {
    let mut all = word0 ^ (word1 & !0xff);
    all ^= all >> 32;
    all ^= all >> 16;
    all ^= all >> 8;
    all as u8 ^ 0xa5
}

/// The 32 bits of a payload's hash that the checksum holds.
pub(super) fn payload_hash(payload: &[u8]) -> u32 {
    let hash = hash::hash(payload);
    (hash ^ hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_keeps_its_parts() {
        for (class, index, generation) in [(0, 0, 1), (1791, (1 << 33) - 1, u16::MAX), (7, 12345, 99)] {
            let r = Ref::new(class, index, generation);
            assert_eq!((r.class(), r.index(), r.generation()), (class, index, generation));
            assert_eq!(r.to_bits() & !Ref::MASK, 0);
            assert_eq!(Ref::from_bits(r.to_bits() | 0xf << 60), Some(r));
        }
        assert_eq!(Ref::from_bits(0), None);
        assert_eq!(Ref::from_bits(0xf << 60), None);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        let header =
            Header { owner: 0x1234_5678_9abc, generation: 0x8001, pad: 5, tag: 3, payload_hash: 0xdead_beef };
        let words = [AtomicU64::new(0), AtomicU64::new(0)];
        // SAFETY: the words belong to this function.
        unsafe {
            assert_eq!(Header::read(&words), None, "zeros are not a header");
            header.write(&words);
            assert_eq!(Header::read(&words), Some(header));
            for bit in 0..128 {
                words[bit / 64].fetch_xor(1 << (bit % 64), Ordering::Relaxed);
                assert_eq!(Header::read(&words), None, "bit {bit}");
                words[bit / 64].fetch_xor(1 << (bit % 64), Ordering::Relaxed);
            }
            Header::withdraw(&words);
            assert_eq!(Header::read(&words), None, "withdrawn");
        }
    }
}
