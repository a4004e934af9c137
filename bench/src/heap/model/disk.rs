//! Trees on disk, which are made once and kept.
//!
//! ```text
//!   DIRECTORY/paper/              the tree: files without data, of the sizes and times of the plan
//!   DIRECTORY/paper.made          the tree's contents; written last, to recognise an incomplete tree
//! ```
//!
//! Files are sparse: a million of them take no space except their inodes. So their disk usage is not taken
//! from the file system; instead, their sizes are rounded up to whole blocks of 4 KiB.

use std::fs::{self, File, FileTimes};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::{Entry, Model, Totals};

/// The plan of a name.
pub fn model(name: &str) -> Option<Model> {
    Some(match name {
        "paper" => Model::paper(),
        "million" => Model::million(),
        "small" => Model::small(),
        _ => return None,
    })
}

/// The tree of that name below `directory`, and its contents. The tree is made if it does not exist.
pub fn tree(name: &str, directory: &Path) -> io::Result<(PathBuf, Totals)> {
    let unknown = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("no model is called '{name}': paper, million, small"),
        )
    };
    let model = model(name).ok_or_else(unknown)?;
    let (root, stamp) = (directory.join(name), directory.join(format!("{name}.made")));
    let totals = model.totals();
    let words = format!("{totals:?}\n");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == words) {
        return Ok((root, totals));
    }
    // An existing tree is incomplete, or from an older plan.
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    make(&model, &root)?;
    fs::write(&stamp, words)?;
    Ok((root, totals))
}

/// Makes a tree at `root`, which must not exist.
pub fn make(model: &Model, root: &Path) -> io::Result<()> {
    let mut paths: Vec<PathBuf> = Vec::with_capacity(model.directories.len());
    for directory in &model.directories {
        let path = match directory.parent {
            Some(parent) => paths[parent].join(&directory.name),
            None => root.to_owned(),
        };
        if directory.parent.is_none() {
            fs::create_dir_all(&path)?;
        } else {
            fs::create_dir(&path)?;
        }
        paths.push(path);
    }
    model.each(|number, entries| {
        for entry in entries {
            match entry {
                Entry::File(plan) => {
                    let file = File::create_new(paths[number].join(&plan.name))?;
                    file.set_len(plan.size)?;
                    let time = UNIX_EPOCH + Duration::from_secs(u64::try_from(plan.modified).unwrap_or(0));
                    file.set_times(FileTimes::new().set_modified(time))?;
                }
                Entry::Link { name, to: (other, target), .. } => {
                    fs::hard_link(paths[other].join(target), paths[number].join(name))?;
                }
            }
        }
        Ok(())
    })
}
