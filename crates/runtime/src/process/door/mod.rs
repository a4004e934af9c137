//! The doors of this process, through which the supervisor gives it its keeper: see [`memfold_shared::door`].

pub mod code;

#[cfg(feature = "preload")]
pub use inside::*;

/// The process's side.
#[cfg(feature = "preload")]
mod inside {
    use core::sync::atomic::Ordering::*;

    use memfold_shared::door::{Door, NEVER, NOBODY, TAKEN};

    /// The door of this process.
    pub static DOOR: Door = Door::new();

    /// Claims the right to start the keeper.
    pub fn claim() -> bool {
        DOOR.claim.compare_exchange(NOBODY, TAKEN, AcqRel, Relaxed).is_ok()
    }

    /// Ensures that there never is a keeper; `false` if there is one.
    pub fn forbid() -> bool {
        match DOOR.claim.compare_exchange(NOBODY, NEVER, AcqRel, Relaxed) {
            Ok(_) => true,
            Err(now) => now == NEVER,
        }
    }

    /// Gives up a claim, or forgets the parent's in a forked child.
    pub fn release() {
        DOOR.claim.store(NOBODY, Release);
    }

    /// Releases the threads that wait behind doors: the keeper has had its first look, or ends.
    pub fn let_go() {
        if DOOR.begins.swap(0, AcqRel) != 0 {
            crate::kernel::sys::futex_wake(&DOOR.begins, crate::kernel::sys::ALL, false);
        }
    }

    /// Whether there is a keeper, or one is being started.
    pub fn has_keeper() -> bool {
        DOOR.claim.load(Acquire) == TAKEN
    }

    /// Ends the calling thread, the keeper. Another can be started as soon as the kernel reports that this
    /// one is gone and no longer uses its stack.
    pub fn leave() -> ! {
        const SET_TID_ADDRESS: usize = crate::kernel::sys::nr::SET_TID_ADDRESS;
        // SAFETY: when the thread is gone, the kernel writes a zero there, which is `NOBODY`.
        let _ = unsafe {
            crate::kernel::sys::syscall(SET_TID_ADDRESS, [DOOR.claim.as_ptr() as usize, 0, 0, 0, 0, 0])
        };
        crate::process::thread::exit()
    }
}

/// Without the library no keeper can be started.
#[cfg(not(feature = "preload"))]
mod outside {
    /// See `inside`.
    pub fn claim() -> bool {
        false
    }
    /// See `inside`.
    pub fn forbid() -> bool {
        true
    }
    /// See `inside`.
    pub fn release() {}
    /// See `inside`.
    pub fn let_go() {}
    /// See `inside`.
    pub fn has_keeper() -> bool {
        false
    }
    /// See `inside`.
    pub fn leave() -> ! {
        crate::process::thread::exit()
    }
}
#[cfg(not(feature = "preload"))]
pub use outside::*;
