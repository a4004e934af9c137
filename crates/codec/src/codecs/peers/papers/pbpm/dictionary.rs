//! The dictionary: 16 recent words, in eight sets of two.
//!
//! The third byte of a word selects its set, by a table of 256 random sets. A new word replaces the older
//! word of its set: the one that was inserted or matched exactly longer ago. Encoder and decoder make the
//! same updates in the same order, so only indices are stored.
//!
//! ```text
//! index   0   1   2   3   4   5        14  15
//!       +---+---+---+---+---+---+-- --+---+---+
//!       | set 0 | set 1 | set 2 |     | set 7 |
//!       +---+---+---+---+---+---+-- --+---+---+
//! ```

/// The set of a word, by its third byte. Part of the format.
static SETS: [u8; 256] = sets();

/// Each of the eight sets 32 times, shuffled with a generator that is easy to reimplement: x' = 1664525 x +
/// 1013904223 modulo 2^32, starting from 0; the byte at place i, from 255 down to 1, is exchanged with the
/// one at (x >> 16) mod (i + 1).
const fn sets() -> [u8; 256] {
    let mut sets = [0; 256];
    let mut i = 0;
    while i < 256 {
        sets[i] = (i % 8) as u8;
        i += 1;
    }
    let mut x = 0_u32;
    let mut i = 255;
    while i > 0 {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let j = (x >> 16) as usize % (i + 1);
        let swapped = sets[i];
        sets[i] = sets[j];
        sets[j] = swapped;
        i -= 1;
    }
    sets
}

/// How a word matches one of the dictionary, and the index of that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    Full(u8),
    /// The three high bytes.
    Three(u8),
    /// The two high bytes.
    Two(u8),
    None,
}

pub(crate) struct Dictionary {
    words: [u32; 16],
    /// The index of the older word of each set.
    older: [u8; 8],
}

impl Dictionary {
    pub(crate) fn new() -> Self {
        Dictionary { words: [0; 16], older: [0, 2, 4, 6, 8, 10, 12, 14] }
    }

    #[inline(always)]
    fn set(word: u32) -> usize {
        usize::from(SETS[(word >> 16 & 0xFF) as usize] & 7)
    }

    /// The longest match; of two equally long ones, the one in the closer word.
    #[inline(always)]
    pub(crate) fn find(&self, word: u32) -> Match {
        let index = 2 * Self::set(word);
        let differ = [self.words[index] ^ word, self.words[index + 1] ^ word];
        // The word that agrees in more high bits is never the worse match.
        let which = usize::from(differ[1] < differ[0]);
        let (best, index) = (differ[which], (index + which) as u8);
        match best {
            0 => Match::Full(index),
            1..=0xFF => Match::Three(index),
            0x100..=0xFFFF => Match::Two(index),
            _ => Match::None,
        }
    }

    /// Whether a word of its set has the same third byte, whatever the others; no code stands for that.
    pub(crate) fn has_third_byte(&self, word: u32) -> bool {
        let index = 2 * Self::set(word);
        self.words[index..index + 2].iter().any(|there| (there ^ word) & 0xFF_0000 == 0)
    }

    /// The word at an index below 16.
    #[inline(always)]
    pub(super) fn get(&self, index: u8) -> u32 {
        self.words[usize::from(index & 15)]
    }

    /// Makes the other word of the set the older one.
    #[inline(always)]
    pub(crate) fn touch(&mut self, index: u8) {
        self.older[usize::from(index >> 1 & 7)] = index & 15 ^ 1;
    }

    /// Replaces the older word of its set.
    #[inline(always)]
    pub(crate) fn insert(&mut self, word: u32) {
        let older = &mut self.older[Self::set(word)];
        self.words[usize::from(*older & 15)] = word;
        *older ^= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_even_and_never_change() {
        for set in 0..8 {
            assert_eq!(SETS.iter().filter(|&&s| s == set).count(), 32);
        }
        assert_eq!(SETS[..16], [2, 7, 1, 7, 7, 4, 2, 3, 0, 4, 4, 5, 3, 1, 3, 6]);
        let sum = SETS.iter().fold(0_u32, |sum, &set| sum.wrapping_mul(31).wrapping_add(set.into()));
        assert_eq!(sum, 2_354_840_964);
    }

    #[test]
    fn the_older_of_a_set_makes_room() {
        // Words of one set: they share the third byte.
        let [a, b, c] = [0x0101_0000, 0x0201_0000, 0x0301_0000];
        let mut dictionary = Dictionary::new();
        dictionary.insert(a);
        dictionary.insert(b);
        let first = 2 * SETS[1];
        assert_eq!(dictionary.find(a), Match::Full(first));
        assert_eq!(dictionary.find(b), Match::Full(first + 1));
        dictionary.insert(c);
        assert_eq!(dictionary.find(a), Match::None);
        assert_eq!(dictionary.find(c), Match::Full(first));
        assert_eq!(dictionary.find(b | 0x99), Match::Three(first + 1));
        assert_eq!(dictionary.find(c | 0x8800), Match::Two(first));
        // Now b is the older one, unless it is found again.
        dictionary.touch(first + 1);
        dictionary.insert(a);
        assert_eq!(dictionary.find(c), Match::None);
        assert_eq!(dictionary.find(b), Match::Full(first + 1));
    }
}
