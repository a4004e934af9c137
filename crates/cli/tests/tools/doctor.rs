//! `memfold doctor`.

use std::process::Command;

use serde_json::Value;

use crate::common::{MEMFOLD, finish};

fn doctor(words: &[&str]) -> Command {
    let mut command = Command::new(MEMFOLD);
    command.arg("doctor").args(words);
    command
}

#[test]
fn text_and_object_say_the_same() {
    let (text, json) = (finish(doctor(&[])), finish(doctor(&["--json"])));
    assert_eq!(text.status, json.status);
    let found: Value = serde_json::from_str(&json.out).unwrap();
    let works = found["works"].as_bool().unwrap();
    assert_eq!(json.status, i32::from(!works));
    assert_eq!(text.out.contains("memfold run works here"), works);
    assert_eq!(found["problems"].as_array().unwrap().is_empty(), works);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(found["kernel"], release.trim());
    assert!(text.out.contains(release.trim()));
    for field in [
        "userfaultfd",
        "referenced_bits",
        "pagemap_scan",
        "physical_bytes",
        "cgroup",
        "max_map_count",
        "seccomp",
    ] {
        assert!(found.get(field).is_some(), "{field}");
    }
    assert!(found["physical_bytes"].as_u64().unwrap() > 1 << 24);
}

#[test]
fn doctor_and_run_agree() {
    let found: Value = serde_json::from_str(&finish(doctor(&["--json"])).out).unwrap();
    let run = finish(crate::common::run(&["true"]));
    assert_eq!(run.status == 0, found["works"].as_bool().unwrap(), "{}", run.err);
}

#[test]
fn as_an_ordinary_user() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if !crate::common::is_root() {
        eprintln!("skipped: only root can become somebody else");
        return;
    }
    let here = tempfile::tempdir().unwrap();
    std::fs::set_permissions(here.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = here.path().join("memfold");
    std::fs::copy(MEMFOLD, &copy).unwrap();
    let mut command = Command::new(copy);
    let cache = here.path().join("cache");
    std::fs::create_dir(&cache).unwrap();
    std::os::unix::fs::chown(&cache, Some(65534), Some(65534)).unwrap();
    command.args(["doctor", "--json"]).uid(65534).gid(65534).env("XDG_CACHE_HOME", &cache);
    let said = finish(command);
    let found: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(found["user"], 65534);
    // The embedded library was written to a place where this user can load it.
    let library = found["preload_library"].as_str().unwrap();
    assert!(library.starts_with(cache.to_str().unwrap()), "{library}");
    if !found["works"].as_bool().unwrap() {
        let remedies = found["problems"][0]["remedies"].as_array().unwrap();
        assert!(!remedies.is_empty());
        for remedy in remedies {
            // Each begins with a command that exists here, unless it is for elsewhere.
            let command = remedy["command"].as_str().unwrap();
            if command.starts_with("outside of ") {
                continue;
            }
            let exists =
                Command::new("sh").args(["-c", "command -v \"${0%% *}\"", command]).output().unwrap();
            assert!(exists.status.success(), "{command}");
        }
        assert_eq!(said.status, 1);
    }
}
