//! `zstd-dict:LEVEL`: Zstandard with dictionaries trained on the workload itself.
//!
//! ```text
//!  compress --leaves blocks--> samples --a round--> maintain:  test the candidates on it, adopt one if it pays
//!     |  ^                                                     test the current dictionary on it, drop it if not
//!     |  `---- current dictionary, if any <----------------    then add the round to the pool, and train on that
//!     v
//!   form: version | frame   --decompress--> table of versions, which lives as long as its owner says
//! ```
//!
//! A small block contains little to learn from, but adjacent blocks share most of their statistics and of the
//! strings that LZ could refer to. A dictionary stores these once. It is worth its memory only for data like
//! those that it was made from, so all decisions are based on **fresh** blocks: a round of blocks is
//! compressed with and without a dictionary before it is used to train one.
//!
//! # Ownership
//!
//! - [`Dictionaries`] is one workload: its samples, and the dictionary that it currently compresses with.
//!   Each named codec (`codec("zstd-dict:1")`) is one workload for the whole process; [`Dictionaries::new`]
//!   makes others.
//! - Versions are in a table of the process, where every decoder finds them. They stay there when they are no
//!   longer used to compress, and when their workload is dropped, until **the owner of the blocks** declares
//!   that no block refers to one any more: [`Dictionaries::release`]. A workload has at most
//!   [`MOST_VERSIONS`] unreleased versions, and then adopts no more.
//! - [`Dictionaries::maintain`] decides and trains. A thread that may allocate and can spare some ten
//!   milliseconds calls it from time to time. If none does, the codec is `zstd` with one more byte for each
//!   block.
//!
//! Invariants:
//!
//! - A version stands for one dictionary for ever; a form that refers to an unknown version is refused. So a
//!   form never decodes with another dictionary than the one that made it.
//! - `compress` and `decompress` allocate nothing. `compress` never waits: while the dictionary is being
//!   replaced, it uses none.
//! - The memory of a workload is bounded, see [`Dictionaries::memory`].

mod dictionary;
mod form;
mod named;
mod samples;
mod table;
mod train;
mod trainer;

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::vec::Vec;

use crate::codecs::zstd::Zstd;
use crate::{Codec, CodecId, Compressed, Malformed, Scratch, room};
use dictionary::{Dictionary, Encoder};
pub(crate) use named::LEVELS;
use samples::Samples;
use trainer::Trainer;
pub use trainer::{MOST_VERSIONS, Step};

/// A workload and its dictionaries. It is a codec.
pub struct Dictionaries {
    name: &'static str,
    /// Compresses without a dictionary.
    plain: &'static Zstd,
    samples: Samples,
    current: RwLock<Option<Encoder>>,
    trainer: Mutex<Trainer>,
}

/// A dictionary that blocks may refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The number in the forms.
    pub number: u32,
    /// Bytes of the dictionary itself.
    pub bytes: usize,
    /// Bytes of memory that it takes until it is released.
    pub memory: usize,
}

impl Dictionaries {
    const fn named(name: &'static str, plain: &'static Zstd) -> Self {
        Dictionaries {
            name,
            plain,
            samples: Samples::new(),
            current: RwLock::new(None),
            trainer: Mutex::new(Trainer::new()),
        }
    }

    /// A workload of its own, with a level of Zstandard; `None` if there is no such level.
    pub fn new(level: i32) -> Option<Self> {
        let named = LEVELS.iter().find(|named| named.plain.level() == level)?;
        Some(Dictionaries::named(named.name, named.plain))
    }

