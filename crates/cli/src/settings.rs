//! The user's settings, checked, and the shared page that passes them on to the processes of the tree.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::{Relaxed, Release};

use memfold_codec::cpu::Path;
use memfold_shared::page::{self, Shared};
use memfold_shared::spill::{self as area, Area};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::args::{OnFull, RunArgs};
use crate::cgroup;
use crate::codecs::{self, Codecs};
use crate::failure::{Failure, say};
use crate::size::{self, Human, Size};
use crate::spill::{self, Spill};
use crate::sys;

/// `MFD_NOEXEC_SEAL` (Linux 6.3): some machines refuse memory files without it.
const NOEXEC_SEAL: u32 = 8;

/// Checked options.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The limit in bytes.
    pub limit: u64,
    /// Codecs.
    pub codecs: Codecs,
    /// Fill ratio in 1/64.
    pub fill_ratio: u32,
    /// What to do when the limit cannot be held.
    pub on_full: OnFull,
    /// Bits of `page::flags`.
    pub flags: u32,
    /// Eviction although there is room.
    pub proactive: Proactive,
    /// Where data that do not fit go.
    pub spill: Option<Spill>,
    /// The instructions for codecs to use, if not the fastest.
    pub cpu: Option<Path>,
}

/// How memory is evicted although there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Proactive {
    /// The share of time in which a thread may wait, in millionths; 0: nothing is evicted this way.
    pub stall_ppm: u32,
    /// How long memory must be untouched, ms; 0: as much as that share allows.
    pub idle_ms: u32,
}

/// The value of `--limit` that is not a size.
pub const AUTO: &str = "auto";
/// The share if `--stall` is not given.
pub const STALL_PPM: u32 = 10_000;

impl Settings {
    /// Checks the options.
    pub fn new(args: &RunArgs) -> Result<Self, Failure> {
        let mut flags = 0;
        for (wanted, bit) in [
            (args.paranoid, page::flags::PARANOID),
            (args.no_reserve, page::flags::NO_RESERVE),
            (args.report.is_some(), page::flags::REPORT),
        ] {
            flags |= if wanted { bit } else { 0 };
        }
        Ok(Self {
            limit: match args.limit.as_deref() {
                None if args.proactive.is_some() => most(None)?,
                text => limit(text)?,
            },
            proactive: proactive(args)?,
            codecs: codecs::parse(&args.codec)?,
            fill_ratio: fill_ratio(&args.fill_ratio)?,
            on_full: args.on_full,
            flags,
            spill: Spill::new(args)?,
            cpu: crate::cpu::from_environment()?,
        })
    }
}

/// The fraction of the machine's memory, or the cgroup's, that is left to others if the user gave no limit.
const SPARE: u64 = 16;

/// The limit if only idle memory is to be compressed.
fn most(whose: Option<i32>) -> Result<u64, Failure> {
    let memory = cgroup::memory_that_counts_for(whose).ok_or_else(|| {
        Failure::new(
            "/proc/meminfo does not say how much memory there is; give a size, for example --limit 512M",
        )
    })?;
    Ok((memory - memory / SPARE).max(page::SMALLEST_LIMIT))
}

fn proactive(args: &RunArgs) -> Result<Proactive, Failure> {
    let stall_ppm = stall(&args.stall)?;
    let is_auto = args.limit.as_deref() == Some(AUTO);
    let idle_ms = match args.proactive {
        None => 0,
        Some(_) if is_auto => {
            return Err(Failure::new(
                "--limit auto and --proactive cannot be combined; use --limit auto to compress as much as the program tolerates, or --proactive to compress what was not touched for a set time",
            ));
        }
        Some(seconds) if (0.1..=1e6).contains(&seconds) => (seconds * 1000.0) as u32,
        Some(seconds) => {
            return Err(Failure::new(format!(
                "--proactive={seconds} is not a time from 0.1 to 1000000 seconds; give one like --proactive=30"
            )));
        }
    };
    let wanted = is_auto || args.proactive.is_some();
    if !wanted && stall_ppm != STALL_PPM {
        return Err(Failure::new(
            "--stall says how long threads may wait for memory that is evicted although there is room; give --limit auto or --proactive with it",
        ));
    }
    Ok(Proactive { stall_ppm: if wanted { stall_ppm } else { 0 }, idle_ms })
}

