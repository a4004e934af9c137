//! Blocks of all sorts, unpacked and compared with the original.

use std::cell::Cell;
use std::ops::Range;
use std::vec;
use std::vec::Vec;

use super::{HEAD, Packed, Run, SLACK, WORD, pack};
use crate::random::Random;

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn packed(words: &[u64]) -> Vec<u8> {
    let block = bytes(words);
    let mut to = vec![0xa5; block.len() * 4 + 200];
    let len = pack(&block, &mut to).unwrap();
    to.truncate(len);
    let mut exact = vec![0x5a; len];
    assert_eq!(pack(&block, &mut exact), Some(len));
    assert!(exact == to && pack(&block, &mut exact[..len - 1]).is_none());
    to
}

/// Packs, unpacks, and unpacks parts.
fn round(words: &[u64], random: &mut Random) -> usize {
    let (block, kept) = (bytes(words), packed(words));
    let form = Packed::new(&kept, block.len()).unwrap();
    let mut whole = vec![1; block.len()];
    form.unpack(&mut whole).unwrap();
    assert_eq!(whole, block);
    for _ in 0..20 {
        let from = random.index(block.len());
        let to = from + 1 + random.index(block.len() - from);
        let mut part = vec![2; block.len()];
        form.unpack_part(from..to, &mut part).unwrap();
        assert_eq!(part[from..to], block[from..to]);
        borders(words, &form, from / WORD..to.div_ceil(WORD), random);
    }
    kept.len()
}

/// Searches for a border where one run has all of these words, otherwise in the first run that has some of
/// them.
fn borders(words: &[u64], form: &Packed<'_>, mut range: Range<usize>, random: &mut Random) {
    let mut room = [0; Run::ROOM];
    let first = form.run_of(range.start * WORD..range.start * WORD + WORD).unwrap();
    assert_eq!(form.run_of(range.start * WORD..range.end * WORD).is_some(), range.end <= first.words.end);
    range.end = range.end.min(first.words.end);
    let run = first.copy_to(&mut room).unwrap();
    assert!(run.is_right());
    let start = run.words.start;
    for _ in 0..4 {
        // The first `before` words of the range count as before the border; they need not be less than the
        // others.
        let before = random.index(range.len() + 1);
        let asked = Cell::new(0);
        let inside = &words[range.clone()];
        let limit = inside.get(before).copied().unwrap_or(u64::MAX);
        let is_raw = !inside.is_sorted();
        let is_before = |word: u64| {
            asked.set(asked.get() + 1);
            // In an unordered run, words are tested one by one.
            if is_raw { asked.get() <= before } else { word < limit }
        };
        let expected = if is_raw { before } else { inside.partition_point(|word| *word < limit) };
        let border = run.border(range.start - start..range.end - start, is_before).unwrap();
        assert_eq!(border.before + start, range.start + expected, "{range:?}");
        assert!(expected == 0 || border.last == inside[expected - 1]);
        assert!(expected == inside.len() || border.next == inside[expected]);
        // Once for each 64 bits, and once for each word of one group.
        assert!(asked.get() <= range.len() + 8);
    }
    let all = run.border(range.start - start..range.end - start, |_| true).unwrap();
    assert_eq!((all.before + start, all.last), (range.end, words[range.end - 1]));
}

/// Slabs like those of lists: ascending, followed by copies of the last element.
fn slabs(random: &mut Random, distance: u64) -> Vec<u64> {
    let mut words = vec![1, 7, 0x0302_0100, 0x7777];
    let mut last = random.next() >> 8;
    for slab in 0..30 {
        let fill = 110 + random.index(17);
        if slab == 17 {
            last = random.next() >> 8;
        }
        for _ in 0..fill {
            last += 1 + random.below(distance);
            words.push(last);
        }
        words.extend(std::iter::repeat_n(last, 126 - fill));
    }
    words
}

#[test]
fn packing_is_reversible() {
    let mut random = Random(1);
    for distance in [1, 2, 30, 1 << 20, 1 << 41, 1 << 50] {
        round(&slabs(&mut random, distance), &mut random);
    }
    for _ in 0..300 {
        let len = 1 + random.index(1000);
        let mut words = vec![];
        let mut last = random.next();
        while words.len() < len {
            let kind = random.below(6);
            let shift = random.below(64);
            for _ in 0..random.below(300) {
                last = match kind {
                    0 => last,
                    1 => last.wrapping_add(random.below(4) / 3),
                    2 => random.next(),
                    3 => last.wrapping_sub(1),
                    _ => last.wrapping_add(random.next() >> shift),
                };
                words.push(last);
            }
        }
        words.truncate(len);
        round(&words, &mut random);
    }
    for words in [&[0][..], &[u64::MAX; 3], &[0, u64::MAX], &[5; 700], &[0, 0, 0, 0, 0, u64::MAX]] {
        round(words, &mut random);
    }
}

