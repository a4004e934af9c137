//! `memfold disk --mount`: the device as a file.

use std::path::Path;
use std::sync::Arc;

use memfold_disk::fuse::{Mounted, NAME, Unmounter};
use memfold_disk::settings::Settings;
use memfold_disk::status::{About, Server};
use memfold_disk::{Disk, Keeper, swap};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::args::DiskArgs;
use crate::failure::{Failure, say};

/// Serves until the directory is unmounted.
pub fn serve(args: &DiskArgs, directory: &Path, settings: &[(&str, String)]) -> Result<i32, Failure> {
    let mut given = Settings::default();
    for (name, value) in settings {
        given.set(name, value).map_err(|bad| Failure::new(bad.to_string()))?;
    }
    let options = given.options(super::memory()).map_err(|bad| Failure::new(bad.to_string()))?;
    if options.swap {
        // Before anything is taken, and any thread is started.
        swap::prepare_process().map_err(Failure::new)?.iter().for_each(|missing| say(missing));
    }
    let disk = Disk::new(options).map_err(|bad| Failure::new(bad.to_string()))?;
    let disk = Arc::new(disk);
    let directory = super::absolute(&directory.to_owned());
    let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2) * 2;
    let (user, group) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let mut mounted =
        Mounted::new(&disk, &directory, threads, user, group).map_err(|error| cannot(&directory, &error))?;
    let failed = |error: std::io::Error| Failure::new(format!("no thread can be started: {error}"));
    let _keeper = Keeper::start(&disk).map_err(failed)?;
    let file = directory.join(NAME);
    let name = args.name.clone().unwrap_or_else(|| format!("disk-{}", std::process::id()));
    let address = Some(file.display().to_string());
    let _server = Server::start(&disk, About { name, door: "fuse", address })
        .inspect_err(|error| say(&format!("'memfold disk status' will not show this device: {error}")));
    unmount_on_signals(mounted.unmounter(), &directory).map_err(failed)?;
    say(&format!("{} is there", file.display()));
    mounted
        .run()
        .map_err(|error| Failure::new(format!("the device at {} has ended: {error}", file.display())))?;
    Ok(0)
}

fn cannot(directory: &Path, error: &std::io::Error) -> Failure {
    let hint = match error.kind() {
        std::io::ErrorKind::NotFound if directory.is_dir() => {
            "there is no /dev/fuse, or no fusermount3 for who is not root: install fuse3, and give a container --device /dev/fuse"
        }
        std::io::ErrorKind::NotFound => "make the directory first",
        std::io::ErrorKind::PermissionDenied => {
            "mounting needs root, or fusermount3 and a directory of one's own; in a container --device /dev/fuse and --cap-add SYS_ADMIN"
        }
        _ => "'memfold disk --socket PATH' needs no FUSE",
    };
    Failure::new(format!("cannot mount the device at {}: {error}; {hint}", directory.display()))
}

/// SIGTERM, SIGHUP and Ctrl-C unmount, if nobody uses the file: what would be lost is somebody's file system, or swap.
fn unmount_on_signals(mut unmounter: Unmounter, directory: &Path) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let directory = directory.to_owned();
    std::thread::Builder::new().name("memfold-signals".into()).spawn(move || {
        for _ in signals.forever() {
            match unmounter.unmount() {
                Ok(()) => return,
                Err(error) => say(&format!(
                    "{} cannot be unmounted: {error}; end who uses it (umount, swapoff, losetup -d), or 'kill -KILL {}', which loses what it holds",
                    directory.display(),
                    std::process::id()
                )),
            }
        }
    })?;
    Ok(())
}
