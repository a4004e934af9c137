//! Which implementation runs.

/// An implementation that this processor can run. All of them make and read the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Reference,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Path {
    /// Plain Rust.
    pub const REFERENCE: Path = Path(Kind::Reference);

    /// AVX2 with BMI1, LZCNT and POPCNT, which came with it.
    ///
    /// # Safety
    /// The processor has these instructions, and the operating system saves their registers.
    #[cfg(target_arch = "x86_64")]
    pub const unsafe fn avx2() -> Path {
        Path(Kind::Avx2)
    }

    #[cfg(target_arch = "x86_64")]
    pub(crate) fn is_avx2(self) -> bool {
        self == Path(Kind::Avx2)
    }
}
