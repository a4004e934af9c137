//! A synthetic tree in the form of an export by ncdu.
//!
//! It is irregular: directories hold a few entries or thousands and are deep or shallow, files have realistic
//! names (names.rs), and some are hard links. One directory contains a fiftieth of all entries.

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};

use crate::names::{Style, Words};
use crate::random::Random;

/// How deep directories may be nested.
const DEEP: usize = 40;
/// One in this many package files has another name.
const LINKED: usize = 60;

struct Writer<W: Write> {
    to: W,
    random: Random,
    words: Words,
    extended: bool,
    left: u64,
    inode: u64,
    taken: HashSet<String>,
}

/// Writes a tree of about this many entries.
pub fn write(to: impl Write, entries: u64, extended: bool) -> io::Result<()> {
    let mut writer = Writer {
        to: BufWriter::with_capacity(1 << 18, to),
        random: Random(entries),
        words: Words::new(),
        extended,
        left: entries,
        inode: 1000,
        taken: HashSet::new(),
    };
    writer.to.write_all(br#"[1,2,{"progname":"bench-du","progver":"1","timestamp":1700000000},"#)?;
    writer.to.write_all(br#"[{"name":"/simulated","dev":1,"asize":4096,"dsize":4096}"#)?;
    // For each open directory: the number of its remaining entries, and its style.
    let mut open: Vec<(usize, Style)> = Vec::new();
    let (mut number, mut is_large_there) = (0, false);
    while writer.left > 0 {
        while open.last().is_some_and(|(left, _)| *left == 0) {
            open.pop();
            writer.to.write_all(b"]")?;
        }
        let style = match open.last_mut() {
            Some((left, style)) if writer.random.below(8) > 0 => {
                *left -= 1;
                *style
            }
            Some((left, _)) => {
                *left -= 1;
                Style::of(writer.random.below(100))
            }
            None => Style::of(writer.random.below(100)),
        };
        number += 1;
        let is_large = !is_large_there && number > 1000 && style == Style::Photo;
        is_large_there |= is_large;
        writer.directory(style, number)?;
        let most = if is_large { entries / 50 } else { writer.tail(12, 20_000) };
        writer.files(style, most)?;
        let deeper = if open.len() >= DEEP { 0 } else { writer.tail(1, 300) as usize };
        open.push((deeper, style));
    }
    open.iter().try_for_each(|_| writer.to.write_all(b"]"))?;
    writer.to.write_all(b"]]\n")?;
    writer.to.flush()
}

impl<W: Write> Writer<W> {
    /// A number, usually a small one, with a long tail.
    fn tail(&mut self, usual: u64, most: u64) -> u64 {
        let share = (1 + self.random.below(1 << 20)) as f64 / f64::from(1 << 20);
        ((usual as f64 * (share.powf(-0.8) - 0.6)) as u64).min(most)
    }

    fn directory(&mut self, style: Style, number: u64) -> io::Result<()> {
        self.left -= 1;
        let name = style.directory(&self.words, &mut self.random);
        write!(self.to, r#",[{{"name":"{name}{number}","asize":4096,"dsize":4096"#)?;
        self.end(1_600_000_000, 0o40755)
    }

    fn files(&mut self, style: Style, most: u64) -> io::Result<()> {
        let born = 1_200_000_000 + self.random.below(500_000_000) as i64;
        self.taken.clear();
        let mut before = 0;
        for nth in 0..most.min(self.left) {
            let mut file = style.file(nth as usize, born, &self.words, &mut self.random);
            if !self.taken.insert(file.name.clone()) {
                file.name = format!("{nth}-{}", file.name);
                self.taken.insert(file.name.clone());
            }
            let size = file.size;
            let disk = size.div_ceil(4096) * 4096;
            write!(self.to, r#",{{"name":"{}","asize":{size},"dsize":{disk}"#, file.name)?;
            if style == Style::Package && (before > 0 || self.random.below(LINKED) == 0) {
                // A file and its other name are adjacent.
                before = (before + 1) % 2;
                self.inode += before;
                write!(self.to, r#","ino":{},"hlnkc":true,"nlink":2"#, self.inode)?;
            }
            self.end(file.modified, 0o100_644)?;
        }
        self.left -= most.min(self.left);
        Ok(())
    }

    fn end(&mut self, modified: i64, mode: u32) -> io::Result<()> {
        if self.extended {
            write!(self.to, r#","uid":1000,"gid":1000,"mode":{mode},"mtime":{modified}"#)?;
        }
        self.to.write_all(b"}")
    }
}
