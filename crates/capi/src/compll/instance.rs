//! The single heap of compll, and the threads that use it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memfold::heap::{Heap, Limit, Options};

use crate::bound::{Seat, Shared};
use crate::compll::member::{MOST, Member, Quota};
use crate::entry::attempt;
use crate::error::{Code, Failure};
use crate::heap::callbacks::{Callbacks, Pair, compll_compress_callback, compll_decompress_callback};

/// Frames that pins must leave: one for a block to be restored, and one to allocate from.
const LEFT: usize = 2;
/// The minimum for a single thread, whatever uncomp_count says: programs keep pointers across a few calls.
const LEAST: usize = 4;
/// The minimum for each of several threads: `W(a)->x += R(b)->y` must work.
const LEAST_SHARED: usize = 2;

/// How long a call waits for a frame if pins leave some, so that one becomes free soon.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it waits if the pins of idle threads may hold all frames.
const CROWDED: Duration = Duration::from_millis(200);

/// The arguments of `compll_init`.
pub struct Request {
    pub block_size: usize,
    pub alignment: usize,
    pub uncomp_count: usize,
    pub compress: compll_compress_callback,
    pub decompress: compll_decompress_callback,
}

/// A heap, from one `compll_init` to the next.
struct Instance {
    /// How many instances there were before.
    round: u64,
    shared: Arc<Shared>,
    /// Frames available for the pins of all threads.
    frames: usize,
    /// Blocks that a single thread keeps.
    most: usize,
    /// The number of threads that use it, which determines the share of each.
    count: AtomicUsize,
    threads: Mutex<Vec<Arc<Mutex<Member>>>>,
}

static CURRENT: Mutex<Option<Arc<Instance>>> = Mutex::new(None);
/// The round of the current one; 0 if there is none.
static ROUND: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static MINE: RefCell<Slot> = const { RefCell::new(Slot(None)) };
}

/// A thread's member. It leaves when the thread ends.
struct Slot(Option<Mine>);

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(mine) = self.0.take() {
            let shared = mine.instance.shared.clone();
            let _ = attempt(|| {
                shared.guarded(|| {
                    drop(mine);
                    Ok(())
                })
            });
        }
    }
}

/// This thread's part in an instance.
struct Mine {
    instance: Arc<Instance>,
    member: Arc<Mutex<Member>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Instance {
    /// The share of each thread.
    fn quota(&self) -> Quota {
        let share = self.frames / self.count.load(Acquire).max(1);
        Quota {
            blocks: share.clamp(LEAST_SHARED, self.most),
            patience: if share < LEAST_SHARED { CROWDED } else { PATIENCE },
        }
    }
}

impl Mine {
    /// Joins the current instance.
    fn join() -> Result<Self, Failure> {
        let instance = locked(&CURRENT).clone();
        let instance =
            instance.ok_or_else(|| Failure::new(Code::NoHeap, "compll_init was not called, or failed"))?;
        let member = instance.shared.guarded(|| {
            let seat = Seat::take(instance.shared.clone());
            Ok(Arc::new(Mutex::new(Member::new(&seat)?)))
        })?;
        let mut threads = locked(&instance.threads);
        instance.count.store(threads.len() + 1, Release);
        let quota = instance.quota();
        // Trims other threads' pins now: an idle thread would keep them until its next call.
        for other in threads.iter() {
            locked(other).trim(quota.blocks);
        }
        threads.push(member.clone());
        drop(threads);
        Ok(Mine { instance, member })
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        let mut threads = locked(&self.instance.threads);
        threads.retain(|member| !Arc::ptr_eq(member, &self.member));
        self.instance.count.store(threads.len(), Release);
    }
}

/// Uses this thread's member, together with its quota.
#[inline(always)]
pub fn in_thread<R>(work: impl FnOnce(&mut Member, Quota) -> Result<R, Failure>) -> Result<R, Failure> {
    let done = MINE.try_with(|mine| {
        let mine = &mut mine.try_borrow_mut().map_err(|_| Code::Callback)?.0;
        if mine.as_ref().is_none_or(|mine| mine.instance.round != ROUND.load(Acquire)) {
            *mine = None;
            *mine = Some(Mine::join()?);
        }
        let Some(Mine { instance, member }) = mine else { return Err(Code::NoHeap.into()) };
        instance.shared.guarded(|| {
            let mut member = locked(member);
            work(&mut member, instance.quota())
        })
    });
    done.unwrap_or_else(|_| Err(Failure::new(Code::NoSession, "the thread has all but ended")))
}

/// Makes the heap.
///
/// # Safety
/// The callbacks behave as `compll.h` says.
pub unsafe fn init(request: &Request) -> Result<(), Failure> {
    let bad = |text: String| Err(Failure::new(Code::Option, text));
    let &Request { block_size, alignment, uncomp_count, .. } = request;
    if !(1..=16 << 20).contains(&block_size) {
        return bad(format!("a block size of {block_size} bytes: give 1 to 16 MiB"));
    }
    if ![1, 2, 4, 8, 16].contains(&alignment) {
        return bad(format!("an alignment of {alignment} bytes: give 1, 2, 4, 8 or 16"));
    }
    if uncomp_count == 0 {
        return bad("no uncompressed block: give at least one".into());
    }
    let (Some(compress), Some(decompress)) = (request.compress, request.decompress) else {
        return Err(Code::Null.into());
    };
    let mut current = locked(&CURRENT);
    if let Some(old) = &*current {
        let left = old.shared.guarded(|| Ok(old.shared.read().stats().nodes));
        // No node of a broken heap can be used any more.
        if let Ok(left @ 1..) = left {
            return Err(Failure::new(
                Code::Busy,
                format!("compll_init was called before, and {left} nodes are left"),
            ));
        }
    }
    let most = uncomp_count.clamp(LEAST, MOST);
    let frames = uncomp_count.max(most + LEFT);
    // SAFETY: as promised.
    let callbacks = Arc::new(unsafe { Callbacks::new(Pair::Compll { compress, decompress }) });
    let options = Options::new()
        .block_size(block_size.next_power_of_two().max(1 << 10))
        .alignment(alignment)
        .limit(Limit::Blocks(frames as u32))
        .own_codec(callbacks.clone());
    let round = ROUND.load(Acquire) + 1;
    let instance = Instance {
        round,
        shared: Shared::new(Heap::new(options)?, Some(callbacks)),
        frames: frames - LEFT,
        most,
        count: AtomicUsize::new(0),
        threads: Mutex::default(),
    };
    let old = current.replace(Arc::new(instance));
    ROUND.store(round, Release);
    drop(current);
    // Threads that used the old instance release it at their next call, or when they end.
    drop(old);
    Ok(())
}
