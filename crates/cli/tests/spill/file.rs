//! Files and block devices as spill targets: foreign bytes in them are never accepted as data, and unsuitable
//! targets are refused.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::table::Table;
use super::{LIMIT, MIB, alone, check, directory, is_ended_with, on_file};
use crate::common::{finish, run_with, until};

/// The supervisor's unnamed spill file, opened through `/proc`. The unnamed file for the statistics is still
/// empty, so the first file with data is the spill file.
fn file_of(table: &Table, at: &Path) -> File {
    let fds = std::fs::read_dir(format!("/proc/{}/fd", table.child.id())).unwrap();
    let mut paths = fds.map(|fd| fd.unwrap().path());
    let is_it = |path: &PathBuf| {
        std::fs::read_link(path)
            .is_ok_and(|to| to.starts_with(at) && to.to_string_lossy().ends_with("(deleted)"))
            && std::fs::metadata(path).is_ok_and(|it| it.len() > 0)
    };
    let path = paths.find(is_it).expect("the supervisor has the file open");
    File::options().write(true).open(path).unwrap()
}

/// Whether files in this directory can be read with direct I/O.
pub fn has_direct(at: &Path) -> bool {
    let flags = nix::libc::O_TMPFILE | nix::libc::O_DIRECT;
    File::options().read(true).write(true).custom_flags(flags).open(at).is_ok()
}

#[test]
fn foreign_bytes_in_the_file_are_detected() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "150", "64") else { return };
    table.asked("touch 100");
    let file = file_of(&table, at.path());
    let bytes = file.metadata().unwrap().len();
    let same = vec![0x55; 1 << 20];
    for begin in (0..bytes).step_by(same.len()) {
        file.write_all_at(&same[..same.len().min((bytes - begin) as usize)], begin).unwrap();
    }
    is_ended_with(table, &["returned other data"]);
}

#[test]
fn pages_missing_from_the_file_end_the_program() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "150", "64") else { return };
    table.asked("touch 100");
    file_of(&table, at.path()).set_len(0).unwrap();
    // Later writes leave a hole at the beginning, which reads as zeros.
    is_ended_with(table, &["no longer has it", "returned other data"]);
}

/// A process reads its spilled pages from a file directly, with or without a supervisor.
#[test]
fn a_file_is_read_without_the_supervisor() {
    let _alone = alone();
    let at = directory();
    if !has_direct(at.path()) {
        return;
    }
    let Some(mut table) = on_file(at.path(), &LIMIT, "150", "64") else { return };
    table.asked("touch 100");
    table.child.kill().unwrap();
    // Do not use `wait`, which closes the program's input.
    until("the supervisor is gone", || table.child.try_wait().unwrap().is_some());
    table.asked("look");
}

/// A loop device, which is detached on drop.
struct Loop(String);

impl Loop {
    fn of(file: &Path, options: &[&str]) -> Option<Self> {
        let made = Command::new("losetup").args(["--find", "--show"]).args(options).arg(file).output();
        let made = made.ok().filter(|made| made.status.success())?;
        Some(Loop(String::from_utf8_lossy(&made.stdout).trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_block_device_is_spilled_to_unless_it_is_read_only() {
    let _alone = alone();
    let at = directory();
    let file = at.path().join("medium");
    File::create(&file).and_then(|file| file.set_len(200 << 20)).unwrap();
    let [Some(device), Some(read_only)] = [&[][..], &["--read-only"]].map(|options| Loop::of(&file, options))
    else {
        return eprintln!("skipped: needs root and loop devices");
    };
    let options = ["--limit", "64M", "--spill", &read_only.0];
    finish(run_with(&options, &["--", "true"])).is_refusal(125, &[&read_only.0, "read-only"]);
    let Some(mut table) = Table::start(at.path(), &device.0, &LIMIT, "150", "64") else { return };
    table.asked("touch 5000");
    table.asked("look");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
    check(at.path(), 64 * MIB, 60 * MIB);
}

#[test]
fn unsuitable_targets_are_refused() {
    let refused = |options: &[&str], words: &[&str]| {
        let mut all = vec!["--limit", "64M"];
        all.extend(options);
        finish(run_with(&all, &["--", "true"])).is_refusal(125, words);
    };
    refused(&["--spill", ""], &["--spill", "the target is empty"]);
    refused(&["--spill", "/nowhere/at/all"], &["/nowhere/at"]);
    refused(&["--spill", "file://"], &["--spill", "the target is empty"]);
    refused(&["--spill", "/dev/shm"], &["memory"]);
    let at = directory();
    let link = at.path().join("link");
    std::os::unix::fs::symlink("/nowhere/at/all", &link).unwrap();
    refused(&["--spill", link.to_str().unwrap()], &["dangling symbolic link"]);
    refused(&["--spill", "http://h"], &["no tier for http"]);
    refused(&["--spill", "redis://127.0.0.1:1"], &["127.0.0.1:1"]);
    refused(&["--spill", ".", "--spill-limit", "50%"], &["--spill-limit", "20G"]);
    for patience in ["-1", "0"] {
        refused(&["--spill", ".", "--spill-patience", patience], &["--spill-patience"]);
    }
    refused(&["--spill-limit", "1G"], &["--spill TARGET"]);
}
