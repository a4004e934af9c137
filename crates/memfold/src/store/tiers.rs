//! Blocks in, blocks out: the store behind codecs.
//!
//! ```text
//!            same-filled? ──────────────────────> 8 bytes        tag 0
//!   block ─┤ fast codec ── small enough? ───────> compressed     tag codec
//!            otherwise ─────────────────────────> as it is       tag copy
//!   later:   densify ── noticeably smaller? ────> compressed     tag codec | DENSE
//! ```
//!
//! The tag says how a blob is read: it is the number of a decoder, so blobs stay readable whatever codecs are
//! chosen later. (A user-supplied codec, [`CodecId::OWN`], is in no table: only the store that made such
//! blobs reads them.) Nothing here allocates: the caller supplies a [`Workspace`], one for each thread.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use memfold_codec::{Codec, CodecId, Compressed, Scratch, decoder, fill, same_filled};

use super::memory::Memory;
use super::{Blob, Corrupt, Full, Ref, Store};
use crate::probe;

/// The tag of blocks that consist of one repeated word.
const SAME: u8 = 0;
/// Set in the tag of blobs that the dense codec compressed.
const DENSE: u8 = 0x80;

/// How hard a block is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// The block has just become cold, and may be needed again soon.
    Fast,
    /// The block stayed cold. The same as `Fast` if there is no dense codec.
    Dense,
}

/// A store of blocks, compressed in one of two ways.
pub struct Tiered<M: Memory> {
    store: Store<M>,
    fast: &'static dyn Codec,
    dense: Option<&'static dyn Codec>,
    /// A block is stored uncompressed if its compressed form would take more than this many 64ths of it.
    threshold: AtomicU8,
    /// The least scratch memory for decoding, in bytes, see [`Tiered::will_decode`].
    decode: AtomicUsize,
}

/// Memory to work in: for one thread, and blocks up to a certain size.
pub struct Workspace<'a> {
    fast: Scratch<'a>,
    dense: Scratch<'a>,
    /// Scratch memory of [`Tiered::load`].
    pub decode: Scratch<'a>,
    /// As long as the longest block: working memory of [`Tiered::densify`], and of others in between.
    pub block: &'a mut [u8],
    out: &'a mut [u8],
}

impl<M: Memory> Tiered<M> {
    /// An empty store: takes no memory before the first block.
    pub const fn new(memory: M, fast: &'static dyn Codec, dense: Option<&'static dyn Codec>) -> Self {
        let (threshold, decode) = (AtomicU8::new(60), AtomicUsize::new(0));
        Tiered { store: Store::new(memory), fast, dense, threshold, decode }
    }

    /// From now on, blocks whose compressed form takes more than this many 64ths of their size are stored
    /// uncompressed. 60 at first.
    pub fn set_threshold(&self, of_64: u8) {
        self.threshold.store(of_64.min(64), Ordering::Relaxed);
    }

    /// The store of the blobs, for freeing, reowning, maintenance and statistics.
    pub fn store(&self) -> &Store<M> {
        &self.store
    }

    /// Whether there are two tiers.
    pub fn has_dense(&self) -> bool {
        self.dense.is_some()
    }

    /// Bytes of memory of a [`Workspace`] for blocks of `len` bytes.
    pub fn workspace_bytes(&self, len: usize) -> usize {
        self.workspace_parts(len).iter().map(|part| part + Scratch::ALIGN).sum()
    }

    /// Bytes of scratch memory that [`Tiered::load`] needs for blocks of `len` bytes.
    pub fn decode_scratch(&self, len: usize) -> usize {
        let of = |codec: &dyn Codec| codec.decompress_scratch(len);
        of(self.fast).max(self.dense.map_or(0, of)).max(self.decode.load(Ordering::Relaxed))
    }

    /// Announces that [`Tiered::put`] will add blocks of other codecs: workspaces get at least `bytes` of
    /// scratch memory to decode them. To be called before the first workspace is made.
    pub fn will_decode(&self, bytes: usize) {
        self.decode.fetch_max(bytes, Ordering::Relaxed);
    }

