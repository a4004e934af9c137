//! How a tier is, and what of that a user is told.

use std::time::{Duration, Instant};

/// The same is said once in so long.
const QUIET: Duration = Duration::from_secs(60);

/// How a tier is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It takes batches.
    Open,
    /// It has no room for now.
    Full,
    /// It does not answer, for this reason; it may come back.
    Away(String),
    /// It must not be used any more, for this reason; what it has can be read.
    Unfit(String),
}

/// What of a tier's health is worth telling a user. One that is full has room again with each batch that is deleted, and is full again with the next; one that answers may refuse
/// the next batch: the same is said once a minute.
#[derive(Debug, Default)]
pub struct News {
    full: Option<Instant>,
    away: Option<(String, Instant)>,
    is_trouble: bool,
}

impl News {
    /// Whether a change is.
    pub fn is_news(&mut self, health: &Health) -> bool {
        let is_old = |said: Instant| said.elapsed() > QUIET;
        let is_news = match health {
            Health::Open => self.is_trouble,
            Health::Full => self.full.is_none_or(is_old),
            Health::Away(why) => self.away.as_ref().is_none_or(|(said, at)| said != why || is_old(*at)),
            Health::Unfit(_) => true,
        };
        if is_news {
            self.is_trouble = *health != Health::Open;
            match health {
                Health::Full => self.full = Some(Instant::now()),
                Health::Away(why) => self.away = Some((why.clone(), Instant::now())),
                Health::Open | Health::Unfit(_) => {}
            }
        }
        is_news
    }
}
