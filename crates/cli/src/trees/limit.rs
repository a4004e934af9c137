//! `memfold limit`: shows or changes the limit of a running tree.

use std::sync::atomic::Ordering::Relaxed;

use memfold::size::Human;
use memfold_args::LimitArgs;

use crate::output::failure::{Failure, say};
use crate::output::text::print;
use crate::settings::limit::{HOW, read_limit};
use crate::trees;

/// Shows or changes the limit, and returns the exit status.
pub fn limit(args: &LimitArgs) -> Result<i32, Failure> {
    // Parse first, because a mistyped value is an error regardless of running trees.
    let read = |whose| args.size.as_deref().map(|size| read_limit(size, HOW, whose)).transpose();
    read(None)?;
    let tree = trees::of(args.pid)?;
    let new = read(Some(tree.supervisor))?;
    let text = match new {
        None => {
            let auto = if tree.is_auto() { ", auto" } else { "" };
            format!("{}{auto}\n", Human(tree.page.limit_bytes.load(Relaxed)))
        }
        Some(new) => {
            new.warning.iter().for_each(|warning| say(warning));
            if tree.kills() && new.bytes < tree.page.tree_resident() {
                say(
                    "it runs with --on-full kill: if its data do not compress enough for this limit, it is terminated",
                );
            }
            let was = if tree.is_auto() { " (auto)" } else { "" };
            let before = tree.set_limit(&new);
            let now = match tree.follows() {
                true => "now follows what is free (auto)".to_owned(),
                false => format!("is now {}", Human(new.bytes)),
            };
            format!(
                "the limit of '{}' (supervisor {}) {now}, previously {}{was}; {} are resident\n",
                memfold_escape::shown(&tree.command()),
                tree.supervisor,
                Human(before),
                Human(tree.page.tree_resident())
            )
        }
    };
    print(&text)?;
    Ok(0)
}