    fn workspace_parts(&self, len: usize) -> [usize; 5] {
        // Shorter blocks may need more.
        let dense = self.dense.map_or(0, |dense| dense.compress_scratch_up_to(len));
        [self.fast.compress_scratch_up_to(len), dense, self.decode_scratch(len), len, len]
    }

    /// A workspace for blocks of up to `len` bytes, in `memory`.
    ///
    /// # Panics
    /// If `memory` is smaller than `workspace_bytes(len)`.
    pub fn workspace<'a>(&self, len: usize, memory: &'a mut [u8]) -> Workspace<'a> {
        let mut rest = memory;
        let [fast, dense, decode, block, out] = self.workspace_parts(len).map(|bytes| {
            let all = core::mem::take(&mut rest);
            let unaligned = all.as_ptr().align_offset(Scratch::ALIGN);
            let (part, after) = all[unaligned..].split_at_mut(bytes);
            rest = after;
            part
        });
        let [fast, dense, decode] = [fast, dense, decode].map(Scratch::new);
        Workspace { fast, dense, decode, block, out }
    }

    /// Stores a block for `owner`.
    pub fn insert(
        &self,
        tier: Tier,
        owner: u64,
        block: &[u8],
        work: &mut Workspace<'_>,
    ) -> Result<Ref, Full> {
        self.insert_sized(tier, owner, block, work).map(|(name, _)| name)
    }

    /// As [`Tiered::insert`]; also returns the length of the payload.
    pub fn insert_sized(
        &self,
        tier: Tier,
        owner: u64,
        block: &[u8],
        work: &mut Workspace<'_>,
    ) -> Result<(Ref, usize), Full> {
        if let Some(word) = same_filled(block) {
            let word = word.to_le_bytes();
            return Ok((self.store.put(owner, SAME, &word)?, word.len()));
        }
        let (codec, scratch, mark) = match (tier, self.dense) {
            (Tier::Dense, Some(dense)) => (dense, &mut work.dense, DENSE),
            _ => (self.fast, &mut work.fast, 0),
        };
        let threshold = block.len() * usize::from(self.threshold.load(Ordering::Relaxed)) / 64;
        let (id, payload) = match compress(codec, owner, block, work.out, threshold, scratch) {
            Compressed::Fits(n) => (codec.id(), &work.out[..n]),
            Compressed::Incompressible => (CodecId::COPY, block),
        };
        Ok((self.store.put(owner, id.0 | mark, payload)?, payload.len()))
    }

    /// As [`Tiered::insert_sized`], but does not store a block that does not become smaller: `None`. The
    /// dense codec is tried if the fast one fails.
    pub fn insert_if_smaller(
        &self,
        tier: Tier,
        owner: u64,
        block: &[u8],
        work: &mut Workspace<'_>,
    ) -> Result<Option<(Ref, usize)>, Full> {
        if same_filled(block).is_some() {
            return self.insert_sized(tier, owner, block, work).map(Some);
        }
        match self.shrink(tier, owner, block, work) {
            Some((tag, n)) => Ok(Some((self.store.put(owner, tag, &work.out[..n])?, n))),
            None => Ok(None),
        }
    }

    /// Whether [`Tiered::insert_if_smaller`] would store a block.
    pub fn gets_smaller(&self, owner: u64, block: &[u8], work: &mut Workspace<'_>) -> bool {
        same_filled(block).is_some() || self.shrink(Tier::Fast, owner, block, work).is_some()
    }

    /// Compresses a block into the workspace; returns its tag and length, if that is below the threshold.
    fn shrink(&self, tier: Tier, owner: u64, block: &[u8], work: &mut Workspace<'_>) -> Option<(u8, usize)> {
        let threshold = block.len() * usize::from(self.threshold.load(Ordering::Relaxed)) / 64;
        if tier == Tier::Fast || self.dense.is_none() {
            let fits = compress(self.fast, owner, block, work.out, threshold, &mut work.fast);
            if let Compressed::Fits(n) = fits {
                return Some((self.fast.id().0, n));
            }
        }
        let dense = self.dense?;
        match compress(dense, owner, block, work.out, threshold, &mut work.dense) {
            Compressed::Fits(n) => Some((dense.id().0 | DENSE, n)),
            Compressed::Incompressible => None,
        }
    }

    /// The number of bytes that [`Tiered::insert`] would store for a block in the fast tier.
    pub fn compressed_len(&self, block: &[u8], work: &mut Workspace<'_>) -> usize {
        if same_filled(block).is_some() {
            return size_of::<u64>();
        }
        let threshold = block.len() * usize::from(self.threshold.load(Ordering::Relaxed)) / 64;
        match self.fast.compress(block, work.out, threshold, &mut work.fast) {
            Compressed::Fits(n) => n,
            Compressed::Incompressible => block.len(),
        }
    }

    /// Restores a block into `dst`, which is as long as the block was.
    ///
    /// # Safety
    ///
    /// As for [`Store::get`], until this returns.
    pub unsafe fn load(
        &self,
        r: Ref,
        owner: u64,
        dst: &mut [u8],
        scratch: &mut Scratch<'_>,
    ) -> Result<(), Corrupt> {
        // SAFETY: the caller keeps the same contract.
        self.decode(owner, unsafe { self.store.get(r, owner) }?, dst, scratch)
    }

    /// The stored form of a block, to be put into another store: the number of the codec that made it, `None`
    /// for one repeated word, and its payload.
    ///
    /// # Safety
    ///
    /// As for [`Store::get`], while the payload is used.
    pub unsafe fn get(&self, r: Ref, owner: u64) -> Result<(Option<CodecId>, &[u8]), Corrupt> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.store.get(r, owner) }.map(form)
    }

    /// As [`Tiered::get`], but does not read the whole payload, see [`Store::get_unverified`].
    ///
    /// # Safety
    ///
    /// As for [`Store::get`], while the payload is used.
    pub unsafe fn get_unverified(&self, r: Ref, owner: u64) -> Result<(Option<CodecId>, &[u8]), Corrupt> {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.store.get_unverified(r, owner) }.map(form)
    }

    /// Stores for `owner` the form that [`Tiered::get`] returned for a block. Whether it is valid shows only
    /// when it is loaded.
    pub fn put(&self, owner: u64, id: Option<CodecId>, payload: &[u8]) -> Result<Ref, Full> {
        self.store.put(owner, id.map_or(SAME, |id| id.0 & !DENSE), payload)
    }

    /// Compresses a block with the codec of `tier`, to a form for [`Tiered::put`]. `None` if the form exceeds
    /// `most` bytes, which may not exceed the workspace's longest block.
    pub fn form<'w>(
        &self,
        tier: Tier,
        owner: u64,
        block: &[u8],
        most: usize,
        work: &'w mut Workspace<'_>,
    ) -> Option<(CodecId, &'w [u8])> {
        let (codec, scratch) = match (tier, self.dense) {
            (Tier::Dense, Some(dense)) => (dense, &mut work.dense),
            _ => (self.fast, &mut work.fast),
        };
        match compress(codec, owner, block, work.out, most, scratch) {
            Compressed::Fits(n) => Some((codec.id(), &work.out[..n])),
            Compressed::Incompressible => None,
        }
    }

    /// Restores a block from the form that [`Tiered::get`] or [`Tiered::form`] returned. Not for
    /// user-supplied codecs.
    pub fn open(
        owner: u64,
        id: Option<CodecId>,
        payload: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch<'_>,
    ) -> Result<(), Corrupt> {
        let tag = id.map_or(SAME, |id| id.0 & !DENSE);
        probe!(decompress_begin, owner, dst.len(), payload.len(), tag);
        let opened = open(tag, payload, dst, scratch, |_| None);
        probe!(decompress, owner, dst.len(), payload.len(), tag, if opened.is_ok() { 1 } else { 2 });
        opened
    }

    /// As [`Tiered::open`], also for user-supplied codecs: for forms of a store that has no dense codec, or
    /// another one.
    pub fn open_own(
        &self,
        owner: u64,
        id: Option<CodecId>,
        payload: &[u8],
        dst: &mut [u8],
        scratch: &mut Scratch<'_>,
    ) -> Result<(), Corrupt> {
        if id != Some(CodecId::OWN) || self.fast.id() != CodecId::OWN {
            return Self::open(owner, id, payload, dst, scratch);
        }
        open(CodecId::OWN.0, payload, dst, scratch, |_| Some(self.fast))
    }

    /// Compresses a block of `len` bytes again with the dense codec, and stores the result for `owner` too if
    /// it is noticeably smaller. The caller then replaces the old reference by the new one and frees the old;
    /// or, if the block is no longer wanted, frees the new.
    ///
    /// # Safety
    ///
    /// As for [`Store::get`], until this returns.
    pub unsafe fn densify(
        &self,
        r: Ref,
        owner: u64,
        len: usize,
        work: &mut Workspace<'_>,
    ) -> Result<Option<Ref>, Corrupt> {
        let Some(dense) = self.dense else { return Ok(None) };
        // SAFETY: the caller keeps the same contract.
        let blob = unsafe { self.store.get(r, owner) }?;
        if blob.tag == SAME || blob.tag & DENSE != 0 {
            return Ok(None);
        }
        let block = &mut work.block[..len];
        let old = blob.payload.len();
        self.decode(owner, blob, block, &mut work.decode)?;
        // A gain of less than 1/16 is not worth slower decompression.
        match compress(dense, owner, block, work.out, old - old / 16, &mut work.dense) {
            Compressed::Fits(n) => Ok(self.store.put(owner, dense.id().0 | DENSE, &work.out[..n]).ok()),
            Compressed::Incompressible => Ok(None),
        }
    }

    fn decode(
        &self,
        owner: u64,
        blob: Blob<'_>,
        dst: &mut [u8],
        scratch: &mut Scratch<'_>,
    ) -> Result<(), Corrupt> {
        let (codec, payload) = (blob.tag & !DENSE, blob.payload.len());
        probe!(decompress_begin, owner, dst.len(), payload, codec);
        let decoded = self.decode_blob(blob, dst, scratch);
        probe!(decompress, owner, dst.len(), payload, codec, if decoded.is_ok() { 1 } else { 2 });
        decoded
    }

    fn decode_blob(&self, blob: Blob<'_>, dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Corrupt> {
        // No table knows a user-supplied codec: it is the one that this store was made with.
        let own = |dense: bool| {
            if dense { self.dense } else { Some(self.fast) }.filter(|codec| codec.id() == CodecId::OWN)
        };
        open(blob.tag, blob.payload, dst, scratch, own)
    }
}

