//! The form of a batch: sealed blocks, one after the other.
//!
//! ```text
//!   batch   │ block │ block │ ──                                         up to 256 KiB, or one longer block
//!   block   │ len 4 │ owner 6 │ tag 1 │ 0 │ payload ────────── │ seal 16 │
//!                     \──────── len bytes, encrypted ───────/
//! ```
//!
//! `len` is not encrypted, so that a reader of a part of a batch can find the blocks that follow. The nonce
//! is the batch's number and the block's place in it; no two blocks of a run share one, since numbers are not
//! reused. A block that was moved, or comes from another batch or run, does not open.

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{ChaCha20Poly1305, Key, KeyInit, Nonce, Tag};
use twox_hash::xxhash3_128::Hasher;

/// Bytes before a payload, and bytes after it.
pub const BLOCK_HEAD: usize = 4 + INNER;
const INNER: usize = 8;
const SEAL: usize = 16;

/// Seals blocks and opens them.
#[derive(Clone)]
pub struct Sealer(Way);

#[derive(Clone)]
enum Way {
    Encrypted(ChaCha20Poly1305),
    Checked(u64),
}

/// The position of a block in its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRange {
    /// Bytes from the start of the batch.
    pub offset: u32,
    /// Bytes of the whole sealed block.
    pub len: u32,
}

/// A block that was opened.
#[derive(Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// The owner's number, 48 bits.
    pub owner: u64,
    /// A byte of the user's choice.
    pub tag: u8,
    /// The payload that was put.
    pub payload: &'a [u8],
}

/// The bytes are not those that were sealed for this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unopened;

impl Sealer {
    /// Encrypts with a random key, which is stored nowhere else.
    #[cfg(feature = "tiers")]
    pub fn for_this_run() -> std::io::Result<Self> {
        let mut key = [0; 32];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut key)?;
        Ok(Self::encrypting(&key))
    }

    /// Encrypts with this key, which no other run may use.
    pub fn encrypting(key: &[u8; 32]) -> Self {
        Sealer(Way::Encrypted(ChaCha20Poly1305::new(Key::from_slice(key))))
    }

    /// Adds only checksums, which detect accidental damage, but not attacks.
    pub fn checking(run: u64) -> Self {
        Sealer(Way::Checked(run))
    }

    fn seal(&self, batch: u64, offset: u32, inner: &mut [u8]) -> [u8; SEAL] {
        match &self.0 {
            Way::Encrypted(cipher) => cipher
                .encrypt_in_place_detached(&nonce(batch, offset), &[], inner)
                .unwrap_or_else(|_| unreachable!("a block is shorter than what the cipher takes at once"))
                .into(),
            Way::Checked(run) => checksum(*run, batch, offset, inner),
        }
    }

    fn open(&self, batch: u64, offset: u32, inner: &mut [u8], seal: [u8; SEAL]) -> Result<(), Unopened> {
        match &self.0 {
            Way::Encrypted(cipher) => cipher
                .decrypt_in_place_detached(&nonce(batch, offset), &[], inner, Tag::from_slice(&seal))
                .map_err(|_| Unopened),
            Way::Checked(run) if checksum(*run, batch, offset, inner) == seal => Ok(()),
            Way::Checked(_) => Err(Unopened),
        }
    }

    /// Opens in place the block at the start of `bytes`, which begin at `offset` of a batch. Also returns the
    /// length of the sealed block.
    pub fn open_first<'b>(
        &self,
        batch: u64,
        offset: u32,
        bytes: &'b mut [u8],
    ) -> Result<(Block<'b>, usize), Unopened> {
        let taken = sealed_len(bytes).ok_or(Unopened)?;
        let (inner, seal) = bytes[4..taken].split_last_chunk_mut::<SEAL>().ok_or(Unopened)?;
        self.open(batch, offset, inner, *seal)?;
        let (head, payload) = inner.split_first_chunk::<INNER>().ok_or(Unopened)?;
        let head = u64::from_le_bytes(*head);
        Ok((Block { owner: head & OWNER_MASK, tag: (head >> 48) as u8, payload }, taken))
    }
}

const OWNER_MASK: u64 = (1 << 48) - 1;

fn nonce(batch: u64, offset: u32) -> Nonce {
    let mut nonce = Nonce::default();
    nonce[..8].copy_from_slice(&batch.to_le_bytes());
    nonce[8..].copy_from_slice(&offset.to_le_bytes());
    nonce
}

fn checksum(run: u64, batch: u64, offset: u32, inner: &[u8]) -> [u8; SEAL] {
    let seed = run ^ batch.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(offset).rotate_left(32);
    Hasher::oneshot_with_seed(seed, inner).to_le_bytes()
}

/// The length of the sealed block at the start of `bytes`, if it is complete.
fn sealed_len(bytes: &[u8]) -> Option<usize> {
    let len = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let all = len.checked_add(4 + SEAL)?;
    (len >= INNER && all <= bytes.len()).then_some(all)
}

/// The places of the blocks of a batch, or of a part of one that begins with a block at `offset`.
pub fn blocks(bytes: &[u8], offset: u32) -> impl Iterator<Item = BlockRange> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let len = sealed_len(bytes.get(at..)?)?;
        let place = BlockRange { offset: offset + at as u32, len: len as u32 };
        at += len;
        Some(place)
    })
}

