//! A heap as a file.
//!
//! ```text
//!   start      | 89 'm' 'f' 'h' 'e' 'a' 'p' 0A | version, 4 | 0, 4 |
//!   chunk      | kind, 1 | 0, 3 | bytes of the body, 4 | body .. | checksum, 8 |
//!
//!   file       start, head, then codecs, blocks and large nodes in any number, end
//!
//!   head   1   | Head | Shape for each kind of blocks with nodes of one size, in the order of the kinds, from 1 |
//!   codec  2   | 0: of this library, 1: of the user's own | name ..                     the first one is number 1
//!   blocks 3   | count, 4 | Record for each block | payload of each that has one, in the same order |
//!   large  4   | LargeRecord | handles of its parts, 8 bytes each, or 0 |, as many as there are
//!   end    5   nothing
//! ```
//!
//! Numbers are little endian. `Head`, `Shape`, `Record` and `LargeRecord` are drawn in `format.rs`, and all of it is described for readers of other
//! programs in `docs/formats/heap.md`.
//!
//! What holds:
//! - A **checksum** is XXH3 (64 bits) of the chunk up to there, its seed the checksum before it; that of the start, with seed 0, before the first. So a
//!   chunk that was changed, left out, put elsewhere or taken from another file does not fit, and what is not checked is not looked at.
//! - Blocks come in the order of their numbers, from 1 on, those that are vacant too: their **incarnation** keeps stale handles stale.
//! - Payloads are what the store has, made independent of this process (`memfold_codec::portable`): the file names the chain of codecs.
//! - **Nothing in a file is believed**, since whoever makes one can make its checksums too. Counts are held against each other when it is read. A
//!   block's image is looked at when it first comes into a frame (`verify.rs`); until then nothing of it is used but its payload.
//! - A file gets its name when all of it is written and on the disk (`replace.rs`).

mod bounds;
mod error;
mod format;
mod load;
mod replace;
mod save;
#[cfg(test)]
mod tests;
mod verify;

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use super::Heap;
use super::options::Options;
pub use bounds::Parts;
pub use error::{LoadError, SaveError};
pub use verify::check_starts;

/// Version of the format that is written, and the highest that is read.
const VERSION: u32 = 1;

impl Heap {
    /// 64 bits of the program's own, which are saved with the heap: a handle mostly ([`Handle::to_bits`](super::Handle::to_bits)), from which the program
    /// finds everything else. 0 at first.
    pub fn root(&self) -> u64 {
        self.core().root.load(Relaxed)
    }

    /// See [`Heap::root`].
    pub fn set_root(&self, root: u64) {
        self.core().root.store(root, Relaxed);
    }

    /// Saves the heap to a file, from which [`Heap::load`] makes one with the same nodes and handles. This heap goes on as it was.
    ///
    /// What is compressed is written as it is. The file is written beside `path` and put in its place when all of it is on the disk: if anything fails,
    /// what was there before is still there. (If the process is killed, a file `.memfold-*.tmp` stays behind.) What is no regular file, a pipe for one, is written
    /// in place.
    ///
    /// ```
    /// use memfold::heap::{Handle, Heap, Options};
    /// # let path = std::env::temp_dir().join(format!("memfold-doc-{}", std::process::id()));
    ///
    /// let mut heap = Heap::new(Options::new())?;
    /// let mut session = heap.session()?;
    /// let node = session.put_bytes(b"hello")?;
    /// drop(session);
    /// heap.set_root(node.to_bits());
    /// heap.save(&path)?;
    ///
    /// let heap = Heap::load(&path, Options::new())?;
    /// let node = Handle::from_bits(heap.root()).unwrap();
    /// assert_eq!(heap.session()?.read(node)?, b"hello");
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the file can't be written, there is no memory to compress what is not compressed yet, or a block is
    /// [damaged](super::Error::Damaged); if nodes are lost, or a long one has lost a part
    /// ([`SaveError::Lost`], [`SaveError::Part`]). The debugging twin can't be saved.
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<(), SaveError> {
        replace::replace(path.as_ref(), |file| self.save_to(file))
    }

    /// As [`Heap::save`], to wherever `to` leads; what follows there is the caller's. Written in pieces of some 100 KB, and not flushed.
    ///
    /// # Errors
    /// As [`Heap::save`]. Then what was written is of no use.
    pub fn save_to(&mut self, to: impl Write) -> Result<(), SaveError> {
        save::save(self, to)
    }

    /// A heap as it was saved: nodes, their handles, and the root.
    ///
    /// The block size and the alignment are the file's, whatever `options` say. Everything else may be another: the limit, the policy, the codec for
    /// blocks that are compressed from now on. Blocks that a codec of the program's own made need a codec of the same name. (A paranoid heap gives no
    /// handle out twice from now on; before, it may have.)
    ///
    /// Blocks stay compressed until they are used. What is wrong in the file is found now, but for what its maker compressed: that is looked
    /// at when it is used first, or by [`Heap::check`]. A block that is not what it should be is an error then, [`Damaged`](super::Error::Damaged), and the rest goes
    /// on. So nothing that a file holds can do worse than other data.
    ///
    /// With a tier to spill to, what does not fit into the limit goes there.
    ///
    /// # Errors
    /// If the file can't be read, is no heap or damaged, comes from a later memfold or needs a codec that is not here; if the options can't be, or the
    /// heap does not fit into their limit.
    pub fn load(path: impl AsRef<Path>, options: Options) -> Result<Self, LoadError> {
        let mut file = BufReader::new(File::open(path)?);
        let heap = Self::load_from(&mut file, options)?;
        match file.read(&mut [0])? {
            0 => Ok(heap),
            _ => Err(LoadError::Damaged("something follows the end of the heap".into())),
        }
    }

    /// As [`Heap::load`], from wherever `from` leads. No more is read than [`Heap::save_to`] wrote.
    ///
    /// # Errors
    /// As [`Heap::load`].
    pub fn load_from(from: impl Read, options: Options) -> Result<Self, LoadError> {
        load::load(from, options)
    }
}
