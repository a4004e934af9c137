//! Names, sizes and times of files, as in several kinds of directories.
//!
//! Names decide how well nodes compress, since the rest of a node is links and numbers that resemble each
//! other. So each directory has a **style**, and its files get realistic names, with words, dates, counters,
//! or digests that do not compress at all.

use crate::random::Random;

/// The kind of a directory's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Sources and packages of JavaScript, Python, C and Rust.
    Package,
    /// Output of compilers: names with digests of 64 bits.
    Build,
    /// Pictures of cameras and phones.
    Photo,
    /// Logs by date and number.
    Log,
    /// Letters, one file each, as maildir names them.
    Mail,
    /// Objects named by a digest of their contents.
    Digest,
    /// Documents that people write.
    Document,
    /// Pieces of music.
    Music,
}

/// Styles, and the percentage of directories that have them.
const SHARES: [(Style, usize); 8] = [
    (Style::Package, 36),
    (Style::Build, 16),
    (Style::Photo, 11),
    (Style::Log, 7),
    (Style::Mail, 9),
    (Style::Digest, 8),
    (Style::Document, 9),
    (Style::Music, 4),
];

/// Words that are frequent in names of files.
const WORDS: &str = "account action adapter admin agent alert analysis api app archive array asset async audio auth backup base batch \
    benchmark binary block board book border browser buffer build button cache calendar camera canvas card catalog channel chart check \
    client clock cloud code collection color column command common compiler component config connection constant container content \
    context control convert core count create crypto cursor data database date debug decoder default delete design detail device dialog \
    diff document domain download draft driver editor element email encoder engine entity entry error event example export extension \
    factory feature field file filter final flag folder font form format frame function gallery garden gateway generator global graph \
    group guide handler header health helper history holiday home hook house html icon image import index info input install instance \
    interface internal invoice item iterator job journal json kernel key label language layer layout legacy letter level library license \
    light line link list loader local locale lock logger login loop machine macro main manager map market matrix media memory menu merge \
    message meta method metrics migration mock model module monitor mount music native network node normal note notice number object offer \
    option order output package page panel parser patch path pattern payment photo picture pipeline plan platform player plugin point policy \
    pool port portal post preview price print process product profile project property protocol provider proxy public query queue random \
    range reader receipt record recipe registry release remote render report request reset resource response result review river role route \
    router runtime sample scanner schedule schema scope screen script search section security select sensor sequence server service session \
    setting shader shape share shell signal simple snapshot socket song source space spec split stage state static status storage store \
    stream string structure style summary summer support switch symbol sync system table target task team template terminal test text theme \
    thread ticket time timer token tool trace tracker transfer transport travel tree trigger type unit update upload user util value vector \
    version video view virtual visit volume water weather web widget window winter worker wrapper writer xml yaml year zone";

const HOSTS: [&str; 6] = ["mail", "mx01.example.org", "srv-4", "imap", "localhost", "post.example.net"];

/// A file to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Seconds since 1970.
    pub modified: i64,
}

/// The words of [`WORDS`].
pub struct Words(Vec<&'static str>);

impl Words {
    pub fn new() -> Self {
        Words(WORDS.split_whitespace().collect())
    }

    /// A word. Some words are more frequent than others, as in any language.
    fn one(&self, random: &mut Random) -> &'static str {
        let (a, b) = (random.below(self.0.len()), random.below(self.0.len()));
        // The smaller of two numbers has linearly decreasing probability. The multiplication spreads it over
        // the list, which is alphabetical.
        self.0[(a.min(b) * 7919) % self.0.len()]
    }

    /// Some words with `between` between them.
    fn some(&self, count: usize, between: &str, random: &mut Random) -> String {
        (0..count).map(|_| self.one(random)).collect::<Vec<_>>().join(between)
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn hex(digits: usize, random: &mut Random) -> String {
    (0..digits).map(|_| char::from(b"0123456789abcdef"[random.below(16)])).collect()
}

fn pick<'a>(of: &[&'a str], random: &mut Random) -> &'a str {
    of[random.below(of.len())]
}

/// Year, month and day of a time.
pub fn date(time: i64) -> (i64, i64, i64) {
    // Days since 1 March of the year 0, in years of 365.2425 days; exact enough for any date here.
    let days = time.div_euclid(86_400) + 719_468;
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (year + era * 400 + i64::from(month <= 2), month, day)
}

impl Style {
    /// The style of one of a hundred directories.
    pub fn of(mut at: usize) -> Style {
        at %= 100;
        for (style, share) in SHARES {
            if at < share {
                return style;
            }
            at -= share;
        }
        Style::Package
    }

    /// A name for a directory of this style.
    pub fn directory(self, words: &Words, random: &mut Random) -> String {
        match self {
            Style::Package => match random.below(4) {
                0 => pick(&["src", "lib", "dist", "test", "docs", "types", "__pycache__", "include"], random)
                    .to_owned(),
                1 => words.one(random).to_owned(),
                2 => words.some(2, "-", random),
                _ => words.some(2, "_", random),
            },
            Style::Build => format!("{}-{}", words.one(random), hex(16, random)),
            Style::Photo => {
                let (year, month, day) = date(1_300_000_000 + random.below(440_000_000) as i64);
                format!("{year}-{month:02}-{day:02} {}", capital(words.one(random)))
            }
            Style::Log => words.some(1 + random.below(2), "-", random),
            Style::Mail => pick(&["cur", "new", ".Sent", ".Archive", ".Lists"], random).to_owned(),
            Style::Digest => hex(2, random),
            Style::Document => words.some(1 + random.below(2), " ", random),
            Style::Music => {
                format!("{} - {}", capital(words.one(random)), capital(&words.some(2, " ", random)))
            }
        }
    }

