//! Finds a tree by the name of a model or by a directory.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::model::disk;
use crate::ncdu::scan::Usage;
use crate::once::Tree;

/// Where the models' trees are.
#[derive(Debug, Clone, Args)]
pub struct Trees {
    /// Where trees of models are made, and kept
    #[arg(long, value_name = "DIR", default_value = "/var/tmp/memfold-trees")]
    pub trees: PathBuf,
}

impl Trees {
    /// A tree by its name on the command line: a directory contains a slash.
    pub fn find(&self, name: &str) -> Result<Tree, String> {
        if name.contains('/') {
            let path = PathBuf::from(name);
            let last = Path::new(name.trim_end_matches('/')).file_name();
            let called =
                last.map_or_else(|| String::from("root"), |last| last.to_string_lossy().into_owned());
            return Ok(Tree { name: called, path, usage: Usage::Blocks, totals: None });
        }
        let failed =
            |error: std::io::Error| format!("the tree '{name}' in {}: {error}", self.trees.display());
        let (path, totals) = disk::tree(name, &self.trees).map_err(failed)?;
        Ok(Tree { name: name.to_owned(), path, usage: Usage::Size, totals: Some(totals) })
    }
}
