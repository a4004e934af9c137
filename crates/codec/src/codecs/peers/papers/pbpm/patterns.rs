//! The patterns of the words of pages: figure 2 of L. Yang and others, ACM TECS 9, 2010 (CRAMES), and the
//! frequencies of its table I.
//!
//! A word of 32 bits is written as four letters, the highest byte first: `z` is zero, `m` matches a word in a
//! small dictionary of recent words, `x` is anything. The word counts for the first pattern that it fits:
//! patterns of zeros, then of the dictionary, then of zeros again.

use super::{Dictionary, Match};

/// The patterns, in the order in which they are tried.
pub const NAMES: [&str; 12] =
    ["zzzz", "zzzx", "zxzx", "mmmm", "mmmx", "mmxx", "xmxx", "zzxx", "zxxx", "xzzz", "xxzz", "xxxx"];

/// The bits that must be zero in the patterns tried before the dictionary, and in those tried after it.
pub const BEFORE: [u32; 3] = [0xFFFF_FFFF, 0xFFFF_FF00, 0xFF00_FF00];
#[allow(missing_docs)]
pub const AFTER: [u32; 5] = [0xFFFF_0000, 0xFF00_0000, 0x00FF_FFFF, 0x0000_FFFF, 0];

/// The number of words of each pattern, with the dictionary of `pbpm`: 16 words in sets of two, empty at the
/// start of each page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Patterns {
    /// For each of [`NAMES`].
    pub counts: [u64; NAMES.len()],
}

impl Patterns {
    /// Counts the words of a page.
    pub fn add(&mut self, page: &[u8]) {
        let mut dictionary = Dictionary::new();
        for word in page.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)) {
            let fits = |patterns: &[u32]| patterns.iter().position(|zeros| word & zeros == 0);
            let at = fits(&BEFORE).unwrap_or_else(|| {
                let at = match dictionary.find(word) {
                    Match::Full(index) => {
                        dictionary.touch(index);
                        return 3;
                    }
                    Match::Three(_) => 4,
                    Match::Two(_) => 5,
                    Match::None if dictionary.has_third_byte(word) => 6,
                    Match::None => 7 + fits(&AFTER).unwrap_or(AFTER.len() - 1),
                };
                dictionary.insert(word);
                at
            });
            self.counts[at] += 1;
        }
    }

    /// The total number of words.
    pub fn words(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The share of each pattern; zeros if there are no words.
    pub fn shares(&self) -> [f64; NAMES.len()] {
        let words = self.words().max(1) as f64;
        self.counts.map(|count| count as f64 / words)
    }

    /// The same for the seven codes of table I, in its order: patterns without a code of their own count as
    /// `xxxx`.
    pub fn coded(&self) -> [(&'static str, f64); 7] {
        let shares = self.shares();
        let rest = shares[6..].iter().sum();
        [
            ("zzzz", shares[0]),
            ("xxxx", rest),
            ("mmmm", shares[3]),
            ("zzzx", shares[1]),
            ("mmxx", shares[5]),
            ("mmmx", shares[4]),
            ("zxzx", shares[2]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(words: &[u32]) -> Patterns {
        let page: std::vec::Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut patterns = Patterns::default();
        patterns.add(&page);
        patterns
    }

    #[test]
    fn each_pattern_is_counted_for_what_it_is() {
        let word = 0x1234_5678;
        let cases: [(&[u32], &str); 12] = [
            (&[0], "zzzz"),
            (&[0x80], "zzzx"),
            (&[0x0011_0022], "zxzx"),
            (&[word, word], "mmmm"),
            (&[word, 0x1234_56FF], "mmmx"),
            (&[word, 0x1234_FFFF], "mmxx"),
            (&[word, 0xFF34_FFFF], "xmxx"),
            (&[0x0000_1234], "zzxx"),
            (&[0x0012_3456], "zxxx"),
            (&[0x1200_0000], "xzzz"),
            (&[0x1234_0000], "xxzz"),
            (&[word], "xxxx"),
        ];
        for (words, name) in cases {
            let counts = count(words).counts;
            let at = NAMES.iter().position(|it| *it == name).unwrap();
            // An empty dictionary holds zeros, whose third byte, and upper bytes, are zero too.
            let by_zeros = counts[4..7].iter().sum::<u64>() == 1 && words.len() == 1;
            assert!(counts[at] == 1 || by_zeros, "{name}: {counts:?}");
            assert_eq!(counts.iter().sum::<u64>(), words.len() as u64);
        }
    }

    #[test]
    fn shares_and_codes_are_of_all_words() {
        // Words whose third bytes are all different: no word matches another.
        let words: std::vec::Vec<u32> = (1..200_u32).map(|i| i << 16 | 0x0100_0101 | i << 24).collect();
        let patterns = count(&words);
        assert!(patterns.shares()[11] > 0.9, "{patterns:?}");
        assert_eq!(patterns.words(), 199);
        let coded: f64 = patterns.coded().iter().map(|it| it.1).sum();
        assert!((coded - 1.0).abs() < 1e-9);
        assert_eq!(Patterns::default().shares()[0], 0.0);
    }
}
