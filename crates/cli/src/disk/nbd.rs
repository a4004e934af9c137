//! `memfold disk --socket`: runs nbdkit with memfold's plugin.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use memfold_args::DiskArgs;
use nix::fcntl::OFlag;
use nix::libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::output::failure::Failure;
use crate::sys::{self, Fork};

/// The maximum number of bytes of a line that are written at once.
const LINE: u64 = 1 << 16;
/// How many arenas glibc's allocator has at most.
const ARENAS: &str = "MALLOC_ARENA_MAX";
/// File name of the plugin.
const PLUGIN: &str = "nbdkit-memfold-plugin.so";

/// Becomes nbdkit in the foreground.
pub fn serve(args: &DiskArgs, socket: &Path, settings: &[(&str, OsString)]) -> Result<i32, Failure> {
    let plugin = plugin()?;
    let socket = super::absolute(&socket.to_owned());
    clear_way(&socket)?;
    let mut command = Command::new("nbdkit");
    command.arg("--foreground").arg("--unix").arg(&socket).arg(&plugin);
    for (name, value) in settings {
        let mut setting = OsString::from(format!("{name}="));
        setting.push(value);
        command.arg(setting);
    }
    let mut address = OsString::from("address=");
    address.push(&socket);
    command.arg(address);
    if let Some(name) = &args.name {
        command.arg(format!("name={name}"));
    }
    // Further options may follow here, and parameters of filters must.
    command.args(&args.nbdkit);
    // nbdkit has 16 threads for each client. With an arena for each, glibc would keep some 10 MiB of their
    // buffers beside the device's memory.
    if std::env::var_os(ARENAS).is_none() {
        command.env(ARENAS, "1");
    }
    escape_errors();
    let error = command.exec();
    Err(Failure::new(match error.kind() {
        std::io::ErrorKind::NotFound => {
            "nbdkit is missing: install it (Debian: apt-get install nbdkit), or use --mount DIR, which needs only FUSE".into()
        }
        _ => format!("cannot start nbdkit: {error}"),
    }))
}

/// Starts a process that escapes nbdkit's standard error, which contains names that nbdkit was given. The
/// process ends when no writer is left.
fn escape_errors() {
    let Ok((from, to)) = nix::unistd::pipe2(OFlag::O_CLOEXEC) else { return };
    // If standard error is closed, there is nothing to escape.
    if nix::fcntl::fcntl(std::io::stderr(), nix::fcntl::F_GETFD).is_err() {
        return;
    }
    match sys::fork() {
        Ok(Fork::Parent(_)) => drop(nix::unistd::dup2_stderr(to)),
        Ok(Fork::Child) => {
            drop(to);
            // The signals are meant for nbdkit, which may still write messages about them.
            for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
                // SAFETY: ignoring a signal installs no handler, so no code is called.
                unsafe { nix::libc::signal(signal, nix::libc::SIG_IGN) };
            }
            let mut from = BufReader::new(File::from(from));
            let mut line = Vec::new();
            while from.by_ref().take(LINE).read_until(b'\n', &mut line).is_ok_and(|got| got > 0) {
                let text = memfold_escape::text(&line);
                let _ = std::io::stderr().write_all(memfold_escape::lines(&text).as_bytes());
                line.clear();
            }
            std::process::exit(0)
        }
        Err(_) => {}
    }
}

/// Removes a socket that no nbdkit serves: nbdkit leaves its socket behind, and does not start if one exists.
fn clear_way(socket: &Path) -> Result<(), Failure> {
    let Ok(there) = std::fs::symlink_metadata(socket) else { return Ok(()) };
    if !there.file_type().is_socket() {
        return Err(Failure::new(format!(
            "{} exists and is not a socket; name another path",
            memfold_escape::path(socket)
        )));
    }
    match UnixStream::connect(socket) {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => std::fs::remove_file(socket)
            .map_err(|error| {
                Failure::new(format!(
                    "cannot remove the abandoned socket {}: {error}",
                    memfold_escape::path(socket)
                ))
            }),
        _ => Err(Failure::new(format!(
            "another process already serves at {}; name another path",
            memfold_escape::path(socket)
        ))),
    }
}

/// Finds the plugin: as the environment says, beside the executable, or where `make install` puts it.
fn plugin() -> Result<PathBuf, Failure> {
    if let Some(given) = std::env::var_os("MEMFOLD_NBDKIT_PLUGIN") {
        let path = super::absolute(&PathBuf::from(given));
        return match path.is_file() {
            true => Ok(path),
            false => Err(Failure::new(format!(
                "MEMFOLD_NBDKIT_PLUGIN names {}, which is not a file",
                memfold_escape::path(&path)
            ))),
        };
    }
    let executable = std::env::current_exe().ok();
    let beside = executable.as_deref().and_then(Path::parent);
    let places = [beside.map(|it| it.join(PLUGIN)), beside.map(|it| it.join("../lib/memfold").join(PLUGIN))];
    places.into_iter().flatten().find(|path| path.is_file()).ok_or_else(|| {
        Failure::new(format!(
            "{PLUGIN} is neither next to the executable nor in ../lib/memfold, where 'make install' puts it; name it in MEMFOLD_NBDKIT_PLUGIN"
        ))
    })
}
