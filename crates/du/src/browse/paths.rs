//! Paths as they are shown: a tree may be a million levels deep, a screen is not.

use super::text::{cut, shown, width};
use crate::Error;
use crate::source::{ROOT, Source};

/// What may stand between slashes at least, so few columns can't show more names than this allows.
const LEAST: usize = 2;

/// The path of a directory, with `last` behind it if that is something, in so many columns. Of a long one, what is in the middle is not even looked at.
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
    // If names were left out, it is too long still, and they are in the middle.
    Ok(cut(&path, columns))
}
