//! Memory to compress and decompress in.
//!
//! Codecs keep state there that is costly to set up, so a workspace is made once and passed from thread to
//! thread. A thread that finds none free waits for one that is in use. This can't deadlock: a thread that
//! uses a workspace takes no block's lock and no second workspace. More are made only when many threads find
//! none free, up to the number of CPUs.

use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread::available_parallelism;
use std::vec::Vec;

use crate::heap::block::layout::fields::Fields;
use crate::heap::error::Error;
use crate::heap::sync::locked;
use crate::store::{OwnedWorkspace, Workspace};

/// A workspace, and the buffers beside it.
pub struct Work {
    space: OwnedWorkspace,
    fields: Fields,
    joined: Vec<u8>,
    sealed: Vec<u8>,
}

impl Work {
    /// Adds empty buffers to a workspace.
    pub fn new(space: OwnedWorkspace) -> Self {
        Work { space, fields: Fields::default(), joined: Vec::new(), sealed: Vec::new() }
    }

    fn bytes(&self) -> usize {
        self.fields.bytes() + self.joined.capacity() + self.sealed.capacity()
    }
}

/// The buffers beside the workspace.
pub struct Hands<'w> {
    /// As long as the longest copy of a block before compression.
    pub spare: &'w mut [u8],
    pub fields: &'w mut Fields,
    /// A block joined with its marks, which are separate in a frame.
    pub joined: &'w mut Vec<u8>,
    /// A copy as the tier returned it.
    pub sealed: &'w mut Vec<u8>,
}

/// Makes room for `len` bytes.
pub fn room(joined: &mut Vec<u8>, len: usize) -> Result<&mut [u8], Error> {
    joined.try_reserve_exact(len.saturating_sub(joined.len())).map_err(|_| Error::OutOfMemory)?;
    joined.resize(len.max(joined.len()), 0);
    Ok(&mut joined[..len])
}

/// The workspaces of a heap.
#[derive(Default)]
pub struct Works {
    stock: Mutex<Stock>,
    /// A workspace was returned.
    returned: Condvar,
}

/// One in this many requests may find no free workspace without more being made.
const WANTED: u32 = 8;
/// Another is made at this level of `wanted`, which means that too many of the recent requests waited.
const ENOUGH: u32 = 64;

#[derive(Default)]
struct Stock {
    free: Vec<Work>,
    /// The number made, including those in use.
    made: usize,
    /// Raised for each request that finds none free, lowered for each workspace taken.
    wanted: u32,
}

impl Works {
    /// Runs `f` with a workspace that is free or that `make` makes, which is told whether it is the first. If it
    /// is not, `make` may fail: then this waits for another. Also returns by how many bytes its
    /// buffers have grown.
    pub fn with<R>(
        &self,
        make: impl Fn(bool) -> Result<Work, Error>,
        f: impl FnOnce(&mut Workspace<'_>, Hands<'_>) -> R,
    ) -> Result<(R, usize), Error> {
        let mut lent = self.take(make)?;
        let Some(work) = &mut lent.work else { return Err(Error::Damaged) };
        let spare = std::mem::take(&mut work.space.block);
        let before = work.bytes();
        let Work { space, fields, joined, sealed } = &mut *work;
        let result = f(space, Hands { spare, fields, joined, sealed });
        work.space.block = spare;
        let grown = work.bytes() - before;
        lent.is_whole = true;
        Ok((result, grown))
    }

    fn take(&self, make: impl Fn(bool) -> Result<Work, Error>) -> Result<Lent<'_>, Error> {
        static CPUS: OnceLock<usize> = OnceLock::new();
        let lent = |work| Ok(Lent { works: self, work: Some(work), is_whole: false });
        let mut stock = locked(&self.stock);
        if stock.free.is_empty() {
            stock.wanted += WANTED;
        }
        loop {
            if let Some(work) = stock.free.pop() {
                stock.wanted = stock.wanted.saturating_sub(1);
                return lent(work);
            }
            let most = || *CPUS.get_or_init(|| available_parallelism().map_or(1, usize::from));
            if stock.made == 0 || stock.wanted >= ENOUGH && stock.made < most() {
                let is_first = stock.made == 0;
                stock.made += 1;
                stock.wanted = 0;
                drop(stock);
                let made = make(is_first);
                if let Ok(work) = made {
                    return lent(work);
                }
                stock = locked(&self.stock);
                stock.made -= 1;
                if stock.made == 0 {
                    return made.and_then(lent);
                }
                if !stock.free.is_empty() {
                    continue;
                }
            }
            stock = self.returned.wait(stock).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A workspace in use, until this is dropped.
struct Lent<'c> {
    works: &'c Works,
    work: Option<Work>,
    /// The use was completed; otherwise the workspace is not used again.
    is_whole: bool,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut stock = locked(&self.works.stock);
        match self.work.take().filter(|_| self.is_whole) {
            Some(work) => stock.free.push(work),
            None => stock.made -= 1,
        }
        drop(stock);
        self.works.returned.notify_one();
    }
}
