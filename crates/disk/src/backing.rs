//! The backing device: a tier (a file or block device, an NBD server, Redis) for blobs that are not worth keeping
//! in memory.
//!
//! Blobs are gathered into batches, sealed, and read one by one: see [`memfold_spill`]. The data on the tier
//! are useless without the index in memory, so they are lost when the process ends.

use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use memfold_codec::CodecId;
use memfold_spill::{Health, News, Sealer, Spilled, Target, Terms, Tier, Trouble, run_name};

use crate::index::leaf::Held;
use crate::locked;
use crate::options::{BackingTier, BadOption};

/// How long a thread waits for an unresponsive tier.
const PATIENCE: Duration = Duration::from_secs(60);
/// A batch is this fraction of the limit, clamped to the following bytes.
const PART: u64 = 256;
const LEAST: usize = 64 << 10;
const MOST: usize = 256 << 10;

/// The backing device; see the module.
pub struct Backing {
    /// Set until the tier is started or used. No thread may start earlier, since a server may still become a
    /// daemon.
    unused: Mutex<Option<(Box<dyn Tier>, Sealer)>>,
    spilled: OnceLock<Option<Spilled>>,
    batch_bytes: usize,
    told: fn(&str),
    /// Bytes of blobs on the tier.
    pub bytes: AtomicU64,
    pub written: AtomicU64,
    pub read: AtomicU64,
}

impl Backing {
    /// Opens the tier for a device of `size` bytes and its limit. Without a configured size, a file may grow
    /// to slightly more than the size of the device.
    pub fn open(given: &BackingTier, size: u64, limit: u64, told: fn(&str)) -> Result<Self, BadOption> {
        let bad = |why: String| BadOption::Backing(why);
        let is_device = |path| std::fs::metadata(path).is_ok_and(|it| it.file_type().is_block_device());
        let default = match &given.target {
            Target::File(path) if !is_device(path) => Some(size.saturating_add(size / 16)),
            _ => None,
        };
        let terms = Terms { most: given.size.or(default), told, ..Terms::default() };
        let sealer = Sealer::for_this_run().map_err(|error| bad(format!("cannot create a key: {error}")))?;
        let tier = given.target.open(&run_name(), terms).map_err(|error| bad(error.to_string()))?;
        // From now on a server may become a daemon, which is another process.
        tier.pass_on();
        Ok(Backing {
            unused: Mutex::new(Some((tier, sealer))),
            spilled: OnceLock::new(),
            batch_bytes: ((limit / PART) as usize).clamp(LEAST, MOST),
            told,
            bytes: AtomicU64::new(0),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
        })
    }

    fn spilled(&self) -> Option<&Spilled> {
        let start = || {
            let (tier, sealer) = locked(&self.unused).take()?;
            let (name, told) = (tier.name().to_owned(), self.told);
            let said = Mutex::new(News::default());
            let heed = move |health: &Health| {
                if !locked(&said).is_news(health) {
                    return;
                }
                told(&match health {
                    Health::Open => format!("{name} accepts spilled data again"),
                    Health::Full => format!("{name} is full: nothing more is spilled until there is room"),
                    Health::Away(why) => format!("{name} does not answer: {why}"),
                    Health::Unfit(why) => format!("nothing more is spilled to {name}: {why}"),
                });
            };
            let started = Spilled::new(tier, sealer, self.batch_bytes, PATIENCE, heed);
            let cannot =
                |error: &std::io::Error| told(&format!("nothing is spilled: cannot start a thread: {error}"));
            started.inspect_err(cannot).ok()
        };
        self.spilled.get_or_init(start).as_ref()
    }

    /// Starts watching the tier as soon as threads are allowed, so that an export does not look unused until
    /// the first blob is written.
    pub fn start(&self) {
        let _ = self.spilled();
    }

    /// Whether there may be room for more.
    pub fn is_open(&self) -> bool {
        self.spilled().is_some_and(Spilled::is_open)
    }

    /// Bytes of tables and of batches in flight.
    pub fn memory_bytes(&self) -> u64 {
        let fixed = Spilled::fixed_bytes(self.batch_bytes);
        self.spilled.get().and_then(Option::as_ref).map_or(fixed, Spilled::memory_bytes)
    }

    /// Compressed bytes of blobs on the tier.
    pub fn compressed_bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Bytes in use on the tier.
    pub fn used_bytes(&self) -> u64 {
        self.spilled.get().and_then(Option::as_ref).map_or(0, |spilled| spilled.room().used)
    }

    /// Writes a blob and returns its number on the tier; `None` if there is no room or the tier does not
    /// answer.
    pub fn write(&self, owner: u64, codec: Option<CodecId>, payload: &[u8]) -> Option<u64> {
        let number = self.spilled()?.put(owner, codec.map_or(0, |codec| codec.0), payload).ok()?;
        debug_assert!(number < Held::MOST_NUMBERS);
        self.bytes.fetch_add(payload.len() as u64, Relaxed);
        self.written.fetch_add(1, Relaxed);
        Some(number)
    }

    /// The generation of the blob with this number: numbers are reused.
    pub fn stamp(&self, number: u64) -> Option<u32> {
        self.spilled()?.stamp(number)
    }

    /// Reads a blob: its codec and payload.
    pub fn read<'r>(
        &self,
        owner: u64,
        number: u64,
        room: &'r mut [u8],
    ) -> Result<(Option<CodecId>, &'r [u8]), Trouble> {
        let (tag, payload) = self.spilled().ok_or(Trouble::Lost)?.get(number, owner, room)?;
        self.read.fetch_add(1, Relaxed);
        Ok(((tag != 0).then_some(CodecId(tag)), payload))
    }

    /// Frees the blob with that number.
    pub fn free(&self, number: u64) {
        if let Some(bytes) = self.spilled().and_then(|spilled| spilled.free(number)) {
            self.bytes.fetch_sub(bytes as u64, Relaxed);
        }
    }

    /// Removes everything from a server; nothing is read after this.
    pub fn end(&self) {
        if let Some(spilled) = self.spilled.get().and_then(Option::as_ref) {
            spilled.end();
        }
    }
}
