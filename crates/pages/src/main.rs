//! Makes the man pages and the completions of the command: `memfold-pages DIR` writes them to DIR, which then has
//! the layout of a `share` directory.
//!
//! ```text
//!   crates/cli: args, */args ───> definition ──────────┬─> completions
//!   crates/du: browse/help; crates/cli: */columns ─────┴─> pages <── man/*.man, written by hand
//! ```
//!
//! These modules need only clap. So this program is built in seconds, and the command contains nothing of it.

use std::io;
use std::path::Path;

#[path = "../../cli/src/analyze"]
mod analyze {
    #[allow(dead_code, missing_docs)]
    pub mod args;
}
#[path = "../../cli/src/args.rs"]
#[allow(dead_code)]
mod args;
mod completions;
mod definition;
#[path = "../../cli/src/disk"]
mod disk {
    #[allow(dead_code, missing_docs)]
    pub mod args;
    #[allow(dead_code, missing_docs)]
    pub mod columns;
}
#[path = "../../cli/src/du"]
mod du {
    #[allow(dead_code, missing_docs)]
    pub mod args;
}
#[path = "../../du/src/browse/help.rs"]
mod help;
mod pages;
#[cfg(test)]
mod tests;
#[path = "../../cli/src/top"]
mod top {
    #[allow(dead_code, missing_docs)]
    pub mod args;
    #[allow(dead_code, missing_docs)]
    pub mod columns;
}

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(directory), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: memfold-pages DIR");
        std::process::exit(2);
    };
    if let Err(error) = write(directory.as_ref()) {
        eprintln!("memfold-pages: {}: {error}", directory.display());
        std::process::exit(1);
    }
}

/// Writes all files.
fn write(directory: &Path) -> io::Result<()> {
    let mut files = completions::all();
    files.extend(pages::all().into_iter().map(|(name, page)| (format!("man/man1/{name}.1"), page)));
    for (name, text) in files {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(directory))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}
