//! Links the C library that `lz4-sys` builds, without linking `lz4-sys`, and removes the hooks through which a
//! program could interfere with zstd.
//!
//! The Rust half of `lz4-sys` depends on `libc` with its default feature `std`, which the preload library
//! cannot use. A crate that the code does not name is not linked, and neither is the library that it built;
//! so this script names that library. `src/codecs/lz4.rs` declares the functions that are called.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/codecs/zstd/untraced.c");

    // Zstandard looks for tracing functions only where weak symbols exist; there the attribute that hides
    // ours exists, too.
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cfg=zstd_untraced");
        cc::Build::new().file("src/codecs/zstd/untraced.c").compile("memfold_zstd_untraced");
    }
    println!("cargo:rustc-check-cfg=cfg(zstd_untraced)");

    let root = env::var("DEP_LZ4_ROOT").expect("lz4-sys tells where it built the C library");
    println!("cargo:rustc-link-search=native={root}");
    println!("cargo:rustc-link-lib=static=lz4");

    // For the command's build script: it compiles this crate a second time, but need not compile the C
    // libraries again.
    println!("cargo:lz4={root}");
    if let Ok(root) = env::var("DEP_ZSTD_ROOT") {
        println!("cargo:zstd={root}");
    }
}
