//! How often the patterns of the paper on PBPM occur in files of pages, with
//! dictionaries of several sizes and associativities: its figure 2.
//! `cargo run --release -p memfold-codec --example patterns -- FILE...`
//!
//! Words of pages are taken in order, the dictionary starts empty with each page of
//! 4 KiB, and same-filled pages are skipped. A word counts for the first pattern
//! that it fits: of zeros, then of the dictionary, then of zeros again.

use memfold_codec::same_filled;

/// The patterns before the dictionary is asked, and those after it.
const BEFORE: [(&str, u32); 3] = [("zzzz", 0xFFFF_FFFF), ("zzzx", 0xFFFF_FF00), ("zxzx", 0xFF00_FF00)];
const MATCHES: [(&str, u32); 4] =
    [("mmmm", 0xFFFF_FFFF), ("mmmx", 0xFFFF_FF00), ("mmxx", 0xFFFF_0000), ("xmxx", 0x00FF_0000)];
const AFTER: [(&str, u32); 5] =
    [("zzxx", 0xFFFF_0000), ("zxxx", 0xFF00_0000), ("xzzz", 0x00FF_FFFF), ("xxzz", 0x0000_FFFF), ("xxxx", 0)];

/// Sets of words seen lately; the oldest of a set makes room.
struct Dictionary {
    ways: usize,
    words: Vec<u32>,
    oldest: Vec<usize>,
}

impl Dictionary {
    fn new(size: usize, ways: usize) -> Self {
        Dictionary { ways, words: vec![0; size], oldest: vec![0; size / ways] }
    }

    fn set(&self, word: u32) -> usize {
        // Any even spread of the third byte will do.
        (word >> 16 & 0xFF).wrapping_mul(0x9E37_79B1) as usize >> 16 & (self.oldest.len() - 1)
    }

    fn find(&self, word: u32) -> Option<usize> {
        let set = self.set(word) * self.ways;
        let words = &self.words[set..set + self.ways];
        MATCHES.iter().position(|(_, mask)| words.iter().any(|there| (there ^ word) & mask == 0))
    }

    fn insert(&mut self, word: u32) {
        let set = self.set(word);
        self.words[set * self.ways + self.oldest[set]] = word;
        self.oldest[set] = (self.oldest[set] + 1) % self.ways;
    }
}

fn main() {
    let data: Vec<Vec<u8>> =
        std::env::args().skip(1).map(|file| std::fs::read(file).expect("a file")).collect();
    let names: Vec<&str> = BEFORE.iter().map(|(name, _)| *name).collect();
    let matches = MATCHES.iter().map(|(name, _)| *name);
    let names: Vec<&str> =
        names.into_iter().chain(matches).chain(AFTER.iter().map(|(name, _)| *name)).collect();
    print!("| dictionary |");
    names.iter().for_each(|name| print!(" {name} |"));
    println!("\n|{}", " --- |".repeat(names.len() + 1));
    for (size, ways) in [(16, 1), (16, 2), (16, 4), (32, 1), (32, 2), (32, 4), (64, 2), (256, 2)] {
        let mut counts = vec![0_u64; names.len()];
        for page in data.iter().flat_map(|data| data.chunks_exact(4096)) {
            if same_filled(page).is_some() {
                continue;
            }
            let mut dictionary = Dictionary::new(size, ways);
            for word in page.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four"))) {
                let fits =
                    |patterns: &[(&str, u32)]| patterns.iter().position(|(_, zeros)| word & zeros == 0);
                if let Some(i) = fits(&BEFORE) {
                    counts[i] += 1;
                    continue;
                }
                let found = dictionary.find(word);
                if found != Some(0) {
                    dictionary.insert(word);
                }
                let i = found.unwrap_or_else(|| MATCHES.len() + fits(&AFTER).expect("the last is any"));
                counts[BEFORE.len() + i] += 1;
            }
        }
        let all: u64 = counts.iter().sum();
        let kind = if ways == 1 { "direct".to_owned() } else { format!("{ways} ways") };
        print!("| {size}, {kind} |");
        counts.iter().for_each(|&count| print!(" {:.1} |", 100.0 * count as f64 / all as f64));
        println!();
    }
}
