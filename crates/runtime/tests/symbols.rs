//! The preload library touches the program through its symbols: those that it defines precede the C
//! library's, and those that it needs come from the program. Both lists are recorded here, so that neither
//! grows unnoticed.
//!
//! `MEMFOLD_TEST_LIBRARY` names the library to examine; otherwise one is built.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const DEFINED: &[&str] = &[
    "_Fork",
    "__clone",
    "__open64_2",
    "__open_2",
    "__openat64_2",
    "__openat_2",
    "aligned_alloc",
    "brk",
    "calloc",
    "clone",
    "fcntl",
    "fcntl64",
    "fopen",
    "fopen64",
    "fork",
    "freopen",
    "freopen64",
    "get_avphys_pages",
    "get_phys_pages",
    "initgroups",
    "ioctl",
    "madvise",
    "malloc",
    "memalign",
    "mlock",
    "mlock2",
    "mlockall",
    "mmap",
    "mmap64",
    "mprotect",
    "mremap",
    "munlock",
    "munmap",
    "open",
    "posix_memalign",
    "posix_spawn",
    "posix_spawnp",
    "open64",
    "openat",
    "openat64",
    "prctl",
    "prlimit",
    "prlimit64",
    "process_vm_readv",
    "process_vm_writev",
    "pthread_create",
    "pvalloc",
    "realloc",
    "sbrk",
    "setegid",
    "seteuid",
    "setgid",
    "setgroups",
    "setns",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "setrlimit",
    "setrlimit64",
    "setuid",
    "syscall",
    "sysconf",
    "sysinfo",
    "thrd_create",
    "unshare",
    "valloc",
    "vmsplice",
];

/// Required symbols: for binding functions, for the addresses of libraries, and `errno` for interposed
/// functions. Every C library has these. Functions that only glibc has are looked up, because otherwise
/// programs with another C library could not start.
const NEEDED: &[&str] = &["__errno_location", "dl_iterate_phdr", "dlsym"];

/// Optional symbols: those that compilers call, the hooks of the linker's start files, and the allocator that
/// zstd refers to for contexts that it makes itself; the runtime only uses contexts in memory that it
/// provides.
const ALLOWED: &[&str] = &[
    "_ITM_deregisterTMCloneTable",
    "_ITM_registerTMCloneTable",
    "__cxa_finalize",
    "__gmon_start__",
    "bcmp",
    "calloc",
    "free",
    "malloc",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "strlen",
];

#[test]
fn the_preload_library_defines_and_needs_only_these_symbols() {
    let Some(version) = Command::new("nm").arg("--version").output().ok().filter(|o| o.status.success())
    else {
        eprintln!("skipped: nm (binutils) is not installed");
        return;
    };
    drop(version);
    let library = library();
    let defined = symbols(&library, "--defined-only");
    let expected: BTreeSet<String> = DEFINED.iter().map(|s| s.to_string()).collect();
    assert_eq!(defined, expected, "defined symbols of {}", library.display());

    let undefined = symbols(&library, "--undefined-only");
    for name in NEEDED {
        assert!(undefined.contains(*name), "{} does not need {name} any more", library.display());
    }
    for name in &undefined {
        let known = NEEDED.contains(&name.as_str()) || ALLOWED.contains(&name.as_str());
        assert!(known, "{} takes {name} from the program", library.display());
    }
}

fn library() -> PathBuf {
    if let Some(given) = env::var_os("MEMFOLD_TEST_LIBRARY") {
        return PathBuf::from(given);
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["rustc", "--release", "--quiet", "--lib", "--crate-type", "cdylib", "--no-default-features"]);
    cargo.args(["--features", "preload", "--config", "profile.release.strip='debuginfo'"]);
    cargo.args(["--config", "profile.release.panic='abort'", "--config", "profile.release.lto='thin'"]);
    cargo.arg("--manifest-path").arg(package.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(&target).env_remove("CARGO_BUILD_TARGET");
    let status = cargo.status().expect("cargo can be run");
    assert!(status.success(), "building the preload library failed: {status}");
    target.join("release/libmemfold_runtime.so")
}

/// Names without versions.
fn symbols(library: &Path, which: &str) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", which]).arg(library).output().expect("nm runs");
    assert!(output.status.success(), "nm: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("symbols are plain text");
    let names = text.lines().filter_map(|line| line.split_whitespace().last());
    names.map(|name| name.split('@').next().unwrap_or(name).to_string()).collect()
}
