//! Shortens paths for display: a tree may be a million levels deep.

use super::{cut, shown, width};
use crate::Error;
use crate::source::{ROOT, Source};

/// The least width of a component with its slash; it bounds the number of names that fit into a width.
const LEAST: usize = 2;

/// The path of a directory, followed by `last` if that is not empty, in this many columns. The middle of a
/// long path is not read.
pub fn path(source: &dyn Source, mut directory: u32, last: &[u8], columns: usize) -> Result<String, Error> {
    let mut names = Vec::new();
    let mut taken = 0;
    if !last.is_empty() {
        names.push(shown(last));
        taken = width(&names[0]);
    }
    while directory != ROOT && taken <= columns {
        let name = shown(&source.own_entry(directory)?.name);
        taken += width(&name).max(LEAST - 1) + 1;
        names.push(name);
        let above = source.above(directory)?;
        if above >= directory {
            return Err(Error::Damaged);
        }
        directory = above;
    }
    let mut path = shown(&source.root().name);
    for name in names.iter().rev() {
        if !path.ends_with('/') {
            path.push('/');
        }
        path.push_str(name);
    }
    // If names were left out, the path is still too long, so it is cut in the middle, where they were.
    Ok(cut(&path, columns))
}
