//! Common parts of the tests of the command.
#![allow(dead_code)]

pub mod group;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The command under test.
pub const MEMFOLD: &str = env!("CARGO_BIN_EXE_memfold");

/// `memfold run --limit 1G -- ...`
pub fn run<S: AsRef<OsStr>>(words: &[S]) -> Command {
    run_with(&["--limit", "1G", "--"], words)
}

/// `memfold run OPTIONS ...`
pub fn run_with<S: AsRef<OsStr>>(options: &[&str], words: &[S]) -> Command {
    let mut command = Command::new(MEMFOLD);
    command.arg("run").args(options).args(words).stdin(Stdio::null());
    command
}

/// `memfold run --limit 1G -- sh -c SCRIPT`
pub fn shell(script: &str) -> Command {
    run(&["sh", "-c", script])
}

/// The exit status of a command, and its output as text.
pub struct Said {
    pub status: i32,
    pub out: String,
    pub err: String,
}

/// Runs a command to its end.
pub fn finish(mut command: Command) -> Said {
    loop {
        match command.output() {
            // A concurrent test forked while a copy of a program was being written.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            output => return said(output.unwrap()),
        }
    }
}

pub fn said(output: Output) -> Said {
    Said {
        status: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Said {
    /// Checks that nothing was started: this status, nothing on standard output, and one paragraph of
    /// memfold's that contains these words.
    #[track_caller]
    pub fn is_refusal(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, status, "{}", self.err);
        assert_eq!(self.out, "");
        assert_eq!(self.err.trim_end().lines().count(), 1, "{}", self.err);
        assert!(self.err.starts_with("memfold: "), "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "'{word}' is not in: {}", self.err);
        }
    }

    /// Checks that every line on standard error is memfold's.
    #[track_caller]
    pub fn only_ours_on_stderr(&self) {
        assert!(self.err.lines().all(|line| line.starts_with("memfold: ")), "{}", self.err);
    }
}

/// Compiles a C program; None, with a message, if that is not possible.
pub fn compile(directory: &Path, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let (file, program) = (directory.join(format!("{name}.c")), directory.join(name));
    std::fs::write(&file, source).unwrap();
    let done = Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(&file).args(flags).output();
    match done {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            eprintln!("skipped: cc {flags:?} fails: {}", String::from_utf8_lossy(&output.stderr));
            None
        }
        Err(e) => {
            eprintln!("skipped: no C compiler: {e}");
            None
        }
    }
}

/// A Python of the machine; None, with a message, if there is none.
pub fn python() -> Option<&'static str> {
    let found = ["/usr/bin/python3", "python3"].into_iter().find(|name| {
        Command::new(name).args(["-c", "pass"]).output().is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        eprintln!("skipped: there is no python3");
    }
    found
}

/// A file with these contents and mode.
pub fn file(directory: &Path, name: &str, contents: impl AsRef<[u8]>, mode: u32) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join(name);
    std::fs::write(&path, contents).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Whether the kernel reports forks to a userfaultfd of this process, which requires CAP_SYS_PTRACE.
pub fn may_trace_all() -> bool {
    const SYS_PTRACE: u64 = 1 << 19;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(effective.trim(), 16).unwrap() & SYS_PTRACE != 0
}

/// Reads a statistics file.
pub fn stats(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Waits until a condition is true; fails after twenty seconds.
#[track_caller]
pub fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !is_true() {
        assert!(std::time::Instant::now() < end, "never came: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// A small file system that can be frozen for a while. It is unmounted on drop.
pub struct Medium {
    pub path: PathBuf,
}

impl Medium {
    /// Makes one in a directory; None, with a message, if that is not allowed.
    pub fn new(directory: &Path, bytes: u64) -> Option<Self> {
        let (image, path) = (directory.join("image"), directory.join("medium"));
        std::fs::File::create(&image).and_then(|file| file.set_len(bytes)).unwrap();
        std::fs::create_dir(&path).unwrap();
        let done = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        if done(Command::new("mkfs.ext4").arg("-q").arg(&image))
            && done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&path))
        {
            let medium = Medium { path };
            if medium.freeze() && medium.thaw() {
                return Some(medium);
            }
        }
        eprintln!("skipped: takes root, loop devices, mkfs.ext4 and fsfreeze");
        None
    }

    /// Freezes the file system: writers wait from now on, and cannot be killed meanwhile.
    pub fn freeze(&self) -> bool {
        self.say("--freeze")
    }

    /// Lets writers continue.
    pub fn thaw(&self) -> bool {
        self.say("--unfreeze")
    }

    fn say(&self, what: &str) -> bool {
        let said = Command::new("fsfreeze").arg(what).arg(&self.path).output();
        said.is_ok_and(|output| output.status.success())
    }
}

impl Drop for Medium {
    fn drop(&mut self) {
        self.thaw();
        // Processes with open files there may need a moment to end.
        for _ in 0..200 {
            let done = Command::new("umount").arg(&self.path).output();
            if done.is_ok_and(|output| output.status.success()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// Starts `memfold run` with these options, and keeps its output for [`watched`].
pub fn start(options: &[&str], words: &[&str]) -> Child {
    let mut command = run_with(options, words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// A program that is killed at the end of the test, however that ends.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A lock for tests that depend on timing and must run one at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Descendants of a process that have memory.
fn members(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(one) = all.get(next) {
        let path = format!("/proc/{one}/task/{one}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        next += 1;
    }
    let has_memory = |pid: &u32| {
        let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        statm.split_whitespace().next().is_some_and(|size| size != "0")
    };
    all.into_iter().skip(1).filter(has_memory).collect()
}

/// Private anonymous memory of all descendants of a process in bytes, each page counted once. A process that
/// begins or ends between two reads changes the shares of the others, so everything is read again in that
/// case.
fn resident_below(pid: u32) -> u64 {
    let share = |pid: &u32| {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = rollup.lines().find(|line| line.starts_with("Pss_Anon:"));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024
    };
    let mut least = u64::MAX;
    for _ in 0..20 {
        let before = members(pid);
        let sum = before.iter().map(share).sum();
        if members(pid) == before {
            return sum;
        }
        least = least.min(sum);
    }
    least
}

/// Samples the memory of a started program until it ends. Its output must be "right". Returns the number of
/// samples, the largest sample, and the output.
#[track_caller]
pub fn watched(mut child: Child) -> (usize, u64, Said) {
    let (mut samples, mut peak) = (0, 0);
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(resident_below(child.id()));
        samples += 1;
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let said = said(child.wait_with_output().unwrap());
    assert_eq!((said.status, said.out.as_str()), (0, "right\n"), "{}", said.err);
    (samples, peak, said)
}
