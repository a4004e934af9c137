//! ncdu's JSON export, version 1.2 (<https://dev.yorhel.nl/ncdu/jsonfmt>): written for ncdu, and read from ncdu
//! and other programs that write it.
//!
//! ```text
//!   [1,2,{"progname":..,"timestamp":..},
//!   [{"name":"/root",..},             a directory: itself first,
//!   {"name":"file",..},               then what is in it
//!   [{"name":"sub",..}]]]
//!
//!   asize, dsize                bytes; none is not said
//!   dev                         the file system's number, where it is not that of the directory above
//!   uid, gid, mode, mtime       with extended information; a time before 1970 is written as 2^64 less
//!   ino, hlnkc, nlink           a file with other names; nlink came with 1.2, and without it the count is 0: nobody knows
//!   notreg                      neither file nor directory
//!   read_error, excluded        "pattern", "otherfs" ("othfs" says ncdu, and does not read it again), "kernfs", "frmlnk"
//!   errno, loop                 memfold's own, which others pass over: why it could not be read; a directory that is above itself
//! ```
//!
//! A name may contain any bytes: bytes that are not UTF-8 are written unchanged, so the file may not be valid
//! JSON. ncdu does the same, and the relevant readers accept it.
//!
//! Reading and writing need little plain memory, however large or deep the tree is: entries that are read go
//! to the heap at once, and writing walks the tree by its rows.

mod error;
mod fields;
mod lex;
mod put;
mod read;
mod text;
mod write;

pub use error::{ReadError, WriteError, Wrong};
pub use read::{Import, read};
pub use write::{Export, write, write_zstd};

pub use crate::source::LONGEST_PATH;
