//! Nodes that hold a value of a type, or text.
//!
//! `zerocopy` decides, by a derive, which types may be read from bytes and written as bytes: those of plain
//! old data.

use std::string::String;
use std::vec::Vec;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::heap::access::bytes::Bytes;
use crate::heap::access::session::Session;
use crate::heap::block::handle::Handle;
use crate::heap::error::Error;

/// Plain old data: numbers, [`Handle`]s as numbers, arrays and structs of them without padding.
///
/// ```
/// use memfold::heap::{Handle, Heap, Options};
/// use memfold::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// // zerocopy comes with memfold; its derive has to be told so.
/// #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[zerocopy(crate = "memfold::zerocopy")]
/// #[repr(C)]
/// struct Item {
///     next: u64,
///     value: u64,
/// }
///
/// let heap = Heap::new(Options::new())?;
/// let mut session = heap.session()?;
/// let last = session.put(&Item { next: 0, value: 2 })?;
/// let first = session.put(&Item { next: last.to_bits(), value: 1 })?;
/// session.update(last, |item: &mut Item| item.value += 1)?;
/// let next = session.get::<Item>(first)?.next;
/// assert_eq!(session.get::<Item>(Handle::from_bits(next).unwrap())?.value, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Plain: FromBytes + IntoBytes + Immutable + KnownLayout {}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout> Plain for T {}

impl Session<'_> {
    /// Makes a node that holds a value.
    pub fn put<T: Plain>(&mut self, value: &T) -> Result<Handle, Error> {
        self.put_bytes(value.as_bytes())
    }

    /// Makes a node that holds these bytes, for example a string.
    pub fn put_bytes(&mut self, bytes: &[u8]) -> Result<Handle, Error> {
        let handle = self.alloc(bytes.len())?;
        match self.write_at(handle, 0, bytes) {
            Ok(()) => Ok(handle),
            Err(error) => {
                self.discard(handle);
                Err(error)
            }
        }
    }

    /// The value of a node that is as long as the value.
    #[inline]
    pub fn get<T: Plain>(&self, handle: Handle) -> Result<T, Error> {
        let mut value = T::new_zeroed();
        let mut same =
            |bytes: Bytes| bytes.len() == size_of::<T>() && bytes.copy_words(0, value.as_mut_bytes());
        match self.look_once(handle, |bytes| same(bytes).then_some(())) {
            Some(()) => Ok(value),
            None => self.get_hard(handle),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_hard<T: Plain>(&self, handle: Handle) -> Result<T, Error> {
        let mut value = T::new_zeroed();
        if self.is_large(handle) {
            let node = self.large_size(handle)?;
            self.read_large(handle, 0, value.as_mut_bytes())?;
            let value = if node == size_of::<T>() { Ok(value) } else { Err(node) };
            return value.map_err(|node| Error::Mismatch { node, value: size_of::<T>() });
        }
        let node = self.look(handle, |bytes| {
            if bytes.len() == size_of::<T>() {
                bytes.copy_to(0, value.as_mut_bytes());
            }
            bytes.len()
        })?;
        if node == size_of::<T>() { Ok(value) } else { Err(Error::Mismatch { node, value: size_of::<T>() }) }
    }

    /// The value that begins at byte `from` of a node: a field, or several that follow each other. Of a large
    /// node only that part is faulted in.
    ///
    /// ```
    /// # use memfold::heap::{Heap, Options};
    /// let heap = Heap::new(Options::new())?;
    /// let mut session = heap.session()?;
    /// let node = session.alloc(100)?;
    /// session.set_at(node, 90, &7u16)?;
    /// session.update_at(node, 90, |number: &mut u16| *number += 1)?;
    /// assert_eq!(session.get_at::<u16>(node, 90)?, 8);
    /// assert!(session.get_at::<u64>(node, 96).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn get_at<T: Plain>(&self, handle: Handle, from: usize) -> Result<T, Error> {
        let mut value = T::new_zeroed();
        match self.look_once(handle, |bytes| bytes.copy_words(from, value.as_mut_bytes()).then_some(())) {
            Some(()) => Ok(value),
            None => self.get_at_hard(handle, from),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_at_hard<T: Plain>(&self, handle: Handle, from: usize) -> Result<T, Error> {
        let mut value = T::new_zeroed();
        self.read_at_hard(handle, from, value.as_mut_bytes())?;
        Ok(value)
    }

    /// Overwrites a node with a value of the same length.
    #[inline]
    pub fn set<T: Plain>(&mut self, handle: Handle, value: &T) -> Result<(), Error> {
        match self.write_once(handle, 0, value.as_bytes(), |len| len == size_of::<T>()) {
            Some(()) => Ok(()),
            None => self.set_hard(handle, value),
        }
    }

    #[cold]
    #[inline(never)]
    fn set_hard<T: Plain>(&mut self, handle: Handle, value: &T) -> Result<(), Error> {
        let mut node = self.write(handle)?;
        if node.len() != size_of::<T>() {
            return Err(Error::Mismatch { node: node.len(), value: size_of::<T>() });
        }
        node.copy_from_slice(value.as_bytes());
        Ok(())
    }

    /// Overwrites the part of a node that begins at byte `from` with a value. Of a large node only that part
    /// is faulted in.
    #[inline]
    pub fn set_at<T: Plain>(&mut self, handle: Handle, from: usize, value: &T) -> Result<(), Error> {
        self.write_at(handle, from, value.as_bytes())
    }

    /// Changes the value of a node in place; nobody sees it half changed. The heap's alignment must suffice
    /// for the type.
    #[inline]
    pub fn update<T: Plain, R>(
        &mut self,
        handle: Handle,
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Error> {
        let mut node = self.write(handle)?;
        let mismatch = Error::Mismatch { node: node.len(), value: size_of::<T>() };
        T::mut_from_bytes(&mut node).map(change).map_err(|_| mismatch)
    }

    /// Changes the value that begins at byte `from` of a node; nobody sees it half changed. It may begin at
    /// any byte.
    #[inline]
    pub fn update_at<T: Plain, R>(
        &mut self,
        handle: Handle,
        from: usize,
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Error> {
        let mut node = self.write(handle)?;
        let (len, end) = (node.len(), from.saturating_add(size_of::<T>()));
        let part = node.get_mut(from..end).ok_or(Error::Mismatch { node: len, value: end })?;
        if part.as_ptr().cast::<T>().is_aligned()
            && let Ok(value) = T::mut_from_bytes(part)
        {
            return Ok(change(value));
        }
        let mut value = T::new_zeroed();
        value.as_mut_bytes().copy_from_slice(part);
        let result = change(&mut value);
        part.copy_from_slice(value.as_bytes());
        Ok(result)
    }

    /// The text of a node; invalid UTF-8 in it is replaced by U+FFFD.
    pub fn text(&self, handle: Handle) -> Result<String, Error> {
        let mut bytes = Vec::new();
        self.read_into(handle, &mut bytes)?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}