    /// The process's workload with that name.
    pub fn of_name(name: &str) -> Option<&'static Self> {
        LEVELS.iter().find(|named| named.name == name)
    }

    /// The level of Zstandard.
    pub fn level(&self) -> i32 {
        self.plain.level()
    }

    /// Decides, by the blocks compressed since the last call, whether to adopt or drop a dictionary, and
    /// trains if that may help. `kept` is how many uncompressed bytes of blocks the owner keeps: a dictionary
    /// must save more on these than it takes itself.
    ///
    /// The first call only announces that there will be more: from then on blocks are collected.
    pub fn maintain(&self, kept: u64) -> Step {
        self.trainer().step(self, kept)
    }

    /// The version with which new blocks are compressed.
    pub fn current(&self) -> Option<u32> {
        self.read_current(Encoder::version)
    }

    /// The versions that are not released, oldest first.
    pub fn versions(&self) -> Vec<Version> {
        self.trainer().versions().map(|there| Version::of(there)).collect()
    }

    /// Forgets a version to which no block refers any more; it must not be the current one. A block whose
    /// compression began while it was current counts as referring to it until its form is discarded. From now
    /// on, forms that still refer to it are refused. `false` if it does not belong to this workload, or is
    /// current.
    pub fn release(&self, version: u32) -> bool {
        let mut trainer = self.trainer();
        self.current() != Some(version) && trainer.forget(version) && table::remove(version)
    }

    /// Stops compressing with dictionaries, and forgets all versions and samples. No block may refer to one
    /// any more.
    pub fn release_all(&self) {
        let mut trainer = self.trainer();
        self.set_current(None);
        for version in trainer.versions().map(|there| there.version).collect::<Vec<_>>() {
            table::remove(version);
        }
        *trainer = Trainer::new();
    }

    /// Bytes of memory that the workload currently takes: versions, tables of the current one, and samples.
    /// Training temporarily takes more.
    pub fn memory(&self) -> usize {
        let trainer = self.trainer();
        trainer.memory() + self.samples.memory() + self.encoder_memory()
    }

    /// Bytes of the tables for compression, part of [`Dictionaries::memory`].
    pub fn encoder_memory(&self) -> usize {
        self.read_current(Encoder::memory).unwrap_or(0)
    }

    fn trainer(&self) -> std::sync::MutexGuard<'_, Trainer> {
        self.trainer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_current<R>(&self, read: impl FnOnce(&Encoder) -> R) -> Option<R> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(read)
    }

    /// Replaces the current dictionary. Waits for blocks that are being compressed.
    fn set_current(&self, encoder: Option<Encoder>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let old = core::mem::replace(&mut *current, encoder);
        drop(current);
        drop(old);
    }
}

impl Version {
    fn of(dictionary: &Dictionary) -> Self {
        Version { number: dictionary.version, bytes: dictionary.content().len(), memory: dictionary.memory() }
    }
}

impl core::fmt::Debug for Dictionaries {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

/// The version that a form of `zstd-dict` refers to, zero for none: for programs that count references.
pub fn version_of(form: &[u8]) -> Option<u32> {
    form::split(form).map(|(version, _)| version)
}

/// The bytes of a version's dictionary, for programs that store forms for another process.
pub fn dictionary(version: u32) -> Option<Vec<u8>> {
    table::with(version, |there| there.content().to_vec())
}

/// Makes another process's dictionary readable under its version, for the rest of this process's life.
/// `false` if these bytes are not a dictionary, or if this process uses or has used that version for another
/// one: then blocks that refer to it cannot be read here.
pub fn load(version: u32, dictionary: &[u8]) -> bool {
    version != form::NONE
        && Dictionary::new(version, dictionary).is_some_and(|there| table::add(Arc::new(there)))
}

impl Codec for Dictionaries {
    fn name(&self) -> &str {
        self.name
    }

    fn id(&self) -> CodecId {
        CodecId::ZSTD_DICT
    }

    /// The longest version, and a frame.
    fn bound(&self, len: usize) -> usize {
        if len == 0 { 0 } else { self.plain.bound(len).saturating_add(form::LONGEST) }
    }

    fn compress_scratch(&self, len: usize) -> usize {
        if len == 0 {
            return 0;
        }
        dictionary::compress_scratch(self.plain, len).max(self.plain.compress_scratch(len))
    }

    fn compress_scratch_up_to(&self, len: usize) -> usize {
        let longest = [16 << 10, 128 << 10, 256 << 10, len].map(|size| size.min(len));
        longest.into_iter().map(|len| self.compress_scratch(len)).max().unwrap_or(0)
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        self.plain.decompress_scratch(len)
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        let room = room(dst, threshold, self.bound(src.len()));
        if src.is_empty() {
            return Compressed::Fits(0);
        }
        self.samples.leave(src);
        if let Ok(current) = self.current.try_read()
            && let Some(encoder) = &*current
            && let Some(frame) = encoder.compress(self.plain, src, scratch)
        {
            let (tag, len) = form::tag(encoder.version());
            let size = len + frame.len();
            if size > threshold {
                return Compressed::Incompressible;
            }
            dst[..len].copy_from_slice(&tag[..len]);
            dst[len..size].copy_from_slice(frame);
            return Compressed::Fits(size);
        }
        let Some((first, rest)) = dst[..room].split_first_mut() else { return Compressed::Incompressible };
        *first = form::NONE as u8;
        match self.plain.compress(src, rest, threshold - 1, scratch) {
            Compressed::Fits(size) => Compressed::Fits(1 + size),
            Compressed::Incompressible => Compressed::Incompressible,
        }
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if dst.is_empty() || src.is_empty() {
            return if dst.is_empty() && src.is_empty() { Ok(()) } else { Err(Malformed) };
        }
        let (version, frame) = form::split(src).ok_or(Malformed)?;
        if version == form::NONE {
            return self.plain.decompress(frame, dst, scratch);
        }
        table::with(version, |there| there.decompress(frame, dst, scratch)).unwrap_or(Err(Malformed))
    }
}
