//! The file of a saved heap.
//!
//! ```text
//!   start      | 89 'm' 'f' 'h' 'e' 'a' 'p' 0A | version, 4 | 0, 4 |
//!   chunk      | kind, 1 | 0, 3 | bytes of the body, 4 | body .. | checksum, 8 |
//!
//!   file       start, head, then codecs, blocks and large nodes in any number, end
//!
//!   head   1   | Head | Shape for each kind of blocks with nodes of one size, in order of the kinds, from 1 |
//!   codec  2   | 0: of this library, 1: user-supplied | name ..             the first one is number 1
//!   blocks 3   | count, 4 | Record for each block | payload of each that has one, in the same order |
//!   large  4   | LargeRecord | handles of its parts, 8 bytes each, or 0 |, as many as there are
//!   end    5   nothing
//! ```
//!
//! Numbers are little endian. `Head`, `Shape`, `Record` and `LargeRecord` are drawn in `format.rs`, and the
//! whole format is specified for other programs in `docs/formats/heap.md`.
//!
//! Invariants:
//! - A **checksum** is XXH3 (64 bits) of the chunk up to there; its seed is the checksum before it. The
//!   checksum of the start, with seed 0, precedes the first chunk's. So a chunk that was changed, left out,
//!   moved or taken from another file does not match, and nothing is interpreted before its checksum has been
//!   verified.
//! - Blocks are in the order of their numbers, from 1 on, vacant ones included: their **incarnation** keeps
//!   stale handles stale.
//! - Payloads are those of the store, made independent of this process (`memfold_codec::portable`): the file
//!   names the chain of codecs.
//! - **Nothing in a file is trusted**, since anyone who makes a file can make its checksums too. Counts are
//!   checked against each other when the file is read. A block's image is verified when it is first faulted
//!   in (`verify.rs`); until then only its payload is used.
//! - A file gets its name only when all of it is written and on the disk (`replace.rs`).

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
pub use bounds::node_with_gone_part;
pub use error::{LoadError, SaveError};
pub use verify::check_starts;

/// Version of the format that is written, and the highest that is read.
const VERSION: u32 = 1;

impl Heap {
    /// 64 bits that belong to the program and are saved with the heap: usually a handle
    /// ([`Handle::to_bits`](super::Handle::to_bits)) from which the program finds everything else. 0 at
    /// first.
    pub fn root(&self) -> u64 {
        self.core().root.load(Relaxed)
    }

    /// See [`Heap::root`].
    pub fn set_root(&self, root: u64) {
        self.core().root.store(root, Relaxed);
    }

    /// Saves the heap to a file, from which [`Heap::load`] makes a heap with the same nodes and handles. This
    /// heap stays usable.
    ///
    /// Compressed blocks are written as they are. The file is written beside `path` and renamed to it once
    /// all of it is on the disk: if anything fails, the previous file is unchanged. (If the process is
    /// killed, a file `.memfold-*.tmp` stays behind.) If `path` is not a regular file, for example a pipe, it
    /// is written in place.
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
    /// If the file can't be written; if there is no memory to compress the blocks that are not compressed
    /// yet; if a block is [damaged](super::Error::Damaged); if nodes are lost, or a large node has lost a
    /// part ([`SaveError::Lost`], [`SaveError::Part`]). The debugging twin can't be saved.
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<(), SaveError> {
        replace::replace(path.as_ref(), |file| self.save_to(file))
    }

    /// As [`Heap::save`], to any writer. The caller may write more after it. The heap is written in pieces of
    /// some 100 KB, and not flushed.
    ///
    /// # Errors
    /// As [`Heap::save`]. The bytes written by then are unusable.
    pub fn save_to(&mut self, to: impl Write) -> Result<(), SaveError> {
        save::save(self, to)
    }

    /// Loads a saved heap: its nodes, their handles, and the root.
    ///
    /// The block size and the alignment are the file's, whatever `options` say. Everything else may differ:
    /// the limit, the policy, the codec for blocks that are compressed from now on. Blocks that a
    /// user-supplied codec compressed need a codec of the same name. (A paranoid heap gives out no handle
    /// twice from now on; the heap that was saved may have done so.)
    ///
    /// Blocks stay compressed until they are used. Errors in the file are found now, except those in the
    /// content of compressed blocks, which is verified at its first use, or by [`Heap::check`]. A block that
    /// turns out to be invalid is then an error, [`Damaged`](super::Error::Damaged), and all other blocks
    /// stay usable. So a malicious file can do no more harm than any other untrusted data.
    ///
    /// With a tier to spill to, blocks that exceed the limit are spilled.
    ///
    /// # Errors
    /// If the file can't be read, is not that of a heap, is damaged, comes from a later memfold or needs a
    /// codec that is not available; if the options are invalid, or the heap does not fit into their limit.
    pub fn load(path: impl AsRef<Path>, options: Options) -> Result<Self, LoadError> {
        let mut file = BufReader::new(File::open(path)?);
        let heap = Self::load_from(&mut file, options)?;
        match file.read(&mut [0])? {
            0 => Ok(heap),
            _ => Err(LoadError::Damaged("something follows the end of the heap".into())),
        }
    }

    /// As [`Heap::load`], from any reader. It reads exactly what [`Heap::save_to`] wrote.
    ///
    /// # Errors
    /// As [`Heap::load`].
    pub fn load_from(from: impl Read, options: Options) -> Result<Self, LoadError> {
        load::load(from, options)
    }
}
