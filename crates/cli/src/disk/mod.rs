//! `memfold disk`: a compressed RAM disk for NBD clients or as a file, and the status of running devices.

mod cells;
mod mount;
mod mount_points;
mod nbd;
mod status;

use std::ffi::OsString;
use std::path::PathBuf;

use memfold_args::{DiskArgs, DiskCommand};
use memfold_disk::settings::Settings;
use memfold_proc::memory;
use memfold_spill::Target;

use crate::output::failure::Failure;

/// Runs the command and returns the exit status.
pub fn disk(args: &DiskArgs) -> Result<i32, Failure> {
    if let Some(DiskCommand::Status(args)) = &args.command {
        return status::status(args);
    }
    // No file opened from here on may become a standard descriptor: memfold's messages would go to it, or
    // nbdkit would close it.
    crate::sys::provide_standard_descriptors_for_all()
        .map_err(|error| Failure::new(format!("/dev/null: {error}")))?;
    let settings = settings(args)?;
    match (&args.socket, &args.mount) {
        (Some(socket), None) => nbd::serve(args, socket, &settings),
        (None, Some(directory)) if args.nbdkit.is_empty() => mount::serve(args, directory, &settings),
        (None, Some(_)) => Err(Failure::new("arguments after -- are for nbdkit, which --mount does not use")),
        (Some(_), Some(_)) => {
            Err(Failure::new("a device is accessed in one way only; give --socket or --mount"))
        }
        (None, None) => Err(Failure::new(
            "nothing says how to access the device: give --socket PATH for NBD clients, or --mount DIR for a file DIR/disk",
        )),
    }
}

/// The checked settings as names and values.
fn settings(args: &DiskArgs) -> Result<Vec<(&'static str, OsString)>, Failure> {
    // The serving process may run in another directory.
    let backing = args.backing.as_ref().map(|target| match Target::named(target) {
        Ok(Target::File(path)) => absolute(&path).into_os_string(),
        _ => target.clone(),
    });
    let text = |value: &Option<String>| value.as_ref().map(OsString::from);
    let yes = |given: bool| given.then(|| OsString::from("yes"));
    let given = [
        ("size", text(&args.size)),
        ("limit", text(&args.limit)),
        ("codec", text(&args.codec)),
        ("block", text(&args.block)),
        ("cold", text(&args.cold)),
        ("resident", text(&args.resident)),
        ("share", yes(args.share)),
        ("backing", backing),
        ("backing-size", text(&args.backing_size)),
        ("swap", yes(args.swap)),
    ];
    let mut settings: Vec<(&str, OsString)> =
        given.iter().filter_map(|(name, value)| Some((*name, value.clone()?))).collect();
    let mut checked = Settings::default();
    // In the plugin's message, replaces settings with the command's options.
    let bad = |bad: memfold_disk::settings::BadSetting| {
        let word = |word: &str| match word.split_once('=') {
            Some((name, value)) if given.iter().any(|(known, _)| *known == name) => {
                format!("--{name} {value}")
            }
            _ => word.to_owned(),
        };
        Failure::new(bad.to_string().split(' ').map(word).collect::<Vec<_>>().join(" "))
    };
    for (name, value) in &settings {
        checked.set(name, value).map_err(bad)?;
    }
    let options = checked.options(memory()).map_err(bad)?;
    // A percentage refers to the memory available here, so pass the result in bytes.
    settings.retain(|(name, _)| *name != "limit");
    settings.push(("memory-limit", options.limit.to_string().into()));
    Ok(settings)
}

fn memory() -> u64 {
    memory::usable().unwrap_or(1 << 30)
}

/// The path in a form that does not depend on the current directory.
fn absolute(path: &PathBuf) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.clone())
}
