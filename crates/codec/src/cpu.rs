//! Which instructions to use: what the processor has, unless less is asked for.
//!
//! All paths do the same; tests force each and compare. The question costs one
//! load and a compare, so it is asked once a block and not more often.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// A set of instructions, the larger ones later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Path {
    /// What every processor of the target has.
    Scalar,
    /// AVX2 and `popcnt`, on x86-64.
    Avx2,
}

/// The largest path that may be used.
static MOST: AtomicU8 = AtomicU8::new(Path::Avx2 as u8);

#[cfg(target_arch = "x86_64")]
// `popcnt` is older than AVX2, but has a bit of its own.
cpufeatures::new!(avx2, "avx2", "popcnt");

/// The path to take.
#[inline]
pub fn path() -> Path {
    #[cfg(target_arch = "x86_64")]
    if MOST.load(Relaxed) >= Path::Avx2 as u8 && avx2::get() {
        return Path::Avx2;
    }
    Path::Scalar
}

/// From now on no larger path is taken than `most`, in the whole process; the
/// processor's own limit stays.
pub fn force(most: Path) {
    MOST.store(most as u8, Relaxed);
}

/// Calls a function that was compiled for AVX2 as well, as the path tells.
///
/// `either!(fast(a, b), plain(a, b))`: `fast` is an unsafe function whose only
/// demand is that the processor has AVX2 and `popcnt`.
macro_rules! either {
    ($fast:ident $(::<$($g:ty),*>)? ($($arg:expr),*), $plain:expr) => {{
        #[cfg(target_arch = "x86_64")]
        if $crate::cpu::path() >= $crate::cpu::Path::Avx2 {
            // SAFETY: the processor has AVX2 and popcnt, and the function asks no more.
            return unsafe { $fast $(::<$($g),*>)? ($($arg),*) };
        }
        $plain
    }};
}
pub(crate) use either;

/// For tests that compare the paths: runs `test` on each in turn. Other tests
/// that run meanwhile take whichever path, which changes nothing.
#[cfg(test)]
pub(crate) fn on_each_path(mut test: impl FnMut(Path)) {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    for path in [Path::Scalar, Path::Avx2] {
        force(path);
        test(path);
    }
    force(Path::Avx2);
}