/// `1%`, or `0.01`; stored in millionths.
fn stall(text: &str) -> Result<u32, Failure> {
    let parsed = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match parsed {
        Ok(share) if (1e-4..=0.5).contains(&share) => Ok((share * 1e6).round() as u32),
        _ => Err(Failure::new(format!(
            "the share '{text}' is not between 0.01% and 50%; give one like --stall 1%"
        ))),
    }
}

/// How to write a limit where it is not an option.
pub const HOW: &str = "give a size like 512M, 1.5G, a bare number of bytes, or 50%, or auto";

/// The limit of `memfold run`, with a warning if something may prevent it from being held.
fn limit(text: Option<&str>) -> Result<u64, Failure> {
    const HOW: &str =
        "give a size like --limit 512M, --limit 1.5G, a bare number of bytes, --limit 50%, or --limit auto";
    let Some(text) = text else {
        return Err(Failure::new(format!("no limit is given; {HOW}")));
    };
    let limit = read_limit(text, HOW, None)?;
    limit.warning.iter().for_each(|warning| say(warning));
    Ok(limit.bytes)
}

/// A limit that can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// In bytes.
    pub bytes: u64,
    /// Only as much as the programs need is kept resident, even if there is room.
    pub is_auto: bool,
    /// What may prevent it from being held.
    pub warning: Option<String>,
}

/// Reads a limit; `how` explains the syntax for the error message. Percentages refer to the memory available
/// to process `whose`, or to this one.
pub fn read_limit(text: &str, how: &str, whose: Option<i32>) -> Result<Limit, Failure> {
    if text.trim() == AUTO {
        return Ok(Limit { bytes: most(whose)?, is_auto: true, warning: None });
    }
    let size = size::parse(text).map_err(|why| Failure::new(format!("the limit '{text}' {why}; {how}")))?;
    let memory = match cgroup::memory_that_counts_for(whose) {
        Some(memory) => memory,
        None if matches!(size, Size::Bytes(_)) => u64::MAX,
        None => {
            return Err(Failure::new(format!(
                "the limit '{text}' is a share of the machine's memory, and /proc/meminfo does not say how much there is; give it in bytes, for example 512M"
            )));
        }
    };
    let bytes = size.of(memory);
    if bytes < page::SMALLEST_LIMIT {
        return Err(Failure::new(format!(
            "the limit '{text}' ({}) is less than memfold itself needs to work; give at least {}",
            Human(bytes),
            Human(page::SMALLEST_LIMIT)
        )));
    }
    if bytes > page::LARGEST_LIMIT {
        return Err(Failure::new(format!("the limit '{text}' is more than any machine has; {how}")));
    }
    let warning = (bytes > memory).then(|| {
        format!(
            "the limit of {} exceeds the {} that this machine or cgroup has: the program may be killed before it reaches the limit",
            Human(bytes),
            Human(memory)
        )
    });
    Ok(Limit { bytes, is_auto: false, warning })
}

/// `56/64`, or any fraction; stored in 1/64.
fn fill_ratio(text: &str) -> Result<u32, Failure> {
    let parsed = text.split_once('/').and_then(|(above, below)| {
        let (above, below) = (above.trim().parse::<u32>().ok()?, below.trim().parse::<u32>().ok()?);
        let ratio = (u64::from(above) * 64).checked_div(u64::from(below))?;
        (1..=64).contains(&ratio).then_some(ratio as u32)
    });
    parsed.ok_or_else(|| {
        Failure::new(format!(
            "the fill ratio '{text}' is not a fraction from 1/64 to 64/64; give one like --fill-ratio 56/64"
        ))
    })
}

/// The shared page, and the descriptor through which others find it.
pub struct SharedPage {
    /// The page itself.
    pub page: &'static Shared,
    /// The area that follows it if there is a spill target.
    pub area: Option<&'static Area>,
    /// Where others find it.
    place: PageMemory,
}

/// The kind of memory that the page is.
enum PageMemory {
    /// A memory file; closed at exec.
    File(OwnedFd),
    /// A System V segment, by its number, where the file size limit does not allow a memory file. Other
    /// users' programs cannot open it.
    Segment(i32),
}