/// Each word takes two bits more than the logarithm of the mean distance, plus the overhead of runs.
#[test]
fn packed_words_take_as_many_bits_as_expected() {
    let mut random = Random(2);
    for (distance, most) in [(1_u64 << 41, 42.0), (32, 6.2)] {
        let words = slabs(&mut random, distance);
        let elements = words.len() as f64 * 118.0 / 126.0;
        let bits = packed(&words).len() as f64 * 8.0 / elements;
        assert!(bits < most + 1.5, "{bits} bits");
    }
}

#[test]
fn blocks_that_are_not_words_or_too_long() {
    let mut to = vec![0; 1 << 21];
    assert_eq!(pack(&[1; 9], &mut to), None);
    assert_eq!(pack(&[], &mut to), None);
    assert_eq!(pack(&vec![0; (1 << 16) * WORD], &mut to), None);
    assert!(pack(&vec![0; ((1 << 16) - 1) * WORD], &mut to).is_some());
}

/// Whichever bit is flipped, a part is right or is refused.
#[test]
fn damage_is_noticed_where_it_matters() {
    let mut random = Random(3);
    let words = slabs(&mut random, 1 << 30);
    let (block, mut kept) = (bytes(&words), packed(&words));
    let (mut refused, mut passed) = (0, 0);
    for bit in 0..kept.len() * 8 {
        // Every bit that leads to runs, and some of the rest.
        let starts = bit > 8 * (kept.len() - 200);
        if !starts && bit > 8 * HEAD && bit % 61 != 0 {
            continue;
        }
        kept[bit / 8] ^= 1 << (bit % 8);
        let from = random.index(block.len() - 1000);
        let mut part = vec![0; block.len()];
        let form = Packed::new(&kept, block.len());
        if form.and_then(|form| form.unpack_part(from..from + 1000, &mut part)).is_some() {
            assert!(part[from..from + 1000] == block[from..from + 1000], "bit {bit}");
            passed += 1;
            let mut room = [0; Run::ROOM];
            let at = from / WORD;
            let run = form.unwrap().run_of(at * WORD..at * WORD + WORD).unwrap().copy_to(&mut room).unwrap();
            let border = run.border(at - run.words.start..at + 1 - run.words.start, |_| true);
            assert!(run.is_right() && border.is_some_and(|border| border.last == words[at]));
        } else {
            refused += 1;
        }
        kept[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(refused > 200 && passed > 1000, "{refused} {passed}");
}

/// Arbitrary bytes: nothing panics, and nothing outside is written.
#[test]
fn arbitrary_bytes_are_unpacked_safely() {
    let mut random = Random(4);
    let words = slabs(&mut random, 1 << 20);
    let (len, kept) = (words.len() * WORD, packed(&words));
    let mut to = vec![0; len];
    for _ in 0..20_000 {
        let mut bad = kept.clone();
        for _ in 0..1 + random.below(5) {
            let places =
                [random.index(HEAD + 20), bad.len() - 1 - random.index(200), random.index(bad.len())];
            let at = places[random.index(3)];
            bad[at] = random.next() as u8;
        }
        bad.truncate(if random.below(4) == 0 { random.index(bad.len()) } else { bad.len() });
        if let Some(form) = Packed::new(&bad, len) {
            let _ = form.unpack(&mut to);
            let from = random.index(len);
            let _ = form.unpack_part(from..len, &mut to);
            let mut room = vec![0; 4000];
            if let Some(run) = form.run_of(from..from + WORD)
                && let Some(run) = run.copy_to(&mut room)
            {
                let limit = random.next();
                let all = run.words.len();
                if let Some(border) = run.border(random.index(all + 1)..all, |word| word < limit) {
                    assert!(border.before <= all);
                }
            }
        }
    }
    assert!(Packed::new(&kept, len + WORD).is_none() && Packed::new(&kept[..SLACK], len).is_none());
}
