//! Builds the preload library and embeds it in the executable.
//!
//! The library is the package memfold-runtime, compiled again: as a dynamic library, with the feature that
//! adds the entry point, without the standard library, and always optimised. Cargo cannot express such a
//! dependency, so this script runs cargo in a separate target directory. `MEMFOLD_PRELOAD_LIB=FILE` uses an
//! existing library instead.

use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=MEMFOLD_PRELOAD_LIB");
    let out = PathBuf::from(variable("OUT_DIR"));
    let library = match env::var_os("MEMFOLD_PRELOAD_LIB") {
        Some(given) => {
            println!("cargo:rerun-if-changed={}", Path::new(&given).display());
            PathBuf::from(given)
        }
        None => build(&runtime(), &out.join("preload")),
    };
    let library = library.canonicalize().unwrap_or_else(|e| panic!("{}: {e}", library.display()));
    println!("cargo:rustc-env=MEMFOLD_PRELOAD={}", library.display());
    println!("cargo:rustc-env=MEMFOLD_PRELOAD_HASH={:016x}", hash(&library));
    put_beside_executable(&library, &out);
}

/// In a checkout the runtime lies beside this package. The path from the runtime's build script is only the
/// second choice, because cargo keeps a stale path when a checkout moves together with its target directory.
fn runtime() -> PathBuf {
    let neighbour = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../runtime");
    if neighbour.join("Cargo.toml").exists() {
        return neighbour;
    }
    PathBuf::from(variable("DEP_MEMFOLD_RUNTIME_ROOT"))
}

fn hash(file: &Path) -> u64 {
    let bytes = std::fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn build(runtime: &Path, target_directory: &Path) -> PathBuf {
    let (target, host) = (variable("TARGET"), variable("HOST"));
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["rustc", "--release", "--lib", "--crate-type", "cdylib", "--no-default-features"]);
    cargo.args(["--features", "preload", "--config", "profile.release.strip='debuginfo'"]);
    // Without the standard library there is no unwinder.
    cargo.args(["--config", "profile.release.panic='abort'", "--config", "profile.release.lto='thin'"]);
    cargo.arg("--manifest-path").arg(runtime.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(target_directory);
    take_c_libraries(&mut cargo, &target);
    let mut built = target_directory.to_path_buf();
    if target != host {
        cargo.args(["--target", &target]);
        built.push(&target);
    }
    // These variables describe this package, not the runtime. Names of tools, the network settings and the
    // job server stay as they are.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let prefixes =
            ["CARGO_PKG_", "CARGO_CFG_", "CARGO_FEATURE_", "CARGO_MANIFEST_", "CARGO_PROFILE_", "DEP_"];
        if prefixes.iter().any(|prefix| text.starts_with(prefix)) {
            cargo.env_remove(&name);
        }
    }
    for name in [
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
        "CARGO_TARGET_DIR",
        "CARGO_PRIMARY_PACKAGE",
        "DEBUG",
        "HOST",
        "NUM_JOBS",
        "OPT_LEVEL",
        "OUT_DIR",
        "PROFILE",
        "TARGET",
    ] {
        cargo.env_remove(name);
    }
    let status = cargo.status().unwrap_or_else(|e| panic!("cannot run cargo: {e}"));
    assert!(status.success(), "building the preload library failed: {status}");
    built.push("release");
    watch_sources(&built.join("libmemfold_runtime.d"), runtime);
    built.join("libmemfold_runtime.so")
}

/// Reuses the C libraries that were just built for the command, if they are optimised. Building them again
/// would take a sixth of a fresh build.
fn take_c_libraries(cargo: &mut Command, target: &str) {
    if variable("OPT_LEVEL") != "3" {
        return;
    }
    for library in ["lz4", "zstd"] {
        let Some(root) = env::var_os(format!("DEP_MEMFOLD_CODEC_{}", library.to_uppercase())) else {
            continue;
        };
        let Some(root) =
            root.to_str().filter(|root| Path::new(root).join(format!("lib{library}.a")).exists())
        else {
            continue;
        };
        let key = format!("target.{target}.{library}");
        cargo.arg("--config").arg(format!("{key}.root={root:?}"));
        cargo.arg("--config").arg(format!("{key}.rustc-link-search=[{:?}]", format!("native={root}")));
        cargo.arg("--config").arg(format!("{key}.rustc-link-lib=['static={library}']"));
    }
}

/// Reruns this script when a source of the library changes. Cargo lists them all, including those of
/// dependencies in the workspace.
fn watch_sources(list: &Path, runtime: &Path) {
    let text = std::fs::read_to_string(list).unwrap_or_else(|e| panic!("{}: {e}", list.display()));
    let sources = text.split_once(": ").map_or("", |(_, sources)| sources);
    // Backslashes escape blanks in names.
    let sources = sources.trim().replace("\\ ", "\0");
    for source in sources.split(' ').filter(|source| !source.is_empty()) {
        println!("cargo:rerun-if-changed={}", source.replace('\0', " "));
    }
    for package in ["runtime", "memfold", "codec"] {
        let manifest = runtime.join("..").join(package).join("Cargo.toml");
        if manifest.exists() {
            println!("cargo:rerun-if-changed={}", manifest.display());
        }
    }
    let lock = runtime.join("../../Cargo.lock");
    if lock.exists() {
        println!("cargo:rerun-if-changed={}", lock.display());
    }
}

/// Puts a copy beside the executable, for debuggers and `make install`; the executable looks there first. The
/// directory is OUT_DIR/../../..; if that ever changes, the embedded copy still works.
fn put_beside_executable(library: &Path, out: &Path) {
    let Some(directory) = out.ancestors().nth(3).filter(|d| d.join("deps").is_dir()) else { return };
    let (temporary, beside) = (out.join("copy.so"), directory.join("libmemfold_preload.so"));
    // A rename leaves the old file to running programs.
    let copied = std::fs::copy(library, &temporary).and_then(|_| std::fs::rename(&temporary, &beside));
    if let Err(e) = copied {
        println!("cargo:warning=cannot copy the preload library to {}: {e}", beside.display());
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo did not set {name}"))
}
