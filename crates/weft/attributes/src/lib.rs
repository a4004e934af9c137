//! An attribute for each set of vector instructions, for functions that use them.
//!
//! The kernels of `memfold-weft` are written once, and compiled once for each set. A function says with
//! `#[target_feature]` which instructions it may use, and that takes a literal. So the modules of one set
//! import its attribute as `kernel`, and functions have `#[kernel]`.

use proc_macro::TokenStream;

/// AVX2, with what came with it.
#[proc_macro_attribute]
pub fn avx2(_: TokenStream, function: TokenStream) -> TokenStream {
    with("avx2,bmi1,lzcnt,popcnt", function)
}

/// SSE4.1 and POPCNT, which x86-64-v2 has.
#[proc_macro_attribute]
pub fn sse(_: TokenStream, function: TokenStream) -> TokenStream {
    with("ssse3,sse4.1,popcnt", function)
}

/// NEON.
#[proc_macro_attribute]
pub fn neon(_: TokenStream, function: TokenStream) -> TokenStream {
    with("neon", function)
}

fn with(features: &str, function: TokenStream) -> TokenStream {
    let attribute: TokenStream =
        format!("#[target_feature(enable = \"{features}\")]").parse().expect("these are tokens");
    attribute.into_iter().chain(function).collect()
}
