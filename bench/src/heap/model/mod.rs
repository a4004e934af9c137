//! Directory trees to measure with: the directories and their contents.
//!
//! A [`Model`] is a plan, made from a seed: directories with their parents and, for each directory, the
//! number of its files and the seed for them. [`disk`] makes the tree in a file system. What a scan must find
//! is known beforehand ([`Totals`]).

pub mod disk;
pub mod names;
pub mod trees;

use std::collections::HashSet;

use crate::random::Random;
use names::{File, Style, Words};

/// One in this many files of a package directory is a hard link.
const LINKED: usize = 60;
/// The most names of a file.
const NAMES: usize = 5;
/// Number of files in the directory that is opened.
pub const LARGE: usize = 25_000;

/// A directory of a plan.
#[derive(Debug)]
pub struct Directory {
    /// Its parent's number, which is smaller than its own; the first one has none.
    pub parent: Option<usize>,
    pub name: String,
    style: Style,
    files: usize,
    seed: u64,
}

/// What is made in a directory.
#[derive(Debug)]
pub enum Entry {
    File(File),
    /// Another name for the first file of an earlier directory.
    Link {
        name: String,
        to: (usize, String),
        size: u64,
    },
}

/// A plan of a tree.
#[derive(Debug)]
pub struct Model {
    pub directories: Vec<Directory>,
}

/// The contents of a tree, however it is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Directories, including the root.
    pub directories: u64,
    /// Names of anything else.
    pub files: u64,
    /// Bytes of these files, counted once for each name.
    pub bytes: u64,
    /// Bytes of all names.
    pub name_bytes: u64,
}

impl Model {
    /// The tree of compll's paper: a hundred directories with 225,000 files, 25,000 of them in one.
    pub fn paper() -> Self {
        let mut random = Random(225);
        let mut model = Model::root();
        for i in 0..99 {
            let style = if i == 49 { Style::Photo } else { Style::of(i * 37) };
            let parent = if i < 12 { 0 } else { 1 + random.below(11) };
            model.add(parent, style, &mut random);
        }
        model.fill(225_000, 50, |random| 1.0 + random.below(1000) as f64 / 500.0, &mut random);
        model
    }

    /// A million files in 20,000 directories.
    pub fn million() -> Self {
        Model::wide(20_000, 1_000_000, Random(1_000_000))
    }

    /// A small tree, for tests.
    pub fn small() -> Self {
        Model::wide(30, 3000, Random(3000))
    }

    fn wide(directories: usize, files: usize, mut random: Random) -> Self {
        let mut model = Model::root();
        let areas = 100.min(directories / 2);
        for i in 1..directories {
            // The parent is one of the directories of its own area, preferably a shallow one.
            let (parent, style) = if i <= areas {
                (0, Style::of(i * 37))
            } else {
                let of = (0..3).map(|_| 1 + random.below(i - 1)).min().unwrap_or(1);
                (of, model.directories[of].style)
            };
            model.add(parent, style, &mut random);
        }
        // Few directories hold most of the files.
        let weight = |random: &mut Random| 1.0 / (0.002 + random.below(1 << 20) as f64 / f64::from(1 << 20));
        model.fill(files, directories / 2, weight, &mut random);
        model
    }

    fn root() -> Self {
        let name = String::from("tree");
        Model {
            directories: vec![Directory { parent: None, name, style: Style::Document, files: 0, seed: 0 }],
        }
    }

    fn add(&mut self, parent: usize, style: Style, random: &mut Random) {
        // The number makes the name unique below its parent.
        let name = format!("{}{}", style.directory(&Words::new(), random), self.directories.len());
        let seed = random.next();
        self.directories.push(Directory { parent: Some(parent), name, style, files: 0, seed });
    }

    /// Distributes `files` by weights; one directory gets [`LARGE`] of them if there are that many.
    fn fill(&mut self, files: usize, large: usize, weight: impl Fn(&mut Random) -> f64, random: &mut Random) {
        let own = if files > 2 * LARGE { LARGE } else { files / 4 };
        let weights: Vec<f64> = self.directories.iter().map(|_| weight(random)).collect();
        let sum: f64 =
            weights.iter().enumerate().filter(|&(i, _)| i != large && i != 0).map(|(_, weight)| weight).sum();
        let (mut before, mut given) = (0.0, 0);
        for (i, directory) in self.directories.iter_mut().enumerate() {
            directory.files = match i {
                0 => 0,
                _ if i == large => own,
                _ => {
                    before += weights[i];
                    let until = ((files - own) as f64 * before / sum).round() as usize;
                    let mine = until - given;
                    given = until;
                    mine
                }
            };
        }
    }

    /// Calls the caller's function for each directory in turn, with its number and the entries to be made.
    pub fn each(
        &self,
        mut make: impl FnMut(usize, Vec<Entry>) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let words = Words::new();
        let (mut before, mut names): (Option<(usize, String, u64)>, usize) = (None, 1);
        for (number, directory) in self.directories.iter().enumerate() {
            let mut random = Random(directory.seed);
            let born = 1_200_000_000 + random.below(500_000_000) as i64;
            // Names of directories end in their number, so no file has such a name.
            let mut taken = HashSet::with_capacity(directory.files);
            let mut first = None;
            let mut entries = Vec::with_capacity(directory.files);
            for nth in 0..directory.files {
                let mut file = directory.style.file(nth, born, &words, &mut random);
                if !taken.insert(file.name.clone()) {
                    file.name = format!("{nth}-{}", file.name);
                    taken.insert(file.name.clone());
                }
                let links = directory.style == Style::Package && nth > 0 && random.below(LINKED) == 0;
                entries.push(match &before {
                    Some((to, target, size)) if links && names < NAMES => {
                        names += 1;
                        Entry::Link { name: file.name, to: (*to, target.clone()), size: *size }
                    }
                    _ => {
                        first.get_or_insert_with(|| (number, file.name.clone(), file.size));
                        Entry::File(file)
                    }
                });
            }
            (before, names) = if first.is_some() { (first, 1) } else { (before, names) };
            make(number, entries)?;
        }
        Ok(())
    }

    /// The expected contents.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { directories: self.directories.len() as u64, ..Totals::default() };
        totals.name_bytes = self.directories.iter().map(|directory| directory.name.len() as u64).sum();
        let counted = self.each(|_, entries| {
            for entry in entries {
                let (name, size) = match entry {
                    Entry::File(file) => (file.name, file.size),
                    Entry::Link { name, size, .. } => (name, size),
                };
                totals.files += 1;
                totals.bytes += size;
                totals.name_bytes += name.len() as u64;
            }
            Ok(())
        });
        counted.expect("nothing here fails");
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_as_large_as_they_say() {
        let paper = Model::paper().totals();
        assert_eq!((paper.directories, paper.files), (100, 225_000));
        let million = Model::million();
        let totals = million.totals();
        assert_eq!((totals.directories, totals.files), (20_000, 1_000_000));
        let mean = totals.name_bytes as f64 / (totals.directories + totals.files) as f64;
        assert!((27.0..29.0).contains(&mean), "names of {mean} bytes");
        assert!(million.directories.iter().any(|directory| directory.files == LARGE));
    }
}
