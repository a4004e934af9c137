//! Panics of the program's code: at its first call, its second, and so on, in every operation of every
//! collection that calls such code.
//!
//! After each panic a collection passes its check, has its previous content or what its documentation says
//! instead, and can still be used. After it is dropped, the heap has no node left.

mod nodes;
mod slabs;
mod text;

use std::cell::Cell;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::string::String;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::testing::heaps;
use crate::heap::Heap;

std::thread_local! {
    /// Calls of the program's code until one panics, including that one; 0 for none.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Called first by the program's code.
fn call() {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(1));
    if left == 1 {
        // The same without a message on standard error.
        resume_unwind(std::boxed::Box::new("as planned"));
    }
}

/// The result of an operation whose `n`-th call of the program's code panics; `None` if it did.
fn with_panic_at<R>(n: u64, operation: impl FnOnce() -> R) -> Option<R> {
    LEFT.set(n);
    let result = catch_unwind(AssertUnwindSafe(operation));
    LEFT.set(0);
    match result {
        Ok(result) => Some(result),
        Err(panic) if panic.is::<&str>() => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// Tries an operation with a panic at the first call of the program's code, at the second and so on, until it
/// completes; `look` sees the state after each panic. Also returns the number of panics.
fn at_each_call<C, R>(
    subject: &mut C,
    mut operation: impl FnMut(&mut C) -> R,
    mut look: impl FnMut(&mut C),
) -> (R, u64) {
    let mut n = 1;
    loop {
        if let Some(result) = with_panic_at(n, || operation(subject)) {
            return (result, n - 1);
        }
        look(subject);
        n += 1;
    }
}

/// Calls `round` with heaps of all kinds and how much to do there; nothing may be left in them.
fn each_heap(round: impl Fn(&Heap, usize)) {
    for (mut heap, turns) in heaps() {
        round(&heap, turns);
        let stats = heap.stats();
        assert_eq!((stats.nodes, stats.node_bytes), (0, 0));
        assert_eq!(heap.check(), Ok(()));
    }
}

/// A number whose order and `Clone` are code of the program.
#[derive(Debug, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
struct Number(u64);

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Number {}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        call();
        self.0.cmp(&other.0)
    }
}

#[expect(clippy::non_canonical_clone_impl, reason = "it is to be seen who calls it")]
impl Clone for Number {
    fn clone(&self) -> Self {
        call();
        *self
    }
}

/// One time in `rarely`, long enough to get a node of its own.
fn string(number: u64, rarely: u64) -> String {
    let len = if number.is_multiple_of(rarely) { 900 } else { number % 30 };
    std::format!("{}{number}", "long ".repeat(len as usize / 5))
}

/// The order of strings, as code of the program.
fn by_text(a: &str, b: &str) -> Ordering {
    call();
    a.cmp(b)
}