/// A batch that is being filled, in the caller's memory.
pub struct Batch<'a> {
    number: u64,
    bytes: &'a mut [u8],
    used: usize,
}

impl<'a> Batch<'a> {
    /// The most bytes that a block takes besides its payload.
    pub const OVERHEAD: usize = BLOCK_HEAD + SEAL;

    /// An empty batch of that number, filled into `bytes`.
    pub fn new(number: u64, bytes: &'a mut [u8]) -> Self {
        Self::go_on(number, bytes, 0)
    }

    /// A batch of which `used` bytes are already filled.
    pub fn go_on(number: u64, bytes: &'a mut [u8], used: usize) -> Self {
        Batch { number, bytes, used }
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Bytes filled so far.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Seals a copy of a block after the others. `None` if there is no room for it.
    pub fn add(&mut self, sealer: &Sealer, owner: u64, tag: u8, payload: &[u8]) -> Option<BlockRange> {
        let len = payload.len() + Self::OVERHEAD;
        let to = self.bytes.get_mut(self.used..)?.get_mut(..len)?;
        let offset = self.used as u32;
        let inner = (payload.len() + INNER) as u32;
        to[..4].copy_from_slice(&inner.to_le_bytes());
        let head = owner & OWNER_MASK | u64::from(tag) << 48;
        to[4..BLOCK_HEAD].copy_from_slice(&head.to_le_bytes());
        to[BLOCK_HEAD..len - SEAL].copy_from_slice(payload);
        let seal = sealer.seal(self.number, offset, &mut to[4..len - SEAL]);
        to[len - SEAL..].copy_from_slice(&seal);
        self.used += len;
        Some(BlockRange { offset, len: len as u32 })
    }

    /// The bytes filled so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn sealers() -> [Sealer; 2] {
        [Sealer::encrypting(&[7; 32]), Sealer::checking(7)]
    }

    fn filled(sealer: &Sealer, number: u64, room: &mut [u8]) -> Vec<BlockRange> {
        let mut batch = Batch::new(number, room);
        let mut places = Vec::new();
        for owner in 0_u64.. {
            let payload = std::vec![owner as u8; owner as usize * 37 % 4097];
            let Some(place) = batch.add(sealer, owner << 36 | owner, owner as u8, &payload) else { break };
            places.push(place);
        }
        places
    }

    #[test]
    fn blocks_are_read_from_any_part_of_a_batch() {
        for sealer in sealers() {
            let mut room = std::vec![0; 64 << 10];
            let places = filled(&sealer, 5, &mut room);
            assert!(places.len() > 20);
            let used = places.last().map_or(0, |place| place.offset + place.len) as usize;
            let middle = places[7].offset as usize;
            assert!(blocks(&room[..used], 0).eq(places.iter().copied()));
            assert!(blocks(&room[middle..used], middle as u32).eq(places[7..].iter().copied()));
            // A truncated block is not reported.
            assert!(blocks(&room[..used - 1], 0).eq(places[..places.len() - 1].iter().copied()));
            for (owner, place) in (0_u64..).zip(&places) {
                let mut part = room[place.offset as usize..][..place.len as usize].to_vec();
                let (block, taken) = sealer.open_first(5, place.offset, &mut part).unwrap();
                assert_eq!(taken, place.len as usize);
                let payload = std::vec![owner as u8; owner as usize * 37 % 4097];
                let tag = owner as u8;
                assert_eq!(block, Block { owner: owner << 36 | owner, tag, payload: &payload });
            }
        }
    }

    #[test]
    fn nothing_else_opens() {
        for (sealer, other) in sealers().into_iter().zip([Sealer::encrypting(&[8; 32]), Sealer::checking(8)])
        {
            let mut room = std::vec![0; 2000];
            let place = Batch::new(9, &mut room).add(&sealer, 1, 2, &[3; 100]).unwrap();
            let good = room[..place.len as usize].to_vec();
            let opens = |sealer: &Sealer, batch: u64, offset: u32, bytes: &[u8]| {
                sealer.open_first(batch, offset, &mut bytes.to_vec()).is_ok()
            };
            assert!(opens(&sealer, 9, 0, &good));
            assert!(!opens(&other, 9, 0, &good));
            assert!(!opens(&sealer, 10, 0, &good));
            assert!(!opens(&sealer, 9, 1, &good));
            assert!(!opens(&sealer, 9, 0, &good[..good.len() - 1]));
            assert!(!opens(&sealer, 9, 0, &[]));
            assert!(!opens(&sealer, 9, 0, &std::vec![0; good.len()]));
            for bit in 0..good.len() * 8 {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(!opens(&sealer, 9, 0, &bad), "bit {bit}");
            }
        }
    }

    #[test]
    fn secrets_do_not_show() {
        let mut room = std::vec![0; 2000];
        let sealer = Sealer::encrypting(&[7; 32]);
        let mut batch = Batch::new(1, &mut room);
        batch.add(&sealer, 1, 2, b"correct horse battery staple").unwrap();
        let (first, same) = (batch.bytes().to_vec(), batch.len());
        assert!(!first.windows(7).any(|bytes| bytes == b"battery"));
        // The same block is sealed to different bytes.
        batch.add(&sealer, 1, 2, b"correct horse battery staple").unwrap();
        assert_ne!(first[4..], batch.bytes()[same + 4..]);
    }
}
