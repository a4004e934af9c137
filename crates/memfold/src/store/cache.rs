//! Hints to the processor's caches: lines that will be used soon, and copies that nobody reads soon. On
//! processors without such instructions, the functions do the same without hints.

/// Beyond this many bytes, the processor's own prefetching takes over.
const MOST: usize = 4096;
const LINE: usize = 64;

/// Prefetches the line at `at`, which will be read soon.
#[inline]
pub(super) fn will_read<T>(at: *const T) {
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

/// Prefetches `bytes` at `at`, which will be read soon.
#[inline]
pub(crate) fn will_read_all(at: *const u8, bytes: usize) {
    for offset in (0..bytes.min(MOST)).step_by(LINE) {
        will_read(at.wrapping_add(offset));
    }
}

/// Prefetches the line at `at`, which will be written soon.
#[inline]
pub(super) fn will_write<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it never faults, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint; it never faults, whatever the address.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{at}]", at = in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Copies `units` units of 16 bytes that will not be read soon. The writes bypass the caches, so overwritten
/// lines need not be fetched first. Call `copied` before other threads may read the copy.
///
/// # Safety
///
/// As for `copy_nonoverlapping`; both are aligned to 16 bytes.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn copy_nontemporal(from: *const u8, to: *mut u8, units: usize) {
    use core::arch::x86_64::{__m128i, _mm_load_si128, _mm_store_si128, _mm_stream_si128};
    let (from, to) = (from.cast::<__m128i>(), to.cast::<__m128i>());
    // Lines that are only partly overwritten are fetched anyway.
    let head = (to.cast::<u8>().align_offset(LINE) / 16).min(units);
    let body = head + (units - head) / 4 * 4;
    // SAFETY: all within the ranges that the caller guarantees, and aligned as they are. SSE2 is part of
    // x86-64.
    unsafe {
        for i in (0..head).chain(body..units) {
            _mm_store_si128(to.add(i), _mm_load_si128(from.add(i)));
        }
        for i in (head..body).step_by(4) {
            let line = [0, 1, 2, 3].map(|j| _mm_load_si128(from.add(i + j)));
            for (j, part) in line.into_iter().enumerate() {
                _mm_stream_si128(to.add(i + j), part);
            }
        }
    }
}

/// Copies `units` units of 16 bytes.
///
/// # Safety
///
/// As for `copy_nonoverlapping`.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn copy_nontemporal(from: *const u8, to: *mut u8, units: usize) {
    // SAFETY: the caller keeps the same contract.
    unsafe { core::ptr::copy_nonoverlapping(from, to, units * 16) };
}

/// Orders what `copy_nontemporal` wrote before all later writes of this thread.
#[inline]
pub(super) fn copied() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: part of x86-64, without preconditions.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Aligned([u8; 1024]);

    #[test]
    fn copies_are_exact_at_every_length_and_place() {
        let mut from = Aligned([0; 1024]);
        for (i, byte) in from.0.iter_mut().enumerate() {
            *byte = (i * 7 + i / 256) as u8;
        }
        for (from_at, to_at) in [(0, 0), (16, 0), (0, 16), (48, 32), (64, 112)] {
            for units in 0..40 {
                let mut to = Aligned([0xee; 1024]);
                // SAFETY: within both arrays, at multiples of 16.
                unsafe {
                    copy_nontemporal(from.0.as_ptr().add(from_at), to.0.as_mut_ptr().add(to_at), units)
                };
                copied();
                let end = to_at + units * 16;
                assert_eq!(to.0[to_at..end], from.0[from_at..from_at + units * 16]);
                assert!(to.0[..to_at].iter().chain(&to.0[end..]).all(|b| *b == 0xee));
            }
        }
    }
}
