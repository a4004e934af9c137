//! Completions for shells.

use clap_complete::{Shell, generate};

use crate::definition;

/// The files, below a `share` directory, and their contents.
pub fn all() -> Vec<(String, Vec<u8>)> {
    [
        (Shell::Bash, "bash-completion/completions/memfold"),
        (Shell::Zsh, "zsh/site-functions/_memfold"),
        (Shell::Fish, "fish/vendor_completions.d/memfold.fish"),
    ]
    .map(|(shell, name)| {
        let mut text = Vec::new();
        generate(shell, &mut definition::for_shells(), "memfold", &mut text);
        (name.to_owned(), text)
    })
    .into()
}