/// Fills a block from its form; `own` finds the user-supplied codec of one of the tiers.
fn open(
    tag: u8,
    payload: &[u8],
    dst: &mut [u8],
    scratch: &mut Scratch<'_>,
    own: impl FnOnce(bool) -> Option<&'static dyn Codec>,
) -> Result<(), Corrupt> {
    if tag == SAME {
        let word = payload.try_into().map_err(|_| Corrupt)?;
        fill(dst, u64::from_le_bytes(word));
        return Ok(());
    }
    let codec = match CodecId(tag & !DENSE) {
        CodecId::COPY if payload.len() == dst.len() => {
            dst.copy_from_slice(payload);
            return Ok(());
        }
        CodecId::COPY => return Err(Corrupt),
        CodecId::OWN => own(tag & DENSE != 0),
        id => decoder(id),
    };
    codec.ok_or(Corrupt)?.decompress(payload, dst, scratch).map_err(|_| Corrupt)
}

/// The codec that made a blob, `None` for one repeated word, and its payload.
fn form(blob: Blob<'_>) -> (Option<CodecId>, &[u8]) {
    ((blob.tag != SAME).then_some(CodecId(blob.tag & !DENSE)), blob.payload)
}

/// Compresses a block of `owner`, and reports it to a probe.
fn compress(
    codec: &dyn Codec,
    owner: u64,
    block: &[u8],
    out: &mut [u8],
    threshold: usize,
    scratch: &mut Scratch<'_>,
) -> Compressed {
    probe!(compress_begin, owner, block.len(), codec.id().0);
    let compressed = codec.compress(block, out, threshold, scratch);
    let payload = if let Compressed::Fits(n) = compressed { n } else { block.len() };
    probe!(compress, owner, block.len(), payload, codec.id().0);
    compressed
}
