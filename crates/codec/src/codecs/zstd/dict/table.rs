//! The dictionaries of the process by their versions, for decoding any form.
//!
//! A version is a number that is assigned once. When a dictionary is removed, its number stays unused: a form
//! that refers to it is refused, and is never read with another dictionary than the one that made it.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::vec::Vec;

use super::dictionary::Dictionary;
use super::form;

struct Table {
    /// In ascending order of their versions.
    there: Vec<Arc<Dictionary>>,
    /// Versions that were removed, in ascending order. Four bytes each are kept for ever, so that no other
    /// dictionary is loaded under such a number while a form still refers to it.
    gone: Vec<u32>,
}

static TABLE: RwLock<Table> = RwLock::new(Table { there: Vec::new(), gone: Vec::new() });

/// The next version; zero when they are used up.
static NEXT: AtomicU32 = AtomicU32::new(form::NONE + 1);

fn read() -> RwLockReadGuard<'static, Table> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

/// A version that was never used.
pub(super) fn next_version() -> Option<u32> {
    let next = |version: u32| (version != 0).then(|| version.wrapping_add(1));
    NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
}

/// The next version, unless another thread takes it.
pub(super) fn likely_next() -> u32 {
    NEXT.load(Ordering::Relaxed)
}

/// Makes a dictionary readable. `false` if its version stands, or stood, for another content.
pub(super) fn add(dictionary: Arc<Dictionary>) -> bool {
    let version = dictionary.version;
    let next = |next: u32| (next != 0 && next <= version).then(|| version.wrapping_add(1));
    // If this dictionary was loaded, new versions start after its own. An error only means that nothing has
    // to change.
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

/// Calls `work` with the dictionary of a version, which stays in the table meanwhile.
pub(super) fn with<R>(version: u32, work: impl FnOnce(&Dictionary) -> R) -> Option<R> {
    let table = read();
    let place = table.there.binary_search_by_key(&version, |there| there.version).ok()?;
    Some(work(&table.there[place]))
}

/// Removes a version. Waits for each thread that is decoding a block with any dictionary, but only for that
/// block.
pub(super) fn remove(version: u32) -> bool {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let Ok(place) = table.there.binary_search_by_key(&version, |there| there.version) else { return false };
    table.there.remove(place);
    if let Err(place) = table.gone.binary_search(&version) {
        table.gone.insert(place, version);
    }
    true
}
