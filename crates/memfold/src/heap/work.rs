//! Memory to compress and decompress in.
//!
//! Codecs keep in it what is costly to set up, so it is made once and handed from thread to thread.

use std::boxed::Box;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::vec::Vec;

use super::core::{Core, locked};
use super::error::Error;
use super::layout::fields::Fields;
use crate::store::Workspace;
use std::sync::atomic::Ordering::*;

/// A workspace and its memory.
pub struct Work {
    space: ManuallyDrop<Workspace<'static>>,
    memory: NonNull<[u8]>,
    fields: Fields,
    joined: Vec<u8>,
}

/// What there is to work with beside the workspace.
pub struct Hands<'w> {
    /// As long as what is kept of a block at most.
    pub spare: &'w mut [u8],
    pub fields: &'w mut Fields,
    /// A block with its marks, which lie apart in a frame.
    pub joined: &'w mut Vec<u8>,
}

/// Room for so many bytes.
pub fn room(joined: &mut Vec<u8>, len: usize) -> Result<&mut [u8], Error> {
    joined.try_reserve_exact(len.saturating_sub(joined.len())).map_err(|_| Error::OutOfMemory)?;
    joined.resize(len.max(joined.len()), 0);
    Ok(&mut joined[..len])
}

// SAFETY: what codecs keep in the memory is bytes and pointers into it; none of it is tied to a thread.
unsafe impl Send for Work {}

impl Drop for Work {
    fn drop(&mut self) {
        // SAFETY: dropped once, before its memory goes; the memory came out of a box.
        unsafe {
            ManuallyDrop::drop(&mut self.space);
            drop(Box::from_raw(self.memory.as_ptr()));
        }
    }
}

impl Deref for Work {
    type Target = Workspace<'static>;

    fn deref(&self) -> &Workspace<'static> {
        &self.space
    }
}

impl DerefMut for Work {
    fn deref_mut(&mut self) -> &mut Workspace<'static> {
        &mut self.space
    }
}

impl Core {
    /// Bytes that one compression works in.
    pub fn work_len(&self) -> usize {
        self.store.workspace_bytes(self.most_kept)
    }

    fn make_work(&self) -> Result<Work, Error> {
        let (bytes, mut memory) = (self.work_len(), Vec::new());
        memory.try_reserve_exact(bytes).map_err(|_| Error::OutOfMemory)?;
        memory.resize(bytes, 0);
        self.counts.work_bytes.fetch_add(bytes as u64, Relaxed);
        let mut memory = NonNull::from(Box::leak(memory.into_boxed_slice()));
        // SAFETY: leaked, so it lives until it is dropped together with its only user.
        let space = self.store.workspace(self.most_kept, unsafe { memory.as_mut() });
        Ok(Work { space: ManuallyDrop::new(space), memory, fields: Fields::default(), joined: Vec::new() })
    }

    /// Runs `f` with memory to compress in.
    pub fn with_work<R>(&self, f: impl FnOnce(&mut Workspace<'_>, Hands<'_>) -> R) -> Result<R, Error> {
        let taken = locked(&self.work).pop();
        let mut work = match taken {
            Some(work) => work,
            None => self.make_work()?,
        };
        let spare = std::mem::take(&mut work.block);
        let before = work.fields.bytes() + work.joined.capacity();
        let Work { space, fields, joined, .. } = &mut work;
        let result = f(space, Hands { spare, fields, joined });
        work.block = spare;
        let after = work.fields.bytes() + work.joined.capacity();
        self.counts.work_bytes.fetch_add((after - before) as u64, Relaxed);
        locked(&self.work).push(work);
        Ok(result)
    }
}
