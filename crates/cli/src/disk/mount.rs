//! `memfold disk --mount`: the device as a file.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memfold_args::DiskArgs;
use memfold_disk::fuse::{Mounted, NAME};
use memfold_disk::settings::Settings;
use memfold_disk::status::{About, Server};
use memfold_disk::{Disk, Maintenance, swap};
use memfold_proc::mounts;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::failure::{Failure, say};

/// How long a device is tried to be unmounted before it is said to be in use.
const PATIENCE: Duration = Duration::from_secs(3);

/// Serves until the directory is unmounted.
pub fn serve(args: &DiskArgs, directory: &Path, settings: &[(&str, OsString)]) -> Result<i32, Failure> {
    let directory = super::absolute(&directory.to_owned());
    is_fit(&directory)?;
    let mut given = Settings::default();
    for (name, value) in settings {
        given.set(name, value).map_err(|bad| Failure::new(bad.to_string()))?;
    }
    let mut options = given.options(super::memory()).map_err(|bad| Failure::new(bad.to_string()))?;
    options.told = say;
    if options.swap {
        // This must precede all large allocations and threads.
        swap::prepare_process().map_err(Failure::new)?.iter().for_each(|missing| say(missing));
    }
    let disk = Disk::new(options).map_err(|bad| Failure::new(bad.to_string()))?;
    let disk = Arc::new(disk);
    let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2) * 2;
    let (user, group) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let mounted =
        Mounted::new(&disk, &directory, threads, user, group).map_err(|error| cannot(&directory, &error))?;
    let failed = |error: std::io::Error| Failure::new(format!("cannot start a thread: {error}"));
    let file = directory.join(NAME);
    let name = args.name.clone().unwrap_or_else(|| format!("disk-{}", std::process::id()));
    let address = Some(place_of(&directory).join(NAME));
    let about = About { name, door: "fuse", address };
    let _keeper = Maintenance::start(&disk, &about).map_err(failed)?;
    let _server = Server::start(&disk, about)
        .inspect_err(|error| say(&format!("'memfold disk status' will not show this device: {error}")));
    unmount_on_signals(&directory).map_err(failed)?;
    say(&format!("{} is ready", memfold_escape::path(&file)));
    mounted.run().map_err(|error| {
        Failure::new(format!("the device at {} has ended: {error}", memfold_escape::path(&file)))
    })?;
    Ok(0)
}

fn cannot(directory: &Path, error: &std::io::Error) -> Failure {
    let hint = match error.kind() {
        // The directory existed a moment ago, so something else is missing.
        std::io::ErrorKind::NotFound => {
            "/dev/fuse is missing, or fusermount3, which users other than root need: install fuse3, and give a container --device /dev/fuse"
        }
        std::io::ErrorKind::PermissionDenied => {
            "mounting needs root, or fusermount3 and a directory that you own; in a container, --device /dev/fuse and --cap-add SYS_ADMIN"
        }
        _ => "'memfold disk --socket PATH' needs no FUSE",
    };
    Failure::new(format!("cannot mount the device at {}: {error}; {hint}", memfold_escape::path(directory)))
}

/// Fails if nothing can be mounted there, or if a device, running or ended, is mounted there already, because
/// a new mount would hide the old one. Refuses a file, too: the kernel would mount a directory over it, and
/// that could not be entered.
fn is_fit(directory: &Path) -> Result<(), Failure> {
    let shown = memfold_escape::path(directory);
    let found = std::fs::metadata(directory);
    if found.as_ref().is_err_and(|error| error.raw_os_error() == Some(nix::libc::ENOTCONN)) {
        return Err(Failure::new(format!("the device at {shown} has ended; run 'umount {shown}' first")));
    }
    if matches!(top_mount(directory), Some((_, true))) {
        return Err(Failure::new(format!(
            "a device is already mounted at {shown}; name another directory, or run 'umount {shown}' first"
        )));
    }
    match found {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Failure::new(format!(
            "--mount {shown}: not a directory; name one, in which the device will be the file '{NAME}'"
        ))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Failure::new(format!("--mount {shown}: there is no such directory; create it first")))
        }
        Err(error) => Err(Failure::new(format!("--mount {shown}: {error}"))),
    }
}

/// The kernel's path of a directory, if its parents exist. The directory itself is not accessed, because it
/// may belong to a file system that is not served yet.
fn place_of(directory: &Path) -> PathBuf {
    let parent = directory.parent().and_then(|parent| std::fs::canonicalize(parent).ok());
    match (parent, directory.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => directory.to_owned(),
    }
}

/// The topmost mount at a directory: its device number, and whether it is one of memfold's. The answer comes
/// from the kernel alone, because the mounted file system may not respond.
fn top_mount(directory: &Path) -> Option<(Vec<u8>, bool)> {
    let place = place_of(directory);
    let mount = mounts::all().into_iter().rfind(|mount| mount.place == place.as_os_str().as_bytes())?;
    let is_ours = mount.kind.starts_with(b"fuse") && mount.source == b"memfold";
    Some((mount.device, is_ours))
}

/// Makes SIGTERM, SIGHUP and Ctrl-C unmount the device if nothing uses it. If the process ended instead, a
/// file system or swap space would be lost.
fn unmount_on_signals(directory: &Path) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let own = top_mount(directory);
    let directory = directory.to_owned();
    std::thread::Builder::new().name("memfold-signals".into()).spawn(move || {
        for _ in signals.forever() {
            let unmounted = if top_mount(&directory) == own {
                unmount(&directory)
            } else {
                Err("something else is mounted over it; unmount that first".to_owned())
            };
            match unmounted {
                Ok(()) => return,
                Err(error) => say(&format!(
                    "{} cannot be unmounted: {error}; stop what uses it (umount, swapoff, losetup -d), then \
                     end this process again ('kill {pid}'): it does not retry by itself. 'kill -KILL {pid}' \
                     loses its data",
                    memfold_escape::path(&directory),
                    pid = std::process::id()
                )),
            }
        }
    })?;
    Ok(())
}

/// Unmounts the device. What used it may need a moment to let go: the kernel detaches a loop device only after
/// `losetup -d` has returned, if something else looks at it.
fn unmount(directory: &Path) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        match unmount_once(directory) {
            Err(_) if begin.elapsed() < PATIENCE => std::thread::sleep(PATIENCE / 50),
            result => return result,
        }
    }
}

/// The FUSE crate's own function works only once: after a refusal it reports success.
fn unmount_once(directory: &Path) -> Result<(), String> {
    if nix::unistd::geteuid().is_root() {
        return nix::mount::umount(directory).map_err(|error| error.to_string());
    }
    let done = Command::new("fusermount3").arg("-u").arg("--").arg(directory).output();
    match done {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(memfold_escape::text(&done.stderr).trim().to_owned()),
        Err(error) => Err(format!("fusermount3: {error}")),
    }
}
