//! Which implementation runs.
//!
//! The kernels (`kernels/`) are written once, on registers of 16 and of 32 bytes, and compiled once for each
//! set of vector instructions. They work in passes over a piece. Within a pass no word waits for the one
//! before it, except where a line's distance depends on the last line's. Bytes are packed and spread by byte
//! shuffles (`pshufb`, `tbl`), whose controls come from tables with an entry for each mask; `pext` and `pdep`
//! would be no faster, and are slow on older AMD processors.
//!
//! Rows are read and written 8, 16 or 32 bytes at a time, and so up to `SLACK` bytes beyond what belongs to
//! them.
//!
//! ```text
//!   avx2:  one register of AVX2 for 32 bytes     wide_avx2, half_x86
//!   sse:   two of SSE                            wide_pair, half_x86, half_x86_more
//!   neon:  two of NEON                           wide_pair, half_neon
//! ```

/// An implementation that this processor can run. All of them make and read the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path(pub(crate) Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Reference,
    #[cfg(target_arch = "x86_64")]
    Sse,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Path {
    /// Plain Rust.
    pub const REFERENCE: Path = Path(Kind::Reference);

    /// The fastest that this processor has.
    #[cfg(feature = "std")]
    pub fn best() -> Path {
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            return Path(Kind::Neon);
        }
        #[cfg(target_arch = "x86_64")]
        {
            use std::is_x86_feature_detected as has;
            if has!("avx2") && has!("bmi1") && has!("lzcnt") && has!("popcnt") {
                return Path(Kind::Avx2);
            }
            if has!("ssse3") && has!("sse4.1") && has!("popcnt") {
                return Path(Kind::Sse);
            }
        }
        Path::REFERENCE
    }

    /// SSE up to 4.1, and POPCNT: x86-64-v2, from 2008 on.
    ///
    /// # Safety
    /// The processor has these instructions.
    #[cfg(target_arch = "x86_64")]
    pub const unsafe fn sse() -> Path {
        Path(Kind::Sse)
    }

    /// AVX2 with BMI1, LZCNT and POPCNT, which came with it.
    ///
    /// # Safety
    /// The processor has these instructions, and the operating system saves their registers.
    #[cfg(target_arch = "x86_64")]
    pub const unsafe fn avx2() -> Path {
        Path(Kind::Avx2)
    }

    /// NEON, which every 64-bit processor for applications has.
    ///
    /// # Safety
    /// The processor has these instructions.
    #[cfg(target_arch = "aarch64")]
    pub const unsafe fn neon() -> Path {
        Path(Kind::Neon)
    }
}
