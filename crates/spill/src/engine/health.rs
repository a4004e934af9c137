//! The health of a tier, and which changes of it are reported to the user.

use std::time::{Duration, Instant};

/// The same message is reported at most once in this time.
const QUIET: Duration = Duration::from_secs(60);

/// The health of a tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It accepts batches.
    Open,
    /// It currently has no space.
    Full,
    /// It does not answer, for this reason; it may answer later.
    Away(String),
    /// It must not be used any more, for this reason; its batches can still be read.
    Unfit(String),
}

/// Which changes of a tier's health are worth reporting. A full tier has space after each delete and is full
/// again after the next put, and a tier that answers again may refuse the next batch. So the same message is
/// reported at most once a minute.
#[derive(Debug, Default)]
pub struct News {
    full: Option<Instant>,
    away: Option<(String, Instant)>,
    is_trouble: bool,
}

impl News {
    /// Whether a change is worth reporting.
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
