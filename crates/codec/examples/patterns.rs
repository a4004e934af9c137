//! Counts how often the patterns of the PBPM paper occur in files of pages, with dictionaries of several
//! sizes and associativities (the paper's figure 2). `cargo run --release -p memfold-codec --example patterns
//! -- [--svg CHART] FILE...`
//!
//! Words of pages are taken in order, the dictionary starts empty with each page of
//! 4 KiB, and same-filled pages are skipped. A word counts for the first pattern
//! that it fits: of zeros, then of the dictionary, then of zeros again.

use memfold_codec::patterns::{AFTER, BEFORE, NAMES};
use memfold_codec::same_filled;

/// The bits that must be equal in a match, the longest match first.
const MATCHES: [u32; 4] = [0xFFFF_FFFF, 0xFFFF_FF00, 0xFFFF_0000, 0x00FF_0000];

/// Sets of recent words; a new word replaces the oldest of its set.
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
        // Any even distribution of the third byte will do.
        (word >> 16 & 0xFF).wrapping_mul(0x9E37_79B1) as usize >> 16 & (self.oldest.len() - 1)
    }

    fn find(&self, word: u32) -> Option<usize> {
        let set = self.set(word) * self.ways;
        let words = &self.words[set..set + self.ways];
        MATCHES.iter().position(|mask| words.iter().any(|there| (there ^ word) & mask == 0))
    }

    fn insert(&mut self, word: u32) {
        let set = self.set(word);
        self.words[set * self.ways + self.oldest[set]] = word;
        self.oldest[set] = (self.oldest[set] + 1) % self.ways;
    }
}

/// A bar for each dictionary, divided into the shares of the patterns.
fn chart(names: &[&str], rows: &[(String, Vec<f64>)]) -> String {
    const COLOURS: [&str; 12] = [
        "#1b4965", "#31708e", "#5fa8d3", "#1f7a4d", "#2f8f60", "#4a9b74", "#6aa98a", "#b08900", "#d9b44a",
        "#f0d995", "#c9c9c9", "#8a2f2f",
    ];
    let (left, width) = (90.0, 700.0);
    let height = 60 + 26 * rows.len();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        left + width + 10.0
    );
    for (i, (name, colour)) in names.iter().zip(COLOURS).enumerate() {
        let x = left + (i * 58) as f64;
        svg += &format!("<rect x=\"{x}\" y=\"12\" width=\"12\" height=\"12\" fill=\"{colour}\"/>");
        svg += &format!("<text x=\"{}\" y=\"22\">{name}</text>\n", x + 16.0);
    }
    for (i, (kind, shares)) in rows.iter().enumerate() {
        let (y, mut x) = (40 + 26 * i, left);
        svg += &format!("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{kind}</text>\n", left - 8.0, y + 15);
        for (share, colour) in shares.iter().zip(COLOURS) {
            let w = share * width / 100.0;
            svg +=
                &format!("<rect x=\"{x:.1}\" y=\"{y}\" width=\"{w:.1}\" height=\"20\" fill=\"{colour}\"/>");
            if w > 22.0 {
                svg += &format!(
                    "<text x=\"{:.1}\" y=\"{}\" fill=\"white\" text-anchor=\"middle\">{share:.0}</text>",
                    x + w / 2.0,
                    y + 15
                );
            }
            x += w;
        }
        svg += "\n";
    }
    svg + "</svg>\n"
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut svg = None;
    if arguments.first().is_some_and(|first| first == "--svg") {
        svg = arguments.drain(..2).next_back();
    }
    let data: Vec<Vec<u8>> = arguments.iter().map(|file| std::fs::read(file).expect("a file")).collect();
    let mut rows = Vec::new();
    print!("| dictionary |");
    NAMES.iter().for_each(|name| print!(" {name} |"));
    println!("\n|{}", " --- |".repeat(NAMES.len() + 1));
    for (size, ways) in [(16, 1), (16, 2), (16, 4), (32, 1), (32, 2), (32, 4), (64, 2), (256, 2)] {
        let mut counts = vec![0_u64; NAMES.len()];
        for page in data.iter().flat_map(|data| data.chunks_exact(4096)) {
            if same_filled(page).is_some() {
                continue;
            }
            let mut dictionary = Dictionary::new(size, ways);
            for word in page.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four"))) {
                let fits = |patterns: &[u32]| patterns.iter().position(|zeros| word & zeros == 0);
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
        let kind = if ways == 1 { format!("{size}, direct") } else { format!("{size}, {ways} ways") };
        print!("| {kind} |");
        let shares: Vec<f64> = counts.iter().map(|&count| 100.0 * count as f64 / all as f64).collect();
        shares.iter().for_each(|share| print!(" {share:.1} |"));
        println!();
        rows.push((kind, shares));
    }
    if let Some(path) = svg {
        std::fs::write(path, chart(&NAMES, &rows)).expect("a chart");
    }
}
