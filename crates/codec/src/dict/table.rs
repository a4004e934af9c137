//! The dictionaries of the process by their versions, so that a form can be read by whoever has it.
//!
//! A version is a number that is given once. When a dictionary is gone its number stays unused: a form that refers to it
//! is refused, and can never be read with another dictionary than the one that made it.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::vec::Vec;

use super::dictionary::Dictionary;
use super::form;

struct Table {
    /// In ascending order of their versions.
    there: Vec<Arc<Dictionary>>,
    /// Versions that were taken out, in ascending order. Four bytes each are kept for ever, so that nobody loads another
    /// dictionary under such a number while somebody still has a form that refers to it.
    gone: Vec<u32>,
}

static TABLE: RwLock<Table> = RwLock::new(Table { there: Vec::new(), gone: Vec::new() });

/// The next version; zero when there are no more.
static NEXT: AtomicU32 = AtomicU32::new(form::NONE + 1);

fn read() -> RwLockReadGuard<'static, Table> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

/// A version that nobody has had.
pub(super) fn next_version() -> Option<u32> {
    let next = |version: u32| (version != 0).then(|| version.wrapping_add(1));
    NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
}

/// The version that comes next if nobody else takes it.
pub(super) fn likely_next() -> u32 {
    NEXT.load(Ordering::Relaxed)
}

/// Makes a dictionary readable for everybody. `false` if its version stands, or stood, for another content.
pub(super) fn add(dictionary: Arc<Dictionary>) -> bool {
    let version = dictionary.version;
    let next = |next: u32| (next != 0 && next <= version).then(|| version.wrapping_add(1));
    // Should there be a loaded one, later ones come behind it. It does no harm if nothing is to be changed.
    let _ = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    match table.there.binary_search_by_key(&version, |there| there.version) {
        Ok(place) => table.there[place].content() == dictionary.content(),
        Err(_) if table.gone.binary_search(&version).is_ok() => false,
        Err(place) => {
            table.there.insert(place, dictionary);
            true
        }
    }
}

/// Calls `work` with the dictionary of a version, which stays there as long as that takes.
pub(super) fn with<R>(version: u32, work: impl FnOnce(&Dictionary) -> R) -> Option<R> {
    let table = read();
    let place = table.there.binary_search_by_key(&version, |there| there.version).ok()?;
    Some(work(&table.there[place]))
}

/// Takes a version out. Waits for those who read a block with any dictionary just now, but for no more than that block.
pub(super) fn remove(version: u32) -> bool {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let Ok(place) = table.there.binary_search_by_key(&version, |there| there.version) else { return false };
    table.there.remove(place);
    if let Err(place) = table.gone.binary_search(&version) {
        table.gone.insert(place, version);
    }
    true
}
