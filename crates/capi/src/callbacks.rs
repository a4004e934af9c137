//! Codecs that are callbacks.
//!
//! The heap checks that blocks come back as they were (`memfold::heap::Options::own_codec`). Here is looked at what the callbacks say:
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

/// What C gave, known not to be null.
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

/// See the module.
pub struct Callbacks {
    pair: Pair,
    /// How often they said what can't be, or did not give back what they got.
    faults: AtomicU64,
}

// SAFETY: the context is handed on to the callbacks and not used otherwise; the headers say that these are called by any thread.
unsafe impl Send for Callbacks {}
// SAFETY: the same, and by several at once.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    /// # Safety
    /// The callbacks keep to what the headers say about memory: they write nowhere but to the memory that they are given, and no further than
    /// its length.
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

/// Room for the worst that common libraries make of `len` bytes (lzo: len / 16 + 67 more, bzip2: len / 100 + 600, snappy: len / 6 + 32).
fn room(len: usize) -> usize {
    len + len / 6 + 1024
}

/// Blocks have 16 MiB at most, and a little for what the heap notes about them.
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
        // SAFETY: both are as long as is said, and do not overlap; the callbacks keep to that.
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
