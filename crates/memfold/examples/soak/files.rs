//! Saves and loads heaps, and loads files that were changed.

use memfold::heap::{Error, Handle, Heap, LoadError, Options, SaveError};
use twox_hash::XxHash3_64;

use crate::model::{Model, compare_all};
use crate::random::Random;
use crate::shape::Shape;
use crate::{Counts, count, holds};

/// Bytes of a file before its chunks, and of a chunk before and after its body: see docs/formats/heap.md.
const START: usize = 16;
const BEFORE: usize = 8;
const AFTER: usize = 8;
/// Approximate bytes of changed files per turn, and the most files.
const CHANGED_BYTES: usize = 2 << 20;
const CHANGED: usize = 30;

/// Saves a heap, loads it with other options and compares both with the models. Returns the file and the
/// loaded heap, or `None` if the limit leaves no memory for saving.
pub(crate) fn save_and_load(
    heap: &mut Heap,
    models: &[Model],
    shape: &Shape,
    random: &mut Random,
    counts: &Counts,
) -> Result<Option<(Vec<u8>, Heap)>, String> {
    let root = random.next();
    heap.set_root(root);
    let mut file = vec![];
    match heap.save_to(&mut file) {
        Err(SaveError::Heap(Error::Limit)) if shape.has_limit() => return Ok(None),
        saved => saved.map_err(|error| format!("save: {error}"))?,
    }
    compare_all(heap, models).map_err(|error| format!("{error}, after it was saved"))?;
    let options = shape.other_options(random);
    let mut loaded = Heap::load_from(&file[..], options).map_err(|error| format!("load: {error}"))?;
    holds(loaded.root() == root, || "another root was loaded".into())?;
    let mut again = vec![];
    loaded.save_to(&mut again).map_err(|error| format!("second save: {error}"))?;
    holds(again == file, || "what was loaded is saved as something else".into())?;
    compare_all(&mut loaded, models).map_err(|error| format!("{error}, after it was loaded"))?;
    count(&counts.saved, 1);
    Ok(Some((file, loaded)))
}

/// Changes a file in many ways. A file with wrong checksums must be refused. With corrected checksums, the
/// loaded heap may have wrong contents, but must be sound, and a file that it saves must load.
pub(crate) fn change(
    file: &[u8],
    models: &[Model],
    random: &mut Random,
    counts: &Counts,
) -> Result<(), String> {
    for _ in 0..(CHANGED_BYTES / file.len()).clamp(1, CHANGED) {
        let mut changed = file.to_vec();
        let is_repaired = match random.below(4) {
            0 => {
                changed.truncate(random.below(file.len()));
                false
            }
            which => {
                for _ in 0..1 + random.below(3) {
                    // Half of the changes go to the first 2000 bytes, where there is more than payloads.
                    let most = if random.one_in(2) { file.len() } else { file.len().min(2000) };
                    let at = random.below(most);
                    changed[at] = match random.below(3) {
                        0 => random.next() as u8,
                        1 => changed[at].wrapping_add(1),
                        _ => changed[at] ^ 1 << random.below(8),
                    };
                }
                which > 1 && repair(&mut changed)
            }
        };
        if changed == file {
            continue;
        }
        count(&counts.changed_files, 1);
        let options = Options::new().limit(memfold::heap::Limit::Blocks(4)).paranoid(random.one_in(8));
        match Heap::load_from(&changed[..], options) {
            Ok(loaded) => {
                holds(is_repaired, || "a file with wrong checksums was loaded".into())?;
                count(&counts.changed_files_loaded, 1);
                use_up(loaded, models, random)?;
            }
            Err(LoadError::Io(error)) => return Err(format!("a changed file: {error}")),
            Err(_) => {}
        }
    }
    Ok(())
}

/// Uses a heap whose contents may be wrong: operations may return errors, but must not do anything unsound.
fn use_up(mut heap: Heap, models: &[Model], random: &mut Random) -> Result<(), String> {
    let was_whole = heap.check().is_ok();
    save_what_can_be(&mut heap)?;
    let nodes: Vec<(Handle, usize)> = models
        .iter()
        .flat_map(|model| model.nodes().take(300))
        .map(|(node, bytes)| (node, bytes.len()))
        .collect();
    let mut session = heap.session().map_err(|error| format!("session: {error}"))?;
    for (node, len) in nodes {
        match random.below(6) {
            0 => drop(session.free(node)),
            1 => drop(session.resize(node, 1 + random.below(2 * len))),
            2 => drop(session.write(node).map(|mut guard| guard.fill(1))),
            3 => drop(session.alloc_near(1 + random.below(200), node)),
            _ => drop(session.read(node)),
        }
    }
    for len in [16; 60].into_iter().chain([1, 100, 900, 3000]) {
        let node = session.alloc(len).map_err(|error| format!("alloc in a changed heap: {error}"))?;
        let read = session.read(node);
        holds(read == Ok(vec![0; len]), || format!("a new node in a changed heap: {read:?}"))?;
    }
    drop(session);
    let check = heap.check();
    holds(!was_whole || check.is_ok(), || format!("a changed heap that was whole: {check:?}"))?;
    save_what_can_be(&mut heap)
}

/// Whatever state the heap is in, a file that it saves must load.
fn save_what_can_be(heap: &mut Heap) -> Result<(), String> {
    let mut file = vec![];
    if heap.save_to(&mut file).is_err() {
        return Ok(());
    }
    let loaded = Heap::load_from(&file[..], Options::new());
    loaded.map(drop).map_err(|error| format!("a changed heap was saved, and is refused: {error}"))
}

/// Corrects the checksums, as an attacker would; false if the file is too short to have any.
fn repair(file: &mut [u8]) -> bool {
    let Some(start) = file.get(..START) else { return false };
    let (mut sum, mut at) = (XxHash3_64::oneshot_with_seed(0, start), START);
    while let Some(len) = file.get(at + 4..at + BEFORE) {
        let len = u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
        let Some(chunk) = file.get(at..at + BEFORE + len) else { return true };
        sum = XxHash3_64::oneshot_with_seed(sum, chunk);
        at += BEFORE + len;
        let Some(to) = file.get_mut(at..at + AFTER) else { return true };
        to.copy_from_slice(&sum.to_le_bytes());
        at += AFTER;
    }
    true
}
