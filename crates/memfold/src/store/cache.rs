//! Asking for cache lines ahead of their use. Hints only: where there is no
//! instruction for it, nothing happens.

/// More than this is left to the processor's own prefetching.
const MOST: usize = 4096;
const LINE: usize = 64;

/// The line at `at` will be read soon.
#[inline]
pub(super) fn read<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it never faults, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint; it never faults, whatever the address.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// `bytes` at `at` will be read soon.
#[inline]
pub(super) fn read_all(at: *const u8, bytes: usize) {
    for offset in (0..bytes.min(MOST)).step_by(LINE) {
        read(at.wrapping_add(offset));
    }
}

/// `bytes` at `at` will be written soon.
#[inline]
pub(super) fn write_all(at: *const u8, bytes: usize) {
    for offset in (0..bytes.min(MOST)).step_by(LINE) {
        let at = at.wrapping_add(offset);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `read`.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_ET0>(at.cast());
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as in `read`.
        unsafe {
            core::arch::asm!("prfm pstl1keep, [{at}]", at = in(reg) at, options(nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = at;
    }
}
