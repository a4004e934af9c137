//! A user-supplied codec, which is not trusted.
//!
//! ```text
//!   what the store keeps of a block:   | 8 bytes: hash of the block | what the codec made |
//! ```
//!
//! Invariants, whatever the codec does within the memory that it is given:
//! - A wrongly restored byte is an error ([`Error::Damaged`](crate::heap::Error::Damaged)), never data: the
//!   hash is that of the block itself.
//! - If a codec claims more bytes than it had room for, or panics while it compresses, it has not compressed:
//!   the block is stored as it is.
//! - No panic of the codec unwinds through the heap, which would be left locked.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use memfold_codec::{Codec, CodecId, Compressed, Malformed, Scratch};

use crate::store::hash;

/// Bytes of the hash.
const HASH: usize = 8;

/// A codec, which lives as long as any clone of this.
#[derive(Clone)]
pub(crate) struct Own(Arc<Checked>);

impl Own {
    pub fn new(codec: Arc<dyn Codec + Send + Sync>) -> Self {
        Own(Arc::new(Checked(codec)))
    }

    /// The codec, checked.
    ///
    /// # Safety
    /// The result is not used after this and all of its clones are dropped.
    pub unsafe fn codec(&self) -> &'static dyn Codec {
        let checked: *const Checked = Arc::as_ptr(&self.0);
        // SAFETY: it lives as long as this or a clone does, and the caller guarantees that it is not used
        // longer.
        unsafe { &*checked }
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

struct Checked(Arc<dyn Codec + Send + Sync>);

impl Codec for Checked {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn id(&self) -> CodecId {
        CodecId::OWN
    }

    fn bound(&self, len: usize) -> usize {
        self.0.bound(len).saturating_add(HASH)
    }

    fn compress_scratch(&self, len: usize) -> usize {
        self.0.compress_scratch(len)
    }

    fn compress_scratch_up_to(&self, len: usize) -> usize {
        self.0.compress_scratch_up_to(len)
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        self.0.decompress_scratch(len)
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        let Some(threshold) = threshold.checked_sub(HASH) else { return Compressed::Incompressible };
        let Some((head, room)) = dst.split_first_chunk_mut::<HASH>() else {
            return Compressed::Incompressible;
        };
        let most = threshold.min(room.len());
        let made = catch_unwind(AssertUnwindSafe(|| self.0.compress(src, room, threshold, scratch)));
        match made {
            Ok(Compressed::Fits(len)) if len <= most => {
                *head = hash(src).to_le_bytes();
                Compressed::Fits(HASH + len)
            }
            Ok(_) => Compressed::Incompressible,
            Err(_) => {
                scratch.forget();
                Compressed::Incompressible
            }
        }
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let (head, made) = src.split_first_chunk::<HASH>().ok_or(Malformed)?;
        let done = catch_unwind(AssertUnwindSafe(|| self.0.decompress(made, dst, scratch)));
        done.unwrap_or_else(|_| {
            scratch.forget();
            Err(Malformed)
        })?;
        if hash(dst) == u64::from_le_bytes(*head) { Ok(()) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests;
