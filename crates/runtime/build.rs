//! Tells the command's build script where this package is.
fn main() {
    println!("cargo:root={}", std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo:rerun-if-changed=build.rs");
}
