//! Makes the man pages and the completions of the command: `memfold-pages DIR` writes them to DIR, which then has
//! the layout of a `share` directory.
//!
//! ```text
//!   crates/args ──> definition ──────┬─> completions
//!   crates/du: browse/help ──────────┴─> pages <── man/*.man, written by hand
//! ```
//!
//! Both need only clap, so this program builds in seconds, and the command contains none of its code.

use std::io;
use std::path::Path;

mod completions;
mod definition;
#[path = "../../du/src/browse/help.rs"]
mod help;
mod pages;
#[cfg(test)]
mod tests;

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
