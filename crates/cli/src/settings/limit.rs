//! Memory limits: their syntax, and the tolerance.

use memfold::size::{self, Human, Size};
use memfold_proc::memory;
use memfold_shared::page;

use crate::output::failure::{Failure, say};

/// The value of `--limit` that is not a size.
pub const AUTO: &str = "auto";
/// If the user gave no limit, 1/SPARE of the machine's or the cgroup's memory is left to others.
const SPARE: u64 = 16;

/// The memory that is left to others, of this total.
pub fn reserve(total: u64) -> u64 {
    total / SPARE
}

/// The limit for compressing only idle memory.
pub(super) fn most(whose: Option<i32>) -> Result<u64, Failure> {
    let memory = memory::usable_by(whose).ok_or_else(|| {
        Failure::new(
            "/proc/meminfo does not say how much memory there is; give a size, for example --limit 512M",
        )
    })?;
    Ok((memory - reserve(memory)).max(page::SMALLEST_LIMIT))
}

/// The limit of `memfold run` with `auto`, or without a limit: a part of what is free now on the machine, and in
/// each limited cgroup of this process.
fn free() -> Result<u64, Failure> {
    let Some(rooms) = memory::rooms() else { return most(None) };
    let part = |room: memory::Room| room.available.saturating_sub(reserve(room.total));
    Ok(rooms.into_iter().map(part).min().unwrap_or(0).max(page::SMALLEST_LIMIT))
}

/// The syntax of a limit where it is not an option.
pub const HOW: &str = "give a size like 512M, 1.5G, a bare number of bytes, or 50%, or auto";

/// The limit of `memfold run`. Prints a warning if something may prevent it from being held.
pub(super) fn limit(text: &str) -> Result<u64, Failure> {
    const HOW: &str =
        "give a size like --limit 512M, --limit 1.5G, a bare number of bytes, --limit 50%, or --limit auto";
    if text.trim() == AUTO {
        return free();
    }
    let limit = read_limit(text, HOW, None)?;
    limit.warning.iter().for_each(|warning| say(warning));
    Ok(limit.bytes)
}

/// A limit that can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// In bytes.
    pub bytes: u64,
    /// Only the memory that the programs need stays resident, even if there is room for more.
    pub is_auto: bool,
    /// A warning about something that may prevent it from being held.
    pub warning: Option<String>,
}

/// Reads a limit; `how` explains the syntax for the error message. Percentages refer to the memory available
/// to process `whose`, or to this one.
pub fn read_limit(text: &str, how: &str, whose: Option<i32>) -> Result<Limit, Failure> {
    if text.trim() == AUTO {
        return Ok(Limit { bytes: most(whose)?, is_auto: true, warning: None });
    }
    let size = size::parse(text).map_err(|why| Failure::new(format!("the limit '{text}' {why}; {how}")))?;
    let memory = match memory::usable_by(whose) {
        Some(memory) => memory,
        None if matches!(size, Size::Bytes(_)) => u64::MAX,
        None => {
            return Err(Failure::new(format!(
                "the limit '{text}' is a share of the machine's memory, and /proc/meminfo does not say how much there is; give it in bytes, for example 512M"
            )));
        }
    };
    let bytes = size.of(memory);
    if bytes < page::SMALLEST_LIMIT {
        return Err(Failure::new(format!(
            "the limit '{text}' ({}) is less than memfold itself needs to work; give at least {}",
            Human(bytes),
            Human(page::SMALLEST_LIMIT)
        )));
    }
    if bytes > page::LARGEST_LIMIT {
        return Err(Failure::new(format!("the limit '{text}' is more than any machine has; {how}")));
    }
    let warning = (bytes > memory).then(|| {
        format!(
            "the limit of {} exceeds the {} that this machine or cgroup has: the program may be killed before it reaches the limit",
            Human(bytes),
            Human(memory)
        )
    });
    Ok(Limit { bytes, is_auto: false, warning })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::failure::FAILED;

    #[test]
    fn limits_that_are_refused() {
        for (text, word) in [
            ("lots", "not a size"),
            ("0", "zero"),
            ("0%", "zero"),
            ("7M", "at least 8 MiB"),
            ("120%", "is too large"),
            ("10E", "more than any machine"),
            ("1152921504606846977", "more than any machine"),
        ] {
            let failure = limit(text).unwrap_err();
            assert_eq!(failure.status, FAILED);
            assert!(failure.text.contains(word), "{failure}");
        }
        assert_eq!(limit("8M"), Ok(8 << 20));
        assert_eq!(limit("50%"), Ok(memory::usable().unwrap() / 2));
        let free = limit("auto").unwrap();
        assert!(free >= 8 << 20 && free < memory::usable().unwrap(), "{free}");
    }
}
