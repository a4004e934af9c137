//! memfold refuses what cannot work before it starts anything, and names the remedy.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::libc;

use crate::common::{MEMFOLD, compile, file, finish, is_root, run, run_with};

const HELLO: &str = "#include <stdio.h>\nint main(void){puts(\"started\");return 0;}\n";

#[test]
fn limits() {
    for (limit, words) in [
        ("lots", &["'lots'", "not a size", "512M"][..]),
        ("1.5X", &["not a size"]),
        ("-1", &["not a size"]),
        ("0", &["zero"]),
        ("0%", &["zero"]),
        ("101%", &["101%"]),
        ("4096", &["at least 8 MiB"]),
        ("7.9M", &["at least 8 MiB"]),
        ("99999999999999999999999", &["--limit 512M"]),
    ] {
        let option = format!("--limit={limit}");
        finish(run_with(&[&option], &["echo", "started"])).is_refusal(125, words);
    }
    finish(run_with(&["--limit", "-1"], &["echo", "started"]))
        .is_refusal(125, &["'-1'", "not a size", "512M"]);
}

#[test]
fn codecs() {
    let long = ["bitshuffle:8"; 6].join("+");
    for (codec, words) in [
        ("lzx", &["'lzx'", "stride:2", "zstd:LEVEL"][..]),
        ("lz4,xz:6", &["'xz:6'", "memfold bench"]),
        ("shuffle:8+bzip2", &["memfold bench"]),
        ("lz4,zstd,lz4", &["more than two"]),
        (&long, &["63 bytes", "has 77"]),
    ] {
        finish(run_with(&["--limit=1G", "--codec", codec], &["echo", "started"])).is_refusal(125, words);
    }
}

#[test]
fn sizes_that_are_accepted() {
    for limit in ["8M", "1.5G", "1073741824", "50%", "2g", "1GiB"] {
        let said = finish(run_with(&["--limit", limit], &["echo", "started"]));
        assert_eq!((said.status, said.out.as_str()), (0, "started\n"), "{limit}: {}", said.err);
    }
}

#[test]
fn a_static_program() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "hello", HELLO, &["-static"]) else { return };
    finish(run(&[&program])).is_refusal(125, &["statically linked", "dynamically"]);
    let script = file(here.path(), "script", format!("#!{}\n", program.display()), 0o755);
    finish(run(&[&script])).is_refusal(125, &["script", "which runs", "statically linked"]);
    let by_env = file(here.path(), "by-env", "#!/usr/bin/env hello\n", 0o755);
    let mut command = run(&[&by_env]);
    command.env("PATH", format!("{}:/usr/bin:/bin", here.path().display()));
    finish(command).is_refusal(125, &["statically linked"]);
    if let Some(program) = compile(here.path(), "pie", HELLO, &["-static-pie"]) {
        finish(run(&[&program])).is_refusal(125, &["statically linked"]);
    }
}

#[test]
fn a_program_for_another_machine_or_library() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "hello", HELLO, &[]) else { return };
    assert_eq!(finish(run(&[&program])).out, "started\n");
    let bytes = std::fs::read(&program).unwrap();

    let mut small = bytes.clone();
    small[4] = 1;
    small[18..20].copy_from_slice(&3u16.to_le_bytes());
    finish(run(&[file(here.path(), "small", small, 0o755)])).is_refusal(125, &["32-bit x86", "64-bit"]);

    let loader = b"/lib64/ld-linux-x86-64.so.2\0";
    let musl = b"/lib/ld-musl-x86_64.so.1\0\0\0\0";
    if let Some(at) = bytes.windows(loader.len()).position(|w| w == loader) {
        let mut other = bytes.clone();
        other[at..at + loader.len()].copy_from_slice(musl);
        // The path must have the size in the program header, including one zero byte.
        let size = (musl.len() - 3) as u64;
        let header = program_header(&other, 3);
        other[header + 32..header + 40].copy_from_slice(&size.to_le_bytes());
        finish(run(&[file(here.path(), "musl", other, 0o755)])).is_refusal(125, &["musl", "glibc"]);
    }
}

/// Offset of the program header of this type.
fn program_header(elf: &[u8], kind: u32) -> usize {
    let start = usize::from_le_bytes(elf[32..40].try_into().unwrap());
    (0..32).map(|i| start + i * 56).find(|at| elf[*at..at + 4] == kind.to_le_bytes()).unwrap()
}

#[test]
fn a_set_user_id_program() {
    let here = tempfile::tempdir().unwrap();
    let Some(program) = compile(here.path(), "hello", HELLO, &[]) else { return };
    if !is_root() {
        eprintln!("skipped: only root can make a file that belongs to somebody else");
        return;
    }
    std::os::unix::fs::chown(&program, Some(65534), Some(65534)).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    finish(run(&[&program])).is_refusal(125, &["set-user-id", "hello ... memfold run"]);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o2755)).unwrap();
    finish(run(&[&program])).is_refusal(125, &["set-group-id"]);
    // Set-group-id without the group's right to execute does not change the group.
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o2745)).unwrap();
    assert_eq!(finish(run(&[&program])).status, 0);
}

