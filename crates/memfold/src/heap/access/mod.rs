//! Sessions, and reading and writing nodes through them.
//!
//! ```text
//!   session ── cache: blocks used lately ──> translation: handle -> address, valid for one tenancy of the frame
//!      ├── reads, writes    copies of one moment, and writes in place
//!      ├── guards, view     borrowing a node where it lies
//!      ├── peek, peeks      looking into a block that stays compressed; how often
//!      └── typed            nodes that hold a value of a type
//! ```

pub mod bytes;
pub mod cache;
pub mod guards;
pub mod peek;
pub mod peeks;
pub mod probed;
pub mod reads;
pub mod session;
pub mod translation;
pub mod typed;
pub mod view;
pub mod writes;
