//! The state that the threads of the service share.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memfold_shared::spill::{Area, NOBODY, POSTS, Post, open, state};
use memfold_spill::{Engine, Health, News};

use crate::spill::abandoned::Abandoned;
use crate::spill::holds::Holds;
use crate::spill::who;

/// The shared state; see the module.
pub struct State {
    /// The area.
    pub area: &'static Area,
    /// Which process needs which batches.
    pub holds: Mutex<Holds>,
    /// Handles abandoned request slots.
    pub abandoned: Mutex<Abandoned>,
    /// All threads are running, and none has to end. Batches are accepted as long as the tier takes them.
    pub serves: Mutex<bool>,
    pub is_ending: AtomicBool,
    /// The end was requested.
    pub must_end: AtomicBool,
    /// The program has ended, so the terminal belongs to others now.
    pub is_quiet: AtomicBool,
    /// Messages to print. The thread that adds a message delays others, so it must not wait for a terminal
    /// that nobody reads.
    pub words: Mutex<Vec<String>>,
    /// Number of threads that wait for a tier.
    pub getting: AtomicU32,
    /// How long a thread waits for a page, ns.
    pub patience: u64,
    /// `--spill-limit` was given.
    pub is_limited: bool,
    /// For each request slot: the time, in ns, at which an unanswered request is tried again.
    pub again: [AtomicU64; POSTS],
}

/// Locks a mutex, even if a thread has panicked while it held the lock.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tier's health in the form of the spill area.
pub fn openness(health: &Health) -> u32 {
    match health {
        Health::Open => open::YES,
        Health::Away(_) => open::AWAY,
        Health::Full | Health::Unfit(_) => open::NO,
    }
}

impl State {
    /// The state before the first request; `patience` is how long a thread waits for a page.
    pub fn new(area: &'static Area, patience: Duration, is_limited: bool) -> Self {
        State {
            area,
            is_limited,
            holds: Mutex::default(),
            abandoned: Mutex::default(),
            serves: Mutex::default(),
            is_ending: AtomicBool::new(false),
            must_end: AtomicBool::new(false),
            is_quiet: AtomicBool::new(false),
            words: Mutex::default(),
            getting: AtomicU32::new(0),
            patience: patience.as_nanos() as u64,
            again: [const { AtomicU64::new(0) }; POSTS],
        }
    }

    /// Locks the record of held batches.
    pub fn lock(&self) -> MutexGuard<'_, Holds> {
        locked(&self.holds)
    }

    /// Whether any process may need the stored data, or may spill data later.
    pub fn is_needed(&self) -> bool {
        let waits = |post: &Post| {
            let now = post.load();
            now.state() != state::FREE && now.pid() != NOBODY && !who::is_gone(now.pid())
        };
        self.lock().any() || self.area.posts.iter().any(waits)
    }

    /// Publishes the tier's health, and queues a message if it has changed.
    pub fn heed(&self, name: &str, news: &Mutex<News>, health: &Health) {
        let serves = locked(&self.serves);
        if *serves {
            self.area.is_open.store(openness(health), Release);
        }
        drop(serves);
        let is_news = locked(news).is_news(health);
        if !is_news || self.is_quiet.load(Acquire) {
            return;
        }
        locked(&self.words).push(match health {
            Health::Open => format!("{name} takes what is spilled again"),
            Health::Full => {
                let what = if self.is_limited { "has taken what --spill-limit allows, or is full" } else { "is full" };
                format!("{name} {what}: nothing more is spilled until there is room")
            }
            Health::Away(why) => format!(
                "{name} does not answer ({why}): nothing more is spilled, and threads that touch spilled memory wait"
            ),
            Health::Unfit(why) => format!("nothing more is spilled to {name}: {why}"),
        });
    }

    /// Deletes batches that no process needs any more.
    pub fn let_go(&self, engine: &Engine, free: Vec<u64>) {
        free.into_iter().for_each(|batch| engine.delete(batch));
    }
}
