//! Tiers that lose some of what they have, or do not answer for a while.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memfold::spill::{Room, Sealer, Spilled, Target, Terms, Tier, Trouble};

use crate::random::Random;

/// Bytes of a batch.
const BATCH: usize = 160 << 10;

/// The kind of a tier.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Faulty {
    Memory,
    File,
}

/// Makes a tier fail.
pub(crate) enum Handle {
    Memory(Memory),
    /// The path of this process's descriptor of the file, and the file's directory.
    File {
        path: PathBuf,
        _directory: tempfile::TempDir,
    },
}

/// A tier in memory.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    batches: Arc<Mutex<HashMap<u64, Vec<u8>>>>,
    is_away: Arc<AtomicBool>,
}

impl Memory {
    fn batches(&self) -> MutexGuard<'_, HashMap<u64, Vec<u8>>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answers(&self) -> Result<(), Trouble> {
        if self.is_away.load(Relaxed) { Err(Trouble::Away("told to".into())) } else { Ok(()) }
    }
}

impl Tier for Memory {
    fn put(&self, batch: u64, bytes: &[u8]) -> Result<(), Trouble> {
        self.answers()?;
        self.batches().insert(batch, bytes.to_vec());
        Ok(())
    }

    fn get(&self, batch: u64, from: u32, into: &mut [u8]) -> Result<(), Trouble> {
        self.answers()?;
        let batches = self.batches();
        let bytes = batches.get(&batch).and_then(|bytes| bytes.get(from as usize..)?.get(..into.len()));
        into.copy_from_slice(bytes.ok_or(Trouble::Lost)?);
        Ok(())
    }

    fn delete(&self, batches: &[u64]) -> Result<(), Trouble> {
        self.answers()?;
        let mut all = self.batches();
        batches.iter().for_each(|batch| drop(all.remove(batch)));
        Ok(())
    }

    fn probe(&self) -> Result<(), Trouble> {
        self.answers()
    }

    fn room(&self) -> Room {
        Room { used: self.batches().values().map(|bytes| bytes.len() as u64).sum(), most: u64::MAX }
    }

    fn name(&self) -> &str {
        "memory"
    }
}

impl Faulty {
    /// Opens a tier of this kind, and returns the handle that makes it fail.
    pub(crate) fn open(self, random: &mut Random) -> (Spilled, Handle) {
        let sealer = Sealer::for_this_run().expect("the system has random numbers");
        let (tier, handle): (Box<dyn Tier>, _) = match self {
            Faulty::Memory => {
                let memory = Memory::default();
                (Box::new(memory.clone()), Handle::Memory(memory))
            }
            Faulty::File => {
                let directory = tempfile::tempdir().expect("there is a directory for temporary files");
                let target = Target::File(directory.path().to_owned());
                let terms = Terms { most: Some(1 << 30), ..Terms::default() };
                let tier = target.open(&random.next().to_string(), terms).expect("the file can be made");
                let is_it =
                    |path: &PathBuf| fs::read_link(path).is_ok_and(|to| to.starts_with(directory.path()));
                let path = descriptors().into_iter().find(is_it);
                (tier, Handle::File { path: path.expect("the file is open"), _directory: directory })
            }
        };
        let spilled = Spilled::new(tier, sealer, BATCH, Duration::from_millis(5), |_| {});
        (spilled.expect("there may be more threads"), handle)
    }
}

fn descriptors() -> Vec<PathBuf> {
    let all = fs::read_dir("/proc/self/fd").expect("/proc is there");
    all.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

impl Handle {
    /// Damages spilled data: removes, shortens and changes batches in memory; shortens the file, or
    /// overwrites a part of it.
    pub(crate) fn lose(&self, random: &mut Random) {
        match self {
            Handle::Memory(memory) => {
                let mut batches = memory.batches();
                let mut numbers: Vec<u64> = batches.keys().copied().collect();
                numbers.sort_unstable();
                for number in numbers {
                    let Some(bytes) = batches.get_mut(&number) else { continue };
                    let at = random.below(bytes.len().max(1));
                    match random.below(6) {
                        0 => drop(batches.remove(&number)),
                        1 => bytes.truncate(at),
                        2 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
                        _ => {}
                    }
                }
            }
            Handle::File { path, .. } => {
                let file = fs::OpenOptions::new().write(true).open(path).expect("the file is open");
                let len = file.metadata().map_or(0, |known| known.len());
                let part = len / 4096 * random.below(100) as u64 / 100 * 4096;
                if random.one_in(2) {
                    file.set_len(part).expect("the file can be shortened");
                } else if len >= 4096 {
                    file.write_all_at(&[0x55; 4096], part).expect("the file can be written");
                }
            }
        }
    }

    /// Calls `f` while the tier does not answer. A file always answers: then `f` is not called.
    pub(crate) fn away(&self, f: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let Handle::Memory(memory) = self else { return Ok(()) };
        memory.is_away.store(true, Relaxed);
        let done = f();
        memory.is_away.store(false, Relaxed);
        done
    }
}
