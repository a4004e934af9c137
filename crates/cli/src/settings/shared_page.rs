//! The shared page: makes its memory file or segment, and writes the settings into it. Its layout is in
//! `memfold_shared`.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::{Relaxed, Release};

use memfold_args::OnFull;
use memfold_shared::page::{self, Shared};
use memfold_shared::spill::{self as area, Area};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::Settings;
use super::spill::{Spill, random};
use crate::output::failure::Failure;
use crate::sys;

/// `MFD_NOEXEC_SEAL` (Linux 6.3): some machines refuse memory files without it.
const NOEXEC_SEAL: u32 = 8;

/// The shared page, and the file or segment through which others find it.
pub struct SharedPage {
    /// The page itself.
    pub page: &'static Shared,
    /// The spill area that follows it, if there is a spill target.
    pub area: Option<&'static Area>,
    /// The file or segment through which others find it.
    place: PageMemory,
}

/// The kinds of memory for the page.
enum PageMemory {
    /// A memory file; closed at exec.
    File(OwnedFd),
    /// A System V segment, by its number, if the file size limit does not allow a memory file. Other users'
    /// programs cannot open it.
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
            // However this process ends, the segment does not remain. Linux still lets others attach it while
            // any process has it.
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
        page.shown_bytes.store(settings.show, Relaxed);
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
    let key: [u8; 32] = random()?;
    for (word, bytes) in area.key.iter().zip(key.as_chunks::<8>().0) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
    area.patience_ns.store(spill.patience.as_nanos() as u64, Relaxed);
    area.seal.store(if spill.is_encrypted { area::seal::ENCRYPTED } else { area::seal::CHECKED }, Relaxed);
    area.batch_bytes.store(Area::batch_bytes_for(limit) as u32, Relaxed);
    area.next_batch.store(1, Relaxed);
    // A kernel without pid namespaces lacks this file.
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino());
    area.namespace.store(namespace, Relaxed);
    area.server.store(std::process::id(), Relaxed);
    Ok(())
}

/// Whether the size of a memory file can never change.
pub fn is_sealed(file: &impl std::os::fd::AsFd) -> bool {
    fcntl(file, FcntlArg::F_GET_SEALS)
        .is_ok_and(|seals| SealFlag::from_bits_truncate(seals).contains(SealFlag::F_SEAL_SHRINK))
}

/// A memory file, closed at exec, whose descriptor is not one of the standard three.
pub fn memory_file(name: &std::ffi::CStr, wanted: MFdFlags) -> nix::Result<OwnedFd> {
    let always = MFdFlags::MFD_CLOEXEC;
    // A kernel refuses the call if it does not know a flag.
    let known_long = always | wanted & MFdFlags::MFD_ALLOW_SEALING;
    let file = memfd_create(name, always | wanted).or_else(|_| memfd_create(name, known_long))?;
    sys::above_standard(file).map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use memfold_codec::cpu::Path;

    use super::*;
    use crate::settings::Proactive;

    #[test]
    fn the_page_has_the_settings() {
        let settings = Settings {
            limit: 1 << 30,
            fill_ratio: 40,
            on_full: OnFull::Kill,
            flags: 5,
            proactive: Proactive { stall_ppm: 7, idle_ms: 8 },
            cpu: Some(Path::Scalar),
            ..Settings::example()
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
