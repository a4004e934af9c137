//! Binds the C library's functions that ours replace, before the program's first thread runs.

use super::mappings::{advice, growth, locked, own_uffd, pins, remap};
use super::next::Next;
use super::rights::{identity, limits, namespaces, seccomp};
use super::shown::numbers;
use super::{bare, opening, starting};

#[used]
#[unsafe(link_section = ".init_array")]
static BIND: extern "C" fn() = bind_all;

/// Called by the loader.
extern "C" fn bind_all() {
    let all: [&[&Next]; 14] = [
        &identity::ALL,
        &limits::ALL,
        &locked::ALL,
        &seccomp::ALL,
        &remap::ALL,
        &pins::ALL,
        &namespaces::ALL,
        &advice::ALL,
        &growth::ALL,
        &own_uffd::ALL,
        &bare::ALL,
        &starting::ALL,
        &opening::ALL,
        &numbers::ALL,
    ];
    for next in all.into_iter().flatten() {
        next.bind();
    }
}
