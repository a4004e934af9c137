//! Sources of pages: a process, a core, files.

mod core;
mod files;
pub mod process;
pub mod several;

use std::path::Path;

pub use self::core::{Core, is_core};
pub use files::Files;
pub use process::Process;
pub use several::Processes;

use crate::Error;
use crate::index::Mapping;

/// A source of pages.
pub trait Source {
    /// The parts of the source with their pages, in the order of their addresses.
    fn mappings(&self) -> &[Mapping];

    /// Reads from an address on and returns the number of bytes read, which is smaller if pages are gone by
    /// then.
    fn read(&self, address: u64, into: &mut [u8]) -> usize;
}

/// Opens one or several files: a single ELF core as a core, everything else as raw pages. Omits files that
/// cannot be analysed, and returns their errors by index in the list.
pub fn open(paths: &[impl AsRef<Path>]) -> (Box<dyn Source>, Vec<(usize, Error)>) {
    let alone = match paths {
        [path] => {
            core::is_core(path.as_ref()).and_then(|it| it.then(|| Core::open(path.as_ref())).transpose())
        }
        _ => Ok(None),
    };
    match alone {
        Ok(Some(core)) => (Box::new(core), Vec::new()),
        Ok(None) => {
            let (files, failed) = Files::open(paths);
            (Box::new(files), failed)
        }
        Err(error) => (Box::new(Files::none()), vec![(0, error)]),
    }
}
