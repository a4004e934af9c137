//! What pages are taken from: a process, a core, files.

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

/// Where pages are.
pub trait Source {
    /// Parts with their pages, in the order of their addresses.
    fn mappings(&self) -> &[Mapping];

    /// Reads from an address on, and says how many bytes it got: less where pages have gone meanwhile.
    fn read(&self, address: u64, into: &mut [u8]) -> usize;
}

/// A file or several: an ELF core if there is one and it is one, pages as they are otherwise. Those that cannot
/// be analysed are left out; what is with them is said, by their places in the list.
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
