//! Limits of this process (`getrlimit`), and raising the one on descriptors for a while.

use crate::kernel::sys;

/// Number of the limit on private writable memory (`ulimit -d`).
pub const DATA: usize = 2;
/// Number of the limit on descriptors (`ulimit -n`).
pub const DESCRIPTORS: usize = 7;
/// Number of the limit on the address space (`ulimit -v`).
pub const ADDRESS_SPACE: usize = 9;

/// The limit that applies now; `None` if there is none.
pub fn soft(which: usize) -> Option<usize> {
    let [soft, _] = sys::resource_limit(which).ok()?;
    (soft != u64::MAX).then_some(soft as usize)
}

/// How much memory the process may map, if that is limited, in bytes.
pub fn memory() -> Option<usize> {
    [soft(ADDRESS_SPACE), soft(DATA)].into_iter().flatten().min()
}

/// While this lives, more descriptors may be open. Use it only where no other thread of the program runs that
/// could set or test the limit meanwhile.
pub struct MoreDescriptors([u64; 2]);

impl MoreDescriptors {
    /// Allows `count` more, if the hard limit permits.
    pub fn allow(count: u64) -> Option<Self> {
        let before = sys::resource_limit(DESCRIPTORS).ok()?;
        let [soft, hard] = before;
        let more = soft.saturating_add(count).min(hard);
        (more > soft && sys::set_resource_limit(DESCRIPTORS, [more, hard]).is_ok())
            .then_some(MoreDescriptors(before))
    }
}

impl Drop for MoreDescriptors {
    fn drop(&mut self) {
        let _ = sys::set_resource_limit(DESCRIPTORS, self.0);
    }
}
