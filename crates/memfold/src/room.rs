//! Vectors that grow only if there is memory: where it is refused, the result is an error, not the program's end.

use std::vec::Vec;

use crate::heap::Error;

/// A vector with room for `count` elements.
pub fn room<E>(count: usize) -> Result<Vec<E>, Error> {
    let mut all = Vec::new();
    all.try_reserve_exact(count).map_err(|_| Error::OutOfMemory)?;
    Ok(all)
}

/// A vector of `count` equal elements.
pub fn filled<E: Clone>(count: usize, with: E) -> Result<Vec<E>, Error> {
    let mut all = room(count)?;
    all.resize(count, with);
    Ok(all)
}

/// Adds an element.
pub fn push<E>(all: &mut Vec<E>, one: E) -> Result<(), Error> {
    all.try_reserve(1).map_err(|_| Error::OutOfMemory)?;
    all.push(one);
    Ok(())
}

/// All elements of an iterator.
pub fn gather<E>(elements: impl IntoIterator<Item = E>) -> Result<Vec<E>, Error> {
    let elements = elements.into_iter();
    let mut all = room(elements.size_hint().0)?;
    for element in elements {
        push(&mut all, element)?;
    }
    Ok(all)
}
