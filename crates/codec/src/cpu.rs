//! Which instructions this processor has, determined once.
//!
//! A codec with several paths asks [`path`] at each call. All paths produce the same bytes and differ only in
//! speed. So a test or a measurement may [`force`] a slower one at any time, even while other threads work.
//! This crate reads no environment variables; a caller that does calls [`force`].
//!
//! The processor is queried directly (`cpuid` and `xgetbv`), since the detection macro is in `std`, which
//! this crate does not use. An instruction counts only if the operating system also saves the registers it
//! uses.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// An instruction set for which codecs have a code path, slower ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Path {
    /// The instructions that every processor of the architecture has.
    Scalar = 1,
    /// SSE up to 4.1, and POPCNT: x86-64-v2, from 2008 on.
    Sse4 = 2,
    /// AVX2 with BMI1, BMI2, LZCNT and POPCNT: x86-64-v3, from 2013 on.
    Avx2 = 3,
    /// AVX-512 with F, BW, CD, DQ, VL, VBMI, VBMI2 and BITALG: Ice Lake, Zen 4.
    Avx512 = 4,
}

impl Path {
    /// All paths, slower ones first.
    pub const ALL: [Path; 4] = [Path::Scalar, Path::Sse4, Path::Avx2, Path::Avx512];

    /// The path of that name, as a user writes it.
    pub fn from_name(name: &str) -> Option<Path> {
        Path::ALL.into_iter().find(|path| path.name() == name)
    }

    /// `scalar`, `sse4`, `avx2` or `avx512`.
    pub const fn name(self) -> &'static str {
        match self {
            Path::Scalar => "scalar",
            Path::Sse4 => "sse4",
            Path::Avx2 => "avx2",
            Path::Avx512 => "avx512",
        }
    }

    fn from_number(number: u8) -> Option<Path> {
        // Not by a search: each call of a codec comes here.
        (1..=Path::ALL.len() as u8).contains(&number).then(|| Path::ALL[usize::from(number) - 1])
    }
}

const _: () = {
    let mut at = 0;
    while at < Path::ALL.len() {
        assert!(Path::ALL[at] as usize == at + 1);
        at += 1;
    }
};

/// This processor does not have the instructions of that path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported;

impl core::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("this processor does not have these instructions")
    }
}

impl core::error::Error for Unsupported {}

/// The path in use; 0 if it has not been determined.
static USED: AtomicU8 = AtomicU8::new(0);
/// The fastest path available; 0 if it has not been determined.
static BEST: AtomicU8 = AtomicU8::new(0);

/// The path in use: the fastest that the processor has, or the forced one.
#[inline]
pub fn path() -> Path {
    // Only paths that the processor has are ever stored. Two threads that determine the path at the same time
    // find the same one, so the order of stores does not matter.
    match Path::from_number(USED.load(Relaxed)) {
        Some(path) => path,
        None => {
            let path = best();
            USED.store(path as u8, Relaxed);
            path
        }
    }
}

/// The fastest path that the processor has.
pub fn best() -> Path {
    Path::from_number(BEST.load(Relaxed)).unwrap_or_else(|| {
        let path = detect();
        BEST.store(path as u8, Relaxed);
        path
    })
}

/// Uses this path from now on; `None` returns to the fastest.
///
/// # Errors
/// If the processor does not have it; then nothing changes.
pub fn force(path: Option<Path>) -> Result<(), Unsupported> {
    let path = path.unwrap_or_else(best);
    if path > best() {
        return Err(Unsupported);
    }
    USED.store(path as u8, Relaxed);
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Path {
    Path::Scalar
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Path {
    use core::arch::x86_64::{__cpuid, __cpuid_count};

    // Valgrind reports AVX2, and up to 3.19 lacks a form of `vmovq` that compilers choose when it is a byte
    // shorter.
    if is_valgrind() {
        return Path::Scalar;
    }
    let has = |register: u32, bits: &[u32]| bits.iter().all(|bit| register >> bit & 1 == 1);
    let one = __cpuid(1);
    // ECX: SSSE3, SSE4.1, POPCNT.
    if !has(one.ecx, &[9, 19, 23]) {
        return Path::Scalar;
    }
    // ECX: OSXSAVE, AVX.
    if __cpuid(0).eax < 7 || __cpuid(0x8000_0000).eax < 0x8000_0001 || !has(one.ecx, &[27, 28]) {
        return Path::Sse4;
    }
    let (seven, extended) = (__cpuid_count(7, 0), __cpuid(0x8000_0001));
    // SAFETY: OSXSAVE says that the instruction is there.
    let saved = unsafe { saved_registers() };
    // EBX: BMI1, AVX2, BMI2; ECX: LZCNT. Saved: SSE and AVX registers.
    if !has(seven.ebx, &[3, 5, 8]) || !has(extended.ecx, &[5]) || !has(saved, &[1, 2]) {
        return Path::Sse4;
    }
    // EBX: F, DQ, CD, BW, VL; ECX: VBMI, VBMI2, BITALG. Saved: masks, upper halves, upper 16.
    let wide = has(seven.ebx, &[16, 17, 28, 30, 31]) && has(seven.ecx, &[1, 6, 12]) && has(saved, &[5, 6, 7]);
    if wide { Path::Avx512 } else { Path::Avx2 }
}

/// Whether valgrind executes this program. Valgrind interprets this instruction sequence, which otherwise has
/// no effect, as a request; the answer is the number of nested valgrinds.
#[cfg(target_arch = "x86_64")]
fn is_valgrind() -> bool {
    const RUNNING_ON_VALGRIND: u64 = 0x1001;
    let request = [RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0];
    let mut answer = 0u64;
    // SAFETY: a register is rotated by 128 bits in all, and one is exchanged with itself. Valgrind reads the
    // request and writes the answer.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") answer,
            options(nostack),
        );
    }
    answer > 0
}

