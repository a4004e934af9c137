//! Tiers: the interface to a place outside memory that keeps copies of blocks.

use std::fmt;
use std::sync::Arc;

/// Why a copy could not be read from a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(any(feature = "spill", test)), expect(dead_code, reason = "only tiers say that"))]
pub enum ReadError {
    /// The tier no longer has it, or has something else in its place.
    Lost,
    /// The tier does not answer.
    Away,
}

/// A tier for copies of blocks.
pub trait Tier: Send + Sync {
    /// Takes a copy and returns its number; `None` if there is no space for it now.
    fn put(&self, owner: u64, codec: u8, payload: &[u8]) -> Option<u32>;
    /// Reads a copy into `room`, which is at least [`Tier::overhead`] longer than the copy. Returns its
    /// codec, and where in `room` it lies.
    fn get(
        &self,
        owner: u64,
        number: u32,
        room: &mut [u8],
    ) -> Result<(u8, std::ops::Range<usize>), ReadError>;
    /// Frees a copy.
    fn free(&self, number: u32);
    /// Forgets the copies that were read ahead, so that they are read anew.
    fn forget_ahead(&self);
    /// Bytes that a copy takes besides itself.
    fn overhead(&self) -> usize;
    /// Memory that the tier takes.
    fn memory_bytes(&self) -> u64;
    /// Bytes of the copies on the tier.
    fn spilled_bytes(&self) -> u64;
    /// The state of the tier.
    fn health(&self) -> TierHealth;
}

/// The state of the tier that a heap spills to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TierHealth {
    /// There is no tier.
    #[default]
    None,
    /// It takes blocks.
    Open,
    /// It has no space for now.
    Full,
    /// It does not answer, and may answer later.
    Away,
    /// It must not be given more blocks, since it would not keep them; the blocks that it has can be read.
    Unfit,
}

/// The tier of a heap, if it has one.
#[derive(Clone, Default)]
pub struct Away(pub Option<Arc<dyn Tier>>);

impl fmt::Debug for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a tier" } else { "none" })
    }
}

#[cfg(feature = "spill")]
impl Tier for memfold_spill::Spilled {
    fn put(&self, owner: u64, codec: u8, payload: &[u8]) -> Option<u32> {
        self.put(owner, codec, payload).ok().map(|number| number as u32)
    }

    fn get(
        &self,
        owner: u64,
        number: u32,
        room: &mut [u8],
    ) -> Result<(u8, std::ops::Range<usize>), ReadError> {
        let begin = room.as_ptr() as usize;
        match self.get(number.into(), owner, room) {
            Ok((codec, payload)) => {
                let at = payload.as_ptr() as usize - begin;
                Ok((codec, at..at + payload.len()))
            }
            Err(memfold_spill::Trouble::Lost) => Err(ReadError::Lost),
            Err(_) => Err(ReadError::Away),
        }
    }

    fn free(&self, number: u32) {
        self.free(number.into());
    }

    fn forget_ahead(&self) {
        self.forget_ahead();
    }

    fn overhead(&self) -> usize {
        Self::OVERHEAD
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes()
    }

    fn spilled_bytes(&self) -> u64 {
        self.needed_bytes()
    }

    fn health(&self) -> TierHealth {
        use memfold_spill::Health;
        match self.health() {
            Health::Open => TierHealth::Open,
            Health::Full => TierHealth::Full,
            Health::Away(_) => TierHealth::Away,
            Health::Unfit(_) => TierHealth::Unfit,
        }
    }
}
