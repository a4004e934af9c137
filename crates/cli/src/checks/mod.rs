//! Checks before a program starts: whether this machine allows what memfold needs, and whether the program
//! can be managed. A refusal names the remedy.
//!
//! ```text
//!   machine (facts) ──> userfault (the verdict) <── uffd (tried for real) <── probe (in a child)
//!                           └─> remedies (commands that help)
//!   filters (seccomp, tried for real)      program (found, can be managed?) <── elf
//!   preload (the library found)            trace (why memory may not be read)
//!   doctor reports all of them, and trials of what only `analyze` needs
//! ```

pub mod doctor;
mod elf;
pub mod filters;
pub mod machine;
pub mod preload;
mod probe;
pub mod program;
mod remedies;
#[cfg(feature = "analyze")]
pub mod trace;
mod trials;
mod uffd;
pub mod userfault;
