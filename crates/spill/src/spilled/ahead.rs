//! Reading ahead, so that a program that reads blocks in the order in which they were put finds most of them
//! in memory.
//!
//! ```text
//!   batch   ┊ read │ read │ this one │ ahead ────────────────── ┊
//!                         \───────── one request ──────────────/
//! ```
//!
//! A sequence is recognised by a read that begins where the last one in the same batch ended, or shortly
//! after: the blocks in between may have been freed or moved. Each request of a sequence is twice as long as
//! the last, up to a bound. Batches never change, and their numbers are never reused, so a part that was read
//! ahead stays valid. It is as little trusted as the tier: its blocks are still sealed.

/// Sequences that are followed in parallel.
const STREAMS: usize = 4;
/// The bytes that are read ahead at first, and at most.
const FIRST: u32 = 16 << 10;
const LONGEST: u32 = 64 << 10;
/// Reads that are up to this many bytes apart are still in sequence.
const GAP: u32 = 16 << 10;

/// See the module.
#[derive(Debug, Default)]
pub struct Ahead {
    streams: [Stream; STREAMS],
    clock: u64,
}

#[derive(Debug, Default)]
struct Stream {
    /// The next batch and byte.
    next: (u64, u32),
    window: u32,
    /// The offset of `bytes` in the batch.
    from: u32,
    bytes: Vec<u8>,
    used: u64,
}

/// What to read: this many bytes, for this stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    pub len: usize,
    stream: usize,
    next: (u64, u32),
}

impl Ahead {
    /// The most memory that it takes, in bytes.
    pub const MEMORY: u64 = STREAMS as u64 * LONGEST as u64;

    /// Copies bytes that were read ahead; false if they were not read.
    pub fn take(&mut self, batch: u64, from: u32, into: &mut [u8]) -> bool {
        self.clock += 1;
        for stream in &mut self.streams {
            let place = from.checked_sub(stream.from).map(|skip| skip as usize);
            let part = place.and_then(|skip| stream.bytes.get(skip..)?.get(..into.len()));
            if stream.next.0 != batch || into.is_empty() {
                continue;
            }
            let Some(part) = part else { continue };
            into.copy_from_slice(part);
            (stream.next.1, stream.used) = (from + into.len() as u32, self.clock);
            return true;
        }
        false
    }

    /// How much to read of a batch of `end` bytes, after `take` did not find `len` bytes of it.
    pub fn plan(&mut self, batch: u64, from: u32, len: usize, end: u32) -> Plan {
        self.clock += 1;
        let follows = |stream: &Stream| {
            let is_near = (stream.next.1..=stream.next.1.saturating_add(GAP)).contains(&from);
            stream.next.0 == batch && is_near && stream.used > 0
        };
        let found = self.streams.iter().position(follows);
        // A sequence continues in the next batch, since batches are filled one after the other.
        let is_begun = |stream: &Stream| stream.next.0 + 1 == batch && stream.window > 0;
        let found = found.or_else(|| self.streams.iter().position(is_begun).filter(|_| from <= GAP));
        let oldest =
            || self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.used).map_or(0, |it| it.0);
        let number = found.unwrap_or_else(oldest);
        let stream = &mut self.streams[number];
        stream.window = if found.is_some() { (stream.window * 2).clamp(FIRST, LONGEST) } else { 0 };
        let left = end.saturating_sub(from).min(stream.window) as usize;
        stream.next = (batch, from + len as u32);
        stream.used = self.clock;
        stream.bytes = Vec::new();
        Plan { len: left.max(len), stream: number, next: stream.next }
    }

    /// Keeps the bytes read, unless the stream has been reused meanwhile.
    pub fn keep(&mut self, plan: &Plan, from: u32, bytes: Vec<u8>) {
        let stream = &mut self.streams[plan.stream];
        if stream.next == plan.next {
            (stream.from, stream.bytes) = (from, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads, and returns how many bytes were requested from the tier.
    fn read(ahead: &mut Ahead, batch: u64, from: u32) -> usize {
        let of = |at: u32| (batch as u32 * 7 + at) as u8;
        let mut into = [0; 1000];
        let mut asked = 0;
        if !ahead.take(batch, from, &mut into) {
            let plan = ahead.plan(batch, from, into.len(), 100_000);
            asked = plan.len;
            let bytes: Vec<u8> = (from..from + plan.len as u32).map(of).collect();
            into.copy_from_slice(&bytes[..1000]);
            if plan.len > 1000 {
                ahead.keep(&plan, from, bytes);
            }
        }
        assert!(into.iter().zip(from..).all(|(byte, at)| *byte == of(at)));
        asked
    }

    #[test]
    fn a_sequence_is_read_in_ever_longer_parts() {
        let mut ahead = Ahead::default();
        let asked: Vec<usize> = (0..200)
            .map(|step| read(&mut ahead, 3 + step / 100, (step % 100) as u32 * 1000))
            .filter(|asked| *asked > 0)
            .collect();
        assert_eq!(asked[..4], [1000, 16 << 10, 32 << 10, 100_000 - 49_000]);
        // The sequence continues in the next batch.
        assert_eq!(asked[4..], [64 << 10, 100_000 - 65_000]);
    }

    #[test]
    fn nothing_is_read_ahead_for_one_who_jumps() {
        let mut ahead = Ahead::default();
        let asked: usize =
            (0..1000_u64).map(|step| read(&mut ahead, step * 31 % 17, (step * 37_000 % 99_000) as u32)).sum();
        assert!(asked < 1_200_000, "{asked}");
    }

    #[test]
    fn four_who_read_at_the_same_time_are_four_sequences() {
        let mut ahead = Ahead::default();
        let asks = (0..100).flat_map(|step| (0..4).map(move |who| (who * 10, step * 1000)));
        let asked =
            asks.map(|(batch, from)| read(&mut ahead, batch, from)).filter(|asked| *asked > 0).count();
        assert!(asked <= 20, "{asked}");
        assert!(
            ahead.streams.iter().map(|stream| stream.bytes.capacity() as u64).sum::<u64>() <= Ahead::MEMORY
        );
    }

    #[test]
    fn freed_blocks_in_between_are_not_gaps() {
        let mut ahead = Ahead::default();
        let asked = (0..25).filter(|step| read(&mut ahead, 1, step * 4000) > 0).count();
        assert!(asked <= 5, "{asked}");
    }
}
