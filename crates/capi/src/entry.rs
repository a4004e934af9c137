//! The frame around every function that C calls.

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_int;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::error::{Code, Failure, report};

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Runs the body of a function and converts its result for C. Panics end here. Marking a heap as broken after one
/// is the job of [`Shared::guarded`](crate::bound::Shared::guarded).
#[inline(always)]
pub fn entry(work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match attempt(work) {
        Ok(()) => Code::Ok as c_int,
        Err(failure) => report(failure),
    }
}

/// The same for functions that have a result of their own.
#[inline(always)]
pub fn attempt<R>(work: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    if IN_CALLBACK.get() {
        return Err(Code::Callback.into());
    }
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(caught(panic)))
}

#[cold]
fn caught(panic: Box<dyn Any + Send>) -> Failure {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = format!("a bug in memfold: {}", text.as_deref().unwrap_or("a panic"));
    // The payload of the panic may panic again when it is dropped.
    mem::forget(panic);
    Failure::new(Code::Bug, text)
}

/// Runs a callback of C. Meanwhile this thread cannot enter the library again, because locks are held.
pub fn callback<R>(call: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            IN_CALLBACK.set(self.0);
        }
    }
    let _back = Back(IN_CALLBACK.replace(true));
    call()
}

/// Where C wants a result.
pub struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// # Safety
    /// `place` is null, or a `T` may be written there while this value lives.
    pub unsafe fn new(place: *mut T) -> Result<Self, Failure> {
        NonNull::new(place).map(Out).ok_or_else(|| Code::Null.into())
    }

    pub fn set(self, value: T) {
        // SAFETY: promised when this was made. C may not have aligned it.
        unsafe { self.0.as_ptr().write_unaligned(value) }
    }
}

/// Refuses lengths that exceed any memory.
#[inline]
pub fn length(len: usize) -> Result<usize, Failure> {
    let fits = isize::try_from(len).is_ok();
    if fits {
        Ok(len)
    } else {
        Err(Failure::new(Code::Range, format!("no object in memory can have {len} bytes")))
    }
}
