//! `lagdelta:W`: each word minus the one a **lag** before it. The lag is found for each block: the length of
//! a record, or of a row of a grid. If second differences at that lag are smaller, it takes those.
//!
//! ```text
//!   bits 0-14   15
//! +------------+-----------+----------------------+------+
//! | lag, words | order - 1 | differences          | tail |
//! +------------+-----------+----------------------+------+
//!  2 bytes, little endian
//! ```
//!
//! A lag of 0 means that the words are unchanged. The words before the first count as zero. The way in which
//! the lag is found may change; see [`search`].

mod search;

use super::difference::Word;
use crate::cpu::either;
use crate::steps::Step;
use crate::{Malformed, Scratch};

/// The transform `lagdelta:W`.
pub(crate) struct LagDelta<const W: usize>;

pub(crate) static LAG_DELTA_1: LagDelta<1> = LagDelta;
pub(crate) static LAG_DELTA_2: LagDelta<2> = LagDelta;
pub(crate) static LAG_DELTA_4: LagDelta<4> = LagDelta;
pub(crate) static LAG_DELTA_8: LagDelta<8> = LagDelta;

/// The largest lag of the format.
const FORMAT_LAGS: usize = 0x7FFF;

/// The operation on a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lag {
    words: usize,
    twice: bool,
}

impl<const W: usize> Step for LagDelta<W> {
    fn name(&self) -> &'static str {
        match W {
            1 => "lagdelta:1",
            2 => "lagdelta:2",
            4 => "lagdelta:4",
            _ => "lagdelta:8",
        }
    }

    fn bound(&self, len: usize) -> usize {
        len.saturating_add(2)
    }

    fn forward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn backward_scratch(&self, _len: usize) -> usize {
        0
    }

    fn forward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Option<usize> {
        let (head, dst) = dst.get_mut(..src.len() + 2)?.split_at_mut(2);
        let lag = match W {
            1 => change::<u8>(src, dst),
            2 => change::<u16>(src, dst),
            4 => change::<u32>(src, dst),
            _ => change::<u64>(src, dst),
        };
        head.copy_from_slice(&(lag.words as u16 | u16::from(lag.twice) << 15).to_le_bytes());
        Some(src.len() + 2)
    }

    fn backward(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        let (head, src) = src.split_first_chunk().ok_or(Malformed)?;
        if src.len() != dst.len() {
            return Err(Malformed);
        }
        let head = u16::from_le_bytes(*head);
        let lag = Lag { words: usize::from(head) & FORMAT_LAGS, twice: head >> 15 == 1 };
        match W {
            1 => restore::<u8>(src, dst, lag),
            2 => restore::<u16>(src, dst, lag),
            4 => restore::<u32>(src, dst, lag),
            _ => restore::<u64>(src, dst, lag),
        }
        Ok(())
    }
}

fn change<T: Word>(src: &[u8], dst: &mut [u8]) -> Lag {
    let lag = search::find::<T>(src);
    take::<T>(src, dst, lag);
    lag
}

fn take<T: Word>(src: &[u8], dst: &mut [u8], lag: Lag) {
    either!(take_avx2::<T>(src, dst, lag), take_each::<T>(src, dst, lag))
}

/// # Safety
/// The processor has AVX2 and popcnt.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn take_avx2<T: Word>(src: &[u8], dst: &mut [u8], lag: Lag) {
    take_each::<T>(src, dst, lag);
}

