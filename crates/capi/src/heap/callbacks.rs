//! Codecs that are callbacks.
//!
//! The heap checks that blocks are restored correctly (`memfold::heap::Options::own_codec`). This module checks
//! what the callbacks return:
//!
//! ```text
//!   scratch   | room for what the callback makes: len + len / 6 + 1024 |      what is worth it is copied to the store
//! ```

use std::ffi::{c_uchar, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering::*};

use memfold_codec::{Codec, CodecId, Compressed, Malformed, Scratch};

use crate::entry::callback;

/// As in `memfold.h`.
pub type memfold_compress =
    Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void, usize) -> usize>;
/// As in `memfold.h`.
pub type memfold_decompress =
    Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void, usize) -> usize>;
/// As in `compll.h`.
pub type compll_compress_callback =
    Option<unsafe extern "C" fn(*const c_uchar, c_uint, *mut c_uchar, c_uint) -> c_uint>;
/// As in `compll.h`.
pub type compll_decompress_callback =
    Option<unsafe extern "C" fn(*const c_uchar, c_uint, *mut c_uchar, c_uint)>;

/// The pair of callbacks from C, known not to be null.
#[derive(Clone, Copy)]
pub enum Pair {
    Memfold {
        compress: unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void, usize) -> usize,
        decompress: unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void, usize) -> usize,
        context: *mut c_void,
    },
    Compll {
        compress: unsafe extern "C" fn(*const c_uchar, c_uint, *mut c_uchar, c_uint) -> c_uint,
        decompress: unsafe extern "C" fn(*const c_uchar, c_uint, *mut c_uchar, c_uint),
    },
}

/// A codec made of callbacks; see the module.
pub struct Callbacks {
    pair: Pair,
    /// How often they returned something impossible or did not restore a block.
    faults: AtomicU64,
}

// SAFETY: the context is passed on to the callbacks and not used otherwise; the headers say that any thread calls
// these.
unsafe impl Send for Callbacks {}
// SAFETY: the same, and that several threads call them at once.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    /// # Safety
    /// The callbacks must behave as the headers say: they write only to the memory that they are given, and no
    /// further than its length.
    pub unsafe fn new(pair: Pair) -> Self {
        Callbacks { pair, faults: AtomicU64::new(0) }
    }

    pub fn faults(&self) -> u64 {
        self.faults.load(Relaxed)
    }

    fn fault(&self) {
        self.faults.fetch_add(1, Relaxed);
    }
}

/// Room for the worst case of the common libraries for `len` bytes (lzo: len / 16 + 67 more, bzip2: len / 100 +
/// 600, snappy: len / 6 + 32).
fn room(len: usize) -> usize {
    len + len / 6 + 1024
}

/// Blocks have at most 16 MiB, plus a little that the heap notes about them.
fn short(len: usize) -> c_uint {
    c_uint::try_from(len).unwrap_or(c_uint::MAX)
}

impl Codec for Callbacks {
    fn name(&self) -> &str {
        "callbacks"
    }

    fn id(&self) -> CodecId {
        CodecId::OWN
    }

    fn bound(&self, len: usize) -> usize {
        room(len)
    }

    fn compress_scratch(&self, len: usize) -> usize {
        room(len)
    }

    fn decompress_scratch(&self, _len: usize) -> usize {
        0
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        let to = scratch.bytes(room(src.len()));
        let (from, at) = (src.as_ptr(), to.as_mut_ptr());
        // SAFETY: both have the given lengths and do not overlap; the callbacks keep to the lengths.
        let made = callback(|| unsafe {
            match self.pair {
                Pair::Memfold { compress, context, .. } => {
                    compress(context, from.cast(), src.len(), at.cast(), to.len())
                }
                Pair::Compll { compress, .. } => {
                    compress(from, short(src.len()), at, short(to.len())) as usize
                }
            }
        });
        let Some(made) = to.get(..made) else {
            self.fault();
            return Compressed::Incompressible;
        };
        match dst.get_mut(..made.len()) {
            Some(dst) if !made.is_empty() && made.len() <= threshold => {
                dst.copy_from_slice(made);
                Compressed::Fits(made.len())
            }
            _ => Compressed::Incompressible,
        }
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let (from, to) = (src.as_ptr(), dst.as_mut_ptr());
        // SAFETY: as above.
        let made = callback(|| unsafe {
            match self.pair {
                Pair::Memfold { decompress, context, .. } => {
                    decompress(context, from.cast(), src.len(), to.cast(), dst.len())
                }
                Pair::Compll { decompress, .. } => {
                    decompress(from, short(src.len()), to, short(dst.len()));
                    dst.len()
                }
            }
        });
        if made == dst.len() {
            return Ok(());
        }
        self.fault();
        Err(Malformed)
    }
}