/// The command runs without permission for userfaultfd: as an ordinary user without the device.
#[test]
fn an_ordinary_user() {
    if !is_root() || usable_by_everybody() {
        eprintln!("skipped: needs root, to become somebody who may not use userfaultfd");
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let (memfold, marker) = copy_for_everybody(here.path());
    let mut command = Command::new(memfold);
    command.args(["run", "--limit", "1G", "--", "touch"]).arg(&marker).uid(65534).gid(65534);
    finish(command).is_refusal(125, &["userfaultfd", "for example: ", "/dev/userfaultfd", "doctor"]);
    assert!(!marker.exists());
}

fn usable_by_everybody() -> bool {
    let setting = std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").unwrap_or_default();
    let device = std::fs::metadata("/dev/userfaultfd").map_or(0, |meta| meta.permissions().mode());
    setting.trim() == "1" || device & 0o006 == 0o006
}

/// A copy of the command that every user can run, and a file name that every user can create.
fn copy_for_everybody(directory: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).unwrap();
    let copy = directory.join("memfold");
    std::fs::copy(MEMFOLD, &copy).unwrap();
    (copy, directory.join("started"))
}

/// Seccomp filters that forbid the system call and the device's ioctl.
#[test]
fn a_seccomp_filter() {
    const ALLOW: u32 = 0x7FFF_0000;
    const ERRNO: u32 = 0x0005_0000;
    const KILL: u32 = 0x8000_0000;
    for (call, device, words) in [
        (ERRNO | libc::EPERM as u32, ERRNO | libc::EACCES as u32, &["seccomp"][..]),
        (ERRNO | libc::ENOSYS as u32, ERRNO | libc::EPERM as u32, &["not implemented", "seccomp"]),
        (KILL, KILL, &["seccomp", "SIGSYS"]),
    ] {
        let here = tempfile::tempdir().unwrap();
        let marker = here.path().join("started");
        let mut command = run(&["touch".as_ref(), marker.as_os_str()]);
        filtered(&mut command, call, device);
        finish(command).is_refusal(125, words);
        assert!(!marker.exists());
    }
    // Either of the two ways suffices.
    for (call, device) in [(ALLOW, ERRNO | libc::EPERM as u32), (ERRNO | libc::EPERM as u32, ALLOW)] {
        if !Path::new("/dev/userfaultfd").exists() {
            eprintln!("skipped in part: this kernel has no /dev/userfaultfd");
            continue;
        }
        let mut command = run(&["echo", "started"]);
        filtered(&mut command, call, device);
        let said = finish(command);
        assert_eq!((said.status, said.out.as_str()), (0, "started\n"), "{}", said.err);
    }
}

/// Installs a filter that answers `userfaultfd` with `call`, and USERFAULTFD_IOC_NEW with `device`.
fn filtered(command: &mut Command, call: u32, device: u32) {
    let step = |code: u16, jt: u8, jf: u8, k: u32| libc::sock_filter { code, jt, jf, k };
    let (load, equal, answer) = (0x20, 0x15, 0x06);
    let filter = [
        step(load, 0, 0, 0),
        step(equal, 0, 1, libc::SYS_userfaultfd as u32),
        step(answer, 0, 0, call),
        step(equal, 0, 3, libc::SYS_ioctl as u32),
        step(load, 0, 0, 24),
        step(equal, 0, 1, 0xAA00),
        step(answer, 0, 0, device),
        step(answer, 0, 0, 0x7FFF_0000),
    ];
    let install = move || {
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        nix::sys::prctl::set_no_new_privs()?;
        // SAFETY: the kernel copies the program during the call and writes nothing.
        let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
        nix::errno::Errno::result(done)?;
        Ok(())
    };
    // SAFETY: makes only system calls between fork and exec.
    unsafe { command.pre_exec(install) };
}

#[test]
fn slips_are_recognized() {
    for (words, tip) in [
        (&["rnu", "ls"][..], "'run'"),
        (&["tpo"], "'top'"),
        (&["--limit", "512M", "--", "ls"], "memfold run --limit ..."),
        (&["run", "--proactive", "5", "ls"], "--proactive=5"),
        (&["limit", "600M", "5"], "memfold limit PID SIZE"),
    ] {
        let mut command = Command::new(MEMFOLD);
        command.args(words);
        let said = finish(command);
        assert!(said.status >= 125 && said.err.contains(tip), "{words:?}: {} {}", said.status, said.err);
    }
    let mut unlike = Command::new(MEMFOLD);
    unlike.arg("sudoku");
    let said = finish(unlike);
    assert!(said.status == 125 && !said.err.contains("similar"), "{}", said.err);
}

/// The program has done its work by then, so its own status stays.
#[test]
fn a_file_that_fills_up_is_named() {
    let said = finish(run_with(&["--report", "/dev/full"], &["true"]));
    assert!(said.status == 0 && said.err.contains("could not be written to '/dev/full'"), "{}", said.err);
}

#[test]
fn help_that_cannot_be_written_says_why() {
    for words in [&["--help"][..], &["--version"], &["help", "du"], &["run", "-h"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = std::process::Command::new(MEMFOLD).args(words).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(125) && said.contains("No space left"), "{words:?}: {said}");
    }
}

#[test]
fn files_that_cannot_be_written() {
    let here = tempfile::tempdir().unwrap();
    let marker = here.path().join("started");
    let words = ["touch".as_ref(), marker.as_os_str()];
    for option in ["--stats", "--report"] {
        for bad in [here.path(), Path::new("/no/such/directory/file"), Path::new("/proc/memfold")] {
            let bad = bad.to_str().unwrap();
            finish(run_with(&["--limit", "1G", option, bad], &words)).is_refusal(125, &[option, bad]);
        }
    }
    assert!(!marker.exists());
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
}
