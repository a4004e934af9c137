//! A thread that reads the resident size every few milliseconds: memory must be returned within 100 ms after
//! each deletion, not only at the end of a phase.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long memory may stay resident after its contents were deleted.
pub const ALLOWED: Duration = Duration::from_millis(100);
const EVERY: Duration = Duration::from_millis(4);

/// The input and the findings of the watching thread.
#[derive(Default)]
pub struct Shared {
    /// Current bytes of payload.
    pub payload: AtomicUsize,
    /// Resident bytes that belong to the benchmark.
    pub own: AtomicUsize,
    /// The largest resident size, in thousandths of the largest payload in the 100 ms before.
    worst: AtomicU64,
    stop: AtomicBool,
    recent: Mutex<VecDeque<(Instant, usize)>>,
}

/// The watching thread.
pub struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts watching.
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let thread = thread::spawn({
            let shared = shared.clone();
            move || {
                let statm = File::open("/proc/self/statm").expect("statm");
                while !shared.stop.load(Ordering::Relaxed) {
                    shared.look(&statm);
                    thread::sleep(EVERY);
                }
            }
        });
        Watch { shared, thread: Some(thread) }
    }

    /// The state shared with the thread.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The worst ratio since the last call.
    pub fn worst(&self) -> f64 {
        self.shared.worst.swap(0, Ordering::Relaxed) as f64 / 1000.0
    }
}

impl Shared {
    fn look(&self, statm: &File) {
        let mut text = [0; 128];
        // The payload is read first: anything put between the two readings could only worsen the ratio.
        let payload = self.payload.load(Ordering::Relaxed);
        let n = statm.read_at(&mut text, 0).expect("statm");
        let fields = std::str::from_utf8(&text[..n]).expect("text");
        let pages: usize = fields.split(' ').nth(1).and_then(|p| p.parse().ok()).expect("resident pages");
        let resident = (pages * 4096).saturating_sub(self.own.load(Ordering::Relaxed));
        let now = Instant::now();
        let mut recent = self.recent.lock().expect("one thread");
        recent.push_back((now, payload));
        while recent.front().is_some_and(|(then, _)| now - *then > ALLOWED) {
            recent.pop_front();
        }
        let most = recent.iter().map(|(_, payload)| *payload).max().unwrap_or(0);
        self.worst.fetch_max((resident * 1000 / most.max(1)) as u64, Ordering::Relaxed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