impl PageMemory {
    fn make(bytes: usize) -> nix::Result<Self> {
        let flags = MFdFlags::from_bits_retain(NOEXEC_SEAL) | MFdFlags::MFD_ALLOW_SEALING;
        let file = memory_file(c"memfold-shared", flags)?;
        match nix::unistd::ftruncate(&file, bytes as i64) {
            Err(Errno::EFBIG) => return Ok(Self::Segment(sys::make_segment(bytes)?)),
            other => other?,
        }
        // A process that reads the page must not crash because another process has truncated it.
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        Ok(Self::File(file))
    }

    fn map<T: 'static>(&self) -> nix::Result<&'static T> {
        match self {
            Self::File(file) => sys::map_shared(file),
            Self::Segment(number) => sys::attach_segment(*number),
        }
    }
}

impl SharedPage {
    /// Makes the page and writes the settings into it.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        let failed = |e: Errno| {
            Failure::new(format!("cannot create the page that is shared with the program: {}", e.desc()))
        };
        let bytes = if settings.spill.is_some() { size_of::<area::File>() } else { Shared::BYTES };
        let place = PageMemory::make(bytes).map_err(failed)?;
        let page = place.map();
        if let PageMemory::Segment(number) = place {
            // Nothing is left behind, however this process ends. Linux still lets others attach the segment
            // while any process has it.
            sys::disown_segment(number);
        }
        let page: &Shared = page.map_err(failed)?;
        page.version.store(page::VERSION, Relaxed);
        page.flags.store(settings.flags, Relaxed);
        page.limit_bytes.store(settings.limit, Relaxed);
        page.on_full.store(
            match settings.on_full {
                OnFull::Grow => page::on_full::GROW,
                OnFull::Kill => page::on_full::KILL,
            },
            Relaxed,
        );
        page.supervisor.store(std::process::id(), Relaxed);
        page.stall_ppm.store(settings.proactive.stall_ppm, Relaxed);
        page.idle_ms.store(settings.proactive.idle_ms, Relaxed);
        page.fill_ratio.store(settings.fill_ratio, Relaxed);
        page::store_text(&page.codec_fast, &settings.codecs.fast);
        page::store_text(&page.codec_dense, settings.codecs.dense.as_deref().unwrap_or(""));
        page.cpu_path.store(settings.cpu.map_or(0, |path| path as u64), Relaxed);
        if let Some(trail) = page.trail() {
            trail.provide();
        }
        let area = match &settings.spill {
            Some(spill) => {
                let whole: &area::File = place.map().map_err(failed)?;
                prepare(&whole.area.0, spill, settings.limit)?;
                Some(&whole.area.0)
            }
            None => None,
        };
        page.magic.store(page::MAGIC, Release);
        Ok(Self { page, area, place })
    }

    /// Its descriptor, if it has one.
    pub fn descriptor(&self) -> Option<RawFd> {
        match &self.place {
            PageMemory::File(file) => Some(file.as_raw_fd()),
            PageMemory::Segment(_) => None,
        }
    }

    /// Another descriptor of it, if it has one.
    pub fn file(&self) -> Option<OwnedFd> {
        self.descriptor().and_then(|fd| sys::duplicate(fd).ok())
    }

    /// The value for the environment variable.
    pub fn path(&self) -> String {
        match &self.place {
            PageMemory::File(file) => format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()),
            PageMemory::Segment(number) => format!("{}{number}", page::SEGMENT),
        }
    }
}

fn prepare(area: &Area, spill: &Spill, limit: u64) -> Result<(), Failure> {
    let key: [u8; 32] = spill::random()?;
    for (word, bytes) in area.key.iter().zip(key.as_chunks::<8>().0) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
    area.patience_ns.store(spill.patience.as_nanos() as u64, Relaxed);
    area.seal.store(if spill.is_encrypted { area::seal::ENCRYPTED } else { area::seal::CHECKED }, Relaxed);
    area.batch_bytes.store(Area::batch_bytes_for(limit) as u32, Relaxed);
    area.next_batch.store(1, Relaxed);
    // A kernel without such namespaces does not have this file.
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino());
    area.namespace.store(namespace, Relaxed);
    area.server.store(std::process::id(), Relaxed);
    Ok(())
}

