//! `memfold limit`: says and changes the limit of a tree that runs.

use std::io::Write;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use crate::args::LimitArgs;
use crate::failure::Failure;
use crate::size::Human;
use crate::{settings, trees};

/// Says it, or changes it. The result is the exit status.
pub fn limit(args: &LimitArgs) -> Result<i32, Failure> {
    let tree = trees::of(args.pid)?;
    let before = tree.page.limit_bytes.load(Relaxed);
    let adapts = tree.page.stall_ppm.load(Relaxed) > 0 && tree.page.idle_ms.load(Relaxed) == 0;
    let resident = Human(tree.page.tree_resident());
    let text = match &args.size {
        None => format!("{}{}\n", Human(before), if adapts { ", auto" } else { "" }),
        Some(size) => {
            let now = settings::limit(Some(size))?;
            tree.page.limit_bytes.store(now, Relaxed);
            let stall_ppm = if size == settings::AUTO { settings::STALL_PPM } else { 0 };
            // What is compressed by age goes on.
            if tree.page.idle_ms.load(Relaxed) == 0 && adapts != (stall_ppm > 0) {
                tree.page.stall_ppm.store(stall_ppm, Relaxed);
            }
            // The supervisor looks at once; the processes do within a tenth of a second.
            tree.page.pressure.fetch_add(1, AcqRel);
            format!(
                "'{}' (supervisor {}) may have {} now, before {}; {resident} are resident\n",
                tree.command(),
                tree.supervisor,
                Human(now),
                Human(before)
            )
        }
    };
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::new(format!("cannot write to standard output: {error}")))?;
    Ok(0)
}
