//! Nodes that hold a value of a type, or text.
//!
//! Which types may be read from bytes and written as such, `zerocopy` decides: those of plain old data, by a derive.

use std::string::String;
use std::vec::Vec;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::error::Error;
use super::handle::Handle;
use super::session::Session;

/// Plain old data: numbers, [`Handle`]s as numbers, arrays and structs of them without padding.
///
/// ```
/// use memfold::heap::{Handle, Heap, Options};
/// use memfold::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
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
    /// A node that holds a value.
    pub fn put<T: Plain>(&mut self, value: &T) -> Result<Handle, Error> {
        self.put_bytes(value.as_bytes())
    }

    /// A node that holds these bytes, a string for one.
    pub fn put_bytes(&mut self, bytes: &[u8]) -> Result<Handle, Error> {
        let handle = self.alloc(bytes.len())?;
        match self.write_at(handle, 0, bytes) {
            Ok(()) => Ok(handle),
            Err(error) => self.free(handle).and(Err(error)),
        }
    }

    /// Writes a value over the node, which is as long.
    #[inline]
    pub fn set<T: Plain>(&mut self, handle: Handle, value: &T) -> Result<(), Error> {
        let mut node = self.write(handle)?;
        if node.len() != size_of::<T>() {
            return Err(Error::Mismatch { node: node.len(), value: size_of::<T>() });
        }
        node.copy_from_slice(value.as_bytes());
        Ok(())
    }

    /// Changes the value of a node in place; nobody sees it half changed. The heap's alignment must do for the type.
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

    /// The text of a node; what is no UTF-8 in it is replaced by U+FFFD.
    pub fn text(&self, handle: Handle) -> Result<String, Error> {
        let mut bytes = Vec::new();
        self.read_into(handle, &mut bytes)?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}
