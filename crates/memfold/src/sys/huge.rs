//! Huge pages, where the system has them and its administrator allows them on request.
//!
//! A huge page takes the place of all small pages of an aligned range (a unit). All calls here are hints: the
//! content of memory is the same whether or not they are heeded.

use core::ptr::NonNull;

use super::SystemMemory;

/// Larger huge pages are of no use here.
const MOST: usize = 4 << 20;

impl SystemMemory {
    /// Bytes of a huge page, a power of two; `None` where there are none, or none on request.
    pub(crate) fn huge_page(self) -> Option<usize> {
        kernel::huge_page().filter(|&bytes| bytes.is_power_of_two() && bytes <= MOST)
    }

    /// Asks for huge pages for whole units that hold nothing yet, or all of whose pages have memory. False if
    /// the system can't do that; then nothing has changed.
    ///
    /// # Safety
    /// The units are part of one reservation.
    pub(crate) unsafe fn prefer_huge(self, start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: as the caller guarantees.
        unsafe { kernel::prefer_huge(start, bytes) }
    }

    /// Turns whole units, all of whose pages have memory, into huge pages now if possible; their content
    /// stays.
    ///
    /// # Safety
    /// The units are part of one reservation.
    pub(crate) unsafe fn collapse(self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: as the caller guarantees.
        unsafe { kernel::collapse(start, bytes) }
    }

    /// Asks for small pages for these units, since their pages will be returned one by one and nothing else
    /// may take their place; false if the system can't do that.
    ///
    /// # Safety
    /// The units are part of one reservation.
    pub(crate) unsafe fn prefer_small(self, start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: as the caller guarantees.
        unsafe { kernel::prefer_small(start, bytes) }
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use core::ptr::NonNull;
    use std::fs::read_to_string;
    use std::sync::OnceLock;

    static HUGE: OnceLock<Option<usize>> = OnceLock::new();

    /// MADV_COLLAPSE ignores whether the administrator wants huge pages, so this checks it.
    pub fn huge_page() -> Option<usize> {
        *HUGE.get_or_init(|| {
            let says =
                |name: &str| read_to_string(std::format!("/sys/kernel/mm/transparent_hugepage/{name}"));
            let wanted = says("enabled").is_ok_and(|modes| !modes.contains("[never]"));
            // SAFETY: a system call that accesses no memory.
            let refused = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) } == 1;
            let bytes = says("hpage_pmd_size").ok()?.trim().parse().ok()?;
            (wanted && !refused).then_some(bytes)
        })
    }

    fn advise(start: NonNull<u8>, bytes: usize, advice: libc::c_int) -> bool {
        // SAFETY: our own pages, as all callers guarantee; none of the advice used here changes their
        // content.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, advice) == 0 }
    }

    /// # Safety
    /// As for [`super::SystemMemory::prefer_huge`].
    pub unsafe fn prefer_huge(start: NonNull<u8>, bytes: usize) -> bool {
        advise(start, bytes, libc::MADV_HUGEPAGE)
    }

    /// # Safety
    /// As for [`super::SystemMemory::collapse`].
    pub unsafe fn collapse(start: NonNull<u8>, bytes: usize) {
        // Before Linux 6.1 there is no such advice: then khugepaged collapses the units later.
        advise(start, bytes, libc::MADV_COLLAPSE);
    }

    /// # Safety
    /// As for [`super::SystemMemory::prefer_small`].
    pub unsafe fn prefer_small(start: NonNull<u8>, bytes: usize) -> bool {
        advise(start, bytes, libc::MADV_NOHUGEPAGE)
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use core::ptr::NonNull;

    pub fn huge_page() -> Option<usize> {
        None
    }

    /// # Safety
    /// None needed: it does nothing.
    pub unsafe fn prefer_huge(_: NonNull<u8>, _: usize) -> bool {
        false
    }

    /// # Safety
    /// None needed: it does nothing.
    pub unsafe fn collapse(_: NonNull<u8>, _: usize) {}

    /// # Safety
    /// None needed: it does nothing.
    pub unsafe fn prefer_small(_: NonNull<u8>, _: usize) -> bool {
        true
    }
}
