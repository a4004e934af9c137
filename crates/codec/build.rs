//! Links the C library that `lz4-sys` builds, without linking `lz4-sys`.
//!
//! The Rust half of `lz4-sys` depends on `libc` as that comes, with `std`,
//! which the preload library cannot have. A crate that is not named in the
//! code is not linked, and neither is the library it built; so name the
//! library here. `src/lz4.rs` declares the four functions it calls.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let root = std::env::var("DEP_LZ4_ROOT").expect("lz4-sys tells where it built the C library");
    println!("cargo:rustc-link-search=native={root}");
    println!("cargo:rustc-link-lib=static=lz4");
}