/// Whether a memory file keeps its size for ever.
pub fn is_sealed(file: &impl std::os::fd::AsFd) -> bool {
    fcntl(file, FcntlArg::F_GET_SEALS)
        .is_ok_and(|seals| SealFlag::from_bits_truncate(seals).contains(SealFlag::F_SEAL_SHRINK))
}

/// A memory file, closed at exec, whose descriptor is not one of the standard three.
pub fn memory_file(name: &std::ffi::CStr, wanted: MFdFlags) -> nix::Result<OwnedFd> {
    let always = MFdFlags::MFD_CLOEXEC;
    // Kernels refuse the call if they do not know a flag.
    let known_long = always | wanted & MFdFlags::MFD_ALLOW_SEALING;
    let file = memfd_create(name, always | wanted).or_else(|_| memfd_create(name, known_long))?;
    sys::above_standard(file).map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FAILED;

    #[test]
    fn limits_that_are_refused() {
        for (text, word) in [
            (None, "no limit"),
            (Some("lots"), "not a size"),
            (Some("0"), "zero"),
            (Some("0%"), "zero"),
            (Some("7M"), "at least 8 MiB"),
            (Some("120%"), "is too large"),
            (Some("10E"), "more than any machine"),
            (Some("1152921504606846977"), "more than any machine"),
        ] {
            let failure = limit(text).unwrap_err();
            assert_eq!(failure.status, FAILED);
            assert!(failure.text.contains(word), "{failure}");
        }
        assert_eq!(limit(Some("8M")), Ok(8 << 20));
        assert_eq!(limit(Some("50%")), Ok(cgroup::memory_that_counts().unwrap() / 2));
    }

    #[test]
    fn shares_of_time() {
        assert_eq!((stall("1%"), stall("0.05"), stall("0.01 %")), (Ok(10_000), Ok(50_000), Ok(100)));
        let default = <crate::args::Cli as clap::Parser>::try_parse_from(["memfold", "run", "true"]).unwrap();
        let crate::args::Command::Run(default) = default.command else { panic!() };
        assert_eq!(stall(&default.stall), Ok(STALL_PPM));
        for bad in ["", "1", "%", "0%", "0.001%", "51%", "-1%", "much", "NaN"] {
            assert!(stall(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ratios() {
        assert_eq!(fill_ratio("56/64"), Ok(56));
        assert_eq!(fill_ratio("7/8"), Ok(56));
        assert_eq!(fill_ratio("1/1"), Ok(64));
        for bad in ["", "56", "0/64", "65/64", "1/0", "1/65", "-1/2", "a/b", "4294967295/1"] {
            assert!(fill_ratio(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_page_says_what_was_set() {
        let codecs = codecs::parse("lz4,zstd:1").unwrap();
        let settings = Settings {
            limit: 1 << 30,
            codecs,
            fill_ratio: 40,
            on_full: OnFull::Kill,
            flags: 5,
            proactive: Proactive { stall_ppm: 7, idle_ms: 8 },
            spill: None,
            cpu: Some(Path::Scalar),
        };
        let shared = SharedPage::new(&settings).unwrap();
        let again = std::fs::OpenOptions::new().read(true).write(true).open(shared.path()).unwrap();
        assert!(is_sealed(&again) && again.set_len(0).is_err());
        let page: &Shared = sys::map_shared(&again.into()).unwrap();
        assert!(page.is_valid());
        assert_eq!(page.limit_bytes.load(Relaxed), 1 << 30);
        assert_eq!(page.on_full.load(Relaxed), page::on_full::KILL);
        assert_eq!(page.flags.load(Relaxed), 5);
        assert_eq!(page.fill_ratio.load(Relaxed), 40);
        assert_eq!((page.stall_ppm.load(Relaxed), page.idle_ms.load(Relaxed)), (7, 8));
        assert_eq!(page.cpu_path.load(Relaxed), Path::Scalar as u64);
        let mut text = [0; 64];
        assert_eq!(page::load_text(&page.codec_dense, &mut text), "zstd:1");
    }
}