#[inline(always)]
fn take_each<T: Word>(src: &[u8], dst: &mut [u8], lag: Lag) {
    if lag.words == 0 {
        return dst.copy_from_slice(src);
    }
    let back = lag.words * T::BYTES;
    let end = src.len() / T::BYTES * T::BYTES;
    let at = |start: usize, less: usize| src[start - less..].chunks_exact(T::BYTES).map(T::load);
    // The parts with no predecessor, one predecessor, and two.
    dst[..back].copy_from_slice(&src[..back]);
    if lag.twice {
        let double = |word: T| word.add(word);
        let (once, twice) = dst[back..end].split_at_mut(back.min(end - back));
        for ((to, now), before) in once.chunks_exact_mut(T::BYTES).zip(at(back, 0)).zip(at(back, back)) {
            now.sub(double(before)).store(to);
        }
        if !twice.is_empty() {
            let words = at(2 * back, 0).zip(at(2 * back, back)).zip(at(2 * back, 2 * back));
            for (to, ((now, once), before)) in twice.chunks_exact_mut(T::BYTES).zip(words) {
                now.sub(double(once)).add(before).store(to);
            }
        }
    } else {
        for ((to, now), once) in
            dst[back..end].chunks_exact_mut(T::BYTES).zip(at(back, 0)).zip(at(back, back))
        {
            now.sub(once).store(to);
        }
    }
    dst[end..].copy_from_slice(&src[end..]);
}

fn restore<T: Word>(src: &[u8], dst: &mut [u8], lag: Lag) {
    dst.copy_from_slice(src);
    let back = lag.words * T::BYTES;
    let end = dst.len() / T::BYTES * T::BYTES;
    if back == 0 || back >= end {
        return;
    }
    let mut at = back;
    while at < end {
        let mut word = T::load(&dst[at..at + T::BYTES]);
        let once = T::load(&dst[at - back..][..T::BYTES]);
        word = word.add(once);
        if lag.twice {
            word = word.add(once);
            if at >= 2 * back {
                word = word.sub(T::load(&dst[at - 2 * back..][..T::BYTES]));
            }
        }
        word.store(&mut dst[at..at + T::BYTES]);
        at += T::BYTES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::on_each_path;
    use std::vec;
    use std::vec::Vec;

    fn check<const W: usize>() {
        let step = LagDelta::<W>;
        for len in (0..200).chain([1000, 4096, 4099]) {
            for period in [0, 3, 24, 27 * 8] {
                // Records with counters, or noise.
                let block: Vec<u8> = (0..len)
                    .map(|i| {
                        if period == 0 {
                            (i * i * 77 / 13) as u8
                        } else {
                            (i % period * 97 + i / period) as u8
                        }
                    })
                    .collect();
                let mut first = None;
                on_each_path(|path| {
                    let mut out = vec![0xA5; len + 2];
                    assert_eq!(step.forward(&block, &mut out, &mut Scratch::empty()), Some(len + 2));
                    assert!(*first.get_or_insert_with(|| out.clone()) == out, "{W} {len} {period} {path:?}");
                    let mut again = vec![0xA5; len];
                    step.backward(&out, &mut again, &mut Scratch::empty()).unwrap();
                    assert!(again == block, "{W} {len} {period} {path:?}");
                });
            }
        }
    }

    #[test]
    fn the_transform_is_reversible() {
        check::<1>();
        check::<2>();
        check::<4>();
        check::<8>();
    }

    #[test]
    fn any_lag_is_undone() {
        let src = [0xA5; 100];
        for head in [0_u16, 1, 49, 50, 99, 100, 0x7FFF, 0x8001, 0x8031, 0xFFFF] {
            let form = [&head.to_le_bytes()[..], &src].concat();
            LagDelta::<1>.backward(&form, &mut [0; 100], &mut Scratch::empty()).unwrap();
            LagDelta::<8>.backward(&form, &mut [0; 100], &mut Scratch::empty()).unwrap();
        }
    }

    #[test]
    fn the_lag_of_records_and_of_slopes_is_found() {
        let mut x = 1_u64;
        let mut noise = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            x
        };
        let record: Vec<u64> = (0..28).map(|_| noise()).collect();
        let slopes: Vec<u64> = (0..28).map(|_| noise() >> 44).collect();
        let block = |slope: u64| -> Vec<u8> {
            (0..512_u64)
                .flat_map(|i| {
                    let (n, field) = (i / 28, (i % 28) as usize);
                    record[field].wrapping_add(slopes[field].wrapping_mul(n * slope)).to_le_bytes()
                })
                .collect()
        };
        assert_eq!(search::find::<u64>(&block(0)), Lag { words: 28, twice: false });
        assert_eq!(search::find::<u64>(&block(1)), Lag { words: 28, twice: true });
    }
}