    /// File number `nth` of a directory whose files were made from `born` on.
    pub fn file(self, nth: usize, born: i64, words: &Words, random: &mut Random) -> File {
        let modified = born + (nth as i64) * 37 + random.below(86_400) as i64;
        let (name, middle, spread) = match self {
            Style::Package => (package(words, random), 7.8, 1.5),
            Style::Build => {
                let (word, digest) = (words.some(1 + random.below(3), "_", random), hex(16, random));
                let name = match random.below(4) {
                    0 => format!("lib{word}-{digest}.rlib"),
                    1 => format!("lib{word}-{digest}.rmeta"),
                    2 => format!("{word}-{digest}.d"),
                    _ => format!("{word}.{word}.{}-cgu.{:02}.rcgu.o", hex(16, random), random.below(16)),
                };
                (name, 9.8, 2.0)
            }
            Style::Photo => (photo(nth, modified, random), 14.6, 0.8),
            Style::Log => {
                let ((year, month, day), word) = (date(born + 86_400 * nth as i64), words.one(random));
                let name = match random.below(3) {
                    0 => format!("{word}-{year}-{month:02}-{day:02}.log.gz"),
                    1 => format!("{word}.log.{nth}.gz"),
                    _ => format!("{word}-{year}{month:02}{day:02}T{:02}0000.log", random.below(24)),
                };
                (name, 10.5, 2.2)
            }
            Style::Mail => {
                let size = 1000 + random.below(60_000);
                let (host, flags) = (pick(&HOSTS, random), pick(&["S", "", "RS", "FS"], random));
                let (micros, process) = (random.below(1_000_000), random.below(30_000));
                return File {
                    name: format!(
                        "{modified}.M{micros}P{process}.{host},S={size},W={}:2,{flags}",
                        size + size / 40
                    ),
                    size: size as u64,
                    modified,
                };
            }
            Style::Digest => match random.below(3) {
                0 => (hex(38, random), 7.0, 1.8),
                1 => (hex(40, random), 9.0, 1.8),
                _ => (format!("{}.bin", hex(32, random)), 9.0, 1.8),
            },
            Style::Document => {
                let word = capital(&words.some(1 + random.below(4), pick(&[" ", "_", "-"], random), random));
                let (year, ending) =
                    (2005 + random.below(20), pick(&["pdf", "docx", "odt", "txt", "xlsx", "pptx"], random));
                let name = match random.below(4) {
                    0 => format!("{word} {year}.{ending}"),
                    1 => format!("{word} v{}.{ending}", 1 + random.below(5)),
                    2 => format!("{word} ({}).{ending}", 1 + random.below(9)),
                    _ => format!("{word}.{ending}"),
                };
                (name, 11.3, 1.6)
            }
            Style::Music => {
                let title = words.some(1 + random.below(4), " ", random);
                (
                    format!("{:02} - {}.{}", nth + 1, capital(&title), pick(&["mp3", "flac", "ogg"], random)),
                    15.5,
                    0.5,
                )
            }
        };
        File { name, size: size(middle, spread, random), modified }
    }
}

fn package(words: &Words, random: &mut Random) -> String {
    let count = 1 + random.below(3);
    match random.below(10) {
        0 => pick(
            &[
                "package.json",
                "README.md",
                "LICENSE",
                "index.js",
                "index.d.ts",
                "__init__.py",
                "Makefile",
                "CHANGELOG.md",
            ],
            random,
        )
        .to_owned(),
        1 | 2 => format!("{}.js", words.some(count, "-", random)),
        3 => format!("{}.d.ts", words.some(count, "-", random)),
        4 => format!("{}.js.map", words.some(count, "-", random)),
        5 => format!("{}.py", words.some(count, "_", random)),
        6 => format!("{}.cpython-311.pyc", words.some(count, "_", random)),
        7 => format!("{}.h", words.some(count, "_", random)),
        8 => format!("{}.rs", words.some(count, "_", random)),
        _ => {
            (0..count + 1).map(|_| capital(words.one(random))).collect::<String>()
                + pick(&[".java", ".class", ".tsx"], random)
        }
    }
}

fn photo(nth: usize, taken: i64, random: &mut Random) -> String {
    let ((year, month, day), seconds) = (date(taken), taken.rem_euclid(86_400));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match random.below(5) {
        0 => format!("DSC{:05}.{}", nth % 100_000, pick(&["JPG", "ARW"], random)),
        1 | 2 => format!("IMG_{year}{month:02}{day:02}_{hour:02}{minute:02}{second:02}.jpg"),
        3 => format!(
            "PXL_{year}{month:02}{day:02}_{hour:02}{minute:02}{second:02}{:03}.jpg",
            random.below(1000)
        ),
        _ => format!("IMG_{:04}.{}", nth % 10_000, pick(&["HEIC", "MOV", "JPG"], random)),
    }
}

/// A size whose logarithm is nearly normal, at most 4 GiB.
fn size(middle: f64, spread: f64, random: &mut Random) -> u64 {
    let normal: f64 = (0..12).map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0;
    ((middle + spread * normal).exp() as u64).min(4 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_correct() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(951_782_400), (2000, 2, 29));
        assert_eq!(date(1_735_689_599), (2024, 12, 31));
    }

    #[test]
    fn the_same_seed_gives_the_same_names() {
        let words = Words::new();
        let names = |seed| {
            let mut random = Random(seed);
            (0..1000).map(|i| Style::of(i).file(i, 0, &words, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
    }
}
