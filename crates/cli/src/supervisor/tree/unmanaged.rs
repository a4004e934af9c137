//! Finds out why a process of the tree is not managed, as far as `/proc` shows.

use memfold_proc::{field, namespace, process};

use crate::checks::program;

/// The reason of a process that another memfold, which was started inside of this tree, manages.
pub const NESTED: &str = "a memfold run of its own manages it";

/// The reason, as part of a sentence.
pub fn why_not_managed(pid: i32) -> &'static str {
    let by_file =
        process::executable(pid).map_or("its file is not known", |file| program::why_not_managed(&file));
    if by_file != program::WITHOUT_ENVIRONMENT {
        return by_file;
    }
    let filters = |status: Option<String>| field(&status?, "Seccomp_filters:")?.parse::<u32>().ok();
    if filters(process::status(pid)) > filters(process::status("self")) {
        return "started under a seccomp filter";
    }
    let root = format!("/proc/{pid}/root/");
    if std::fs::metadata(&root).is_ok() && std::fs::metadata(format!("{root}proc/self")).is_err() {
        return "there is no /proc in its root directory; mount one there";
    }
    let other_user = process::user(pid).is_some_and(|user| user != nix::unistd::geteuid().as_raw());
    match environment(pid) {
        None if other_user => "runs as another user; start memfold as that user",
        None => by_file,
        Some((None, _)) => by_file,
        Some((Some(page), _)) if is_of_another(&page) => NESTED,
        Some((Some(_), None)) => {
            "LD_PRELOAD was taken out of its environment; leave it there, or start memfold after the program that removes it"
        }
        Some((Some(_), Some(preload))) if !preload.contains("libmemfold_preload") => {
            "LD_PRELOAD was replaced; where it is set, write LD_PRELOAD=LIBRARY:$LD_PRELOAD"
        }
        Some((Some(_), Some(preload))) => {
            let ours =
                preload.split([':', ' ']).find(|entry| entry.contains("libmemfold_preload")).unwrap_or("");
            let path = ours.replace("$PLATFORM/", "");
            match std::fs::symlink_metadata(format!("{root}{path}")) {
                Err(_) => {
                    "memfold's library is not in its root directory; make it visible there (a bind mount)"
                }
                Ok(_) if other_user => {
                    "runs as another user, and memfold cannot be reached from there; start memfold as that user"
                }
                Ok(_) if namespace::are_shared(pid) => {
                    "its LD_PRELOAD names a memfold library of another version; remove that entry, memfold adds its own"
                }
                Ok(_) => "memfold cannot be reached from its namespaces; start memfold inside of them",
            }
        }
    }
}

/// Whether a shared page belongs to another supervisor that runs: its path names the supervisor's process.
fn is_of_another(page: &str) -> bool {
    let number = page.strip_prefix("/proc/").and_then(|rest| rest.split('/').next()?.parse::<u32>().ok());
    let command = |pid: u32| process::executable(pid as i32)?.file_name().map(|name| name.to_owned());
    let own = std::process::id();
    number.is_some_and(|pid| pid != own && command(pid).is_some_and(|name| Some(name) == command(own)))
}

/// The path of the shared page in a process's environment, and its LD_PRELOAD.
fn environment(pid: i32) -> Option<(Option<String>, Option<String>)> {
    let bytes = process::environment(pid)?;
    let value = |name: &str| {
        let mut entries = bytes.split(|byte| *byte == 0);
        let rest = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        rest.map(|rest| String::from_utf8_lossy(rest).into_owned())
    };
    Some((value(memfold_shared::page::ENV_SHARED), value("LD_PRELOAD")))
}
