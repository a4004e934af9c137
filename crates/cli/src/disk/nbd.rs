//! `memfold disk --socket`: nbdkit, with memfold's plugin.

use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::args::DiskArgs;
use crate::failure::Failure;

/// File name of the plugin.
const PLUGIN: &str = "nbdkit-memfold-plugin.so";

/// Becomes nbdkit, in the foreground.
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
    // Options may stand behind, and parameters of filters must.
    command.args(&args.nbdkit);
    let error = command.exec();
    Err(Failure::new(match error.kind() {
        std::io::ErrorKind::NotFound => {
            "nbdkit is missing: install it (Debian: apt-get install nbdkit), or use --mount DIR, which needs FUSE only".into()
        }
        _ => format!("cannot start nbdkit: {error}"),
    }))
}

/// nbdkit leaves its socket behind, and does not begin where one is.
fn clear_way(socket: &Path) -> Result<(), Failure> {
    let Ok(there) = std::fs::symlink_metadata(socket) else { return Ok(()) };
    if !there.file_type().is_socket() {
        return Err(Failure::new(format!(
            "{} is there and is no socket; name another path",
            socket.display()
        )));
    }
    match UnixStream::connect(socket) {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => std::fs::remove_file(socket)
            .map_err(|error| {
                Failure::new(format!(
                    "cannot remove the socket {} that somebody left: {error}",
                    socket.display()
                ))
            }),
        _ => Err(Failure::new(format!("somebody serves at {} already; name another path", socket.display()))),
    }
}

/// Where the plugin is: as the environment says, beside the executable, where `make install` puts it.
fn plugin() -> Result<PathBuf, Failure> {
    if let Some(given) = std::env::var_os("MEMFOLD_NBDKIT_PLUGIN") {
        let path = super::absolute(&PathBuf::from(given));
        return match path.is_file() {
            true => Ok(path),
            false => {
                Err(Failure::new(format!("MEMFOLD_NBDKIT_PLUGIN names {}, which is no file", path.display())))
            }
        };
    }
    let executable = std::env::current_exe().ok();
    let beside = executable.as_deref().and_then(Path::parent);
    let places = [beside.map(|it| it.join(PLUGIN)), beside.map(|it| it.join("../lib/memfold").join(PLUGIN))];
    places.into_iter().flatten().find(|path| path.is_file()).ok_or_else(|| {
        Failure::new(format!(
            "{PLUGIN} is neither beside the executable nor in ../lib/memfold, where 'make install' puts it; name it in MEMFOLD_NBDKIT_PLUGIN"
        ))
    })
}
