//! Memory for nodes: malloc, the heap, and blocks as compll's paper lays them out.

mod in_heap;
mod malloc;
pub mod packed;

pub use in_heap::InHeap;
pub use malloc::Malloc;