/// The low half of XCR0: the registers that the operating system saves.
///
/// # Safety
/// The processor must have `xgetbv` and the operating system must have enabled it.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "xsave")]
unsafe fn saved_registers() -> u32 {
    // SAFETY: as the caller guarantees; register 0 always exists.
    unsafe { core::arch::x86_64::_xgetbv(0) as u32 }
}

/// Calls the version of a function that was compiled for AVX2, if the path allows it.
///
/// `either!(fast(a, b), plain(a, b))`: `fast` is an unsafe function whose only requirement is the
/// instructions that [`Path::Avx2`] names.
macro_rules! either {
    ($fast:ident $(::<$($g:ty),*>)? ($($arg:expr),*), $plain:expr) => {{
        #[cfg(target_arch = "x86_64")]
        if $crate::cpu::path() >= $crate::cpu::Path::Avx2 {
            // SAFETY: the processor has AVX2 and the related extensions, and the function requires no more.
            return unsafe { $fast $(::<$($g),*>)? ($($arg),*) };
        }
        $plain
    }};
}
pub(crate) use either;

/// For tests that compare the paths: runs `test` on each in turn. Tests that run at the same time may take
/// any path, which does not change their results.
#[cfg(test)]
pub(crate) fn on_each_path(mut test: impl FnMut(Path)) {
    let _guard = tests::ONE_AT_A_TIME.lock();
    for path in Path::ALL {
        if force(Some(path)).is_ok() {
            test(path);
        }
    }
    let _ = force(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn names_are_found_again() {
        for path in Path::ALL {
            assert_eq!(Path::from_name(path.name()), Some(path));
        }
        assert_eq!(Path::from_name("AVX2"), None);
    }

    /// The standard library, which detects the instructions in its own way, agrees.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_standard_library_finds_the_same() {
        use std::is_x86_feature_detected as has;
        let avx2 = has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt");
        let avx512 =
            has!("avx512f") && has!("avx512bw") && has!("avx512cd") && has!("avx512dq") && has!("avx512vl");
        let avx512 = avx512 && has!("avx512vbmi") && has!("avx512vbmi2") && has!("avx512bitalg");
        assert_eq!(best() >= Path::Avx2, avx2);
        assert_eq!(best() == Path::Avx512, avx2 && avx512);
    }

    /// This test runs itself under valgrind, where no vector path may be found.
    #[test]
    #[cfg(target_os = "linux")]
    fn valgrind_gets_no_vectors() {
        const INSIDE: &str = "MEMFOLD_TEST_INSIDE_VALGRIND";
        if std::env::var_os(INSIDE).is_some() {
            assert_eq!(best(), Path::Scalar);
            return;
        }
        let mut valgrind = std::process::Command::new("valgrind");
        valgrind.args(["-q", "--tool=none"]).arg(std::env::current_exe().unwrap()).env(INSIDE, "1");
        match valgrind.args(["--exact", "cpu::tests::valgrind_gets_no_vectors"]).output() {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(_) => std::eprintln!("no valgrind: not tested under it"),
        }
    }

    #[test]
    fn only_available_paths_can_be_forced() {
        let _guard = ONE_AT_A_TIME.lock();
        for path in Path::ALL {
            assert_eq!(force(Some(path)).is_ok(), path <= best());
        }
        force(None).unwrap();
        assert_eq!(path(), best());
    }
}
