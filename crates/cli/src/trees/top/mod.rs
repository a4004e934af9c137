//! `memfold top`: shows the processes under memfold, live.
//!
//! ```text
//!   trees ──> look ─┬─> screen <── keys      state: the selection and the history
//!                   ├─> JSON                 order: the order of the lines
//!                   └─> Prometheus ──> serve view: how the state is drawn, as a table and charts
//! ```

mod cells;
mod charts;
mod help;
mod look;
mod order;
mod paint;
mod prometheus;
mod screen;
mod serve;
mod state;
mod table;
mod view;
mod words;

use std::io::{ErrorKind, Write, stdout};
use std::time::Duration;

use memfold_args::TopArgs;

use crate::output::failure::Failure;
use crate::trees;
use look::Looker;

/// Runs the command and returns the exit status.
pub fn top(args: &TopArgs) -> Result<i32, Failure> {
    let looker = Looker::new(args.pid.map(trees::of).transpose()?);
    let interval = Duration::from_secs_f64(args.interval);
    let count = args.count.unwrap_or(u64::MAX);
    match &args.listen {
        Some(address) => serve::serve(address, looker),
        None if args.prometheus => once(looker),
        None if args.json => stream(looker, interval, count),
        None => screen::run(looker, interval, count, args.read_only),
    }
}

/// Prints the metrics for Prometheus once.
fn once(mut looker: Looker) -> Result<i32, Failure> {
    print(prometheus::text(&looker.look()).as_bytes())?;
    Ok(0)
}

/// Prints a line for each look except the first, which only provides the values to compare with.
fn stream(mut looker: Looker, interval: Duration, count: u64) -> Result<i32, Failure> {
    looker.look();
    for _ in 0..count {
        std::thread::sleep(interval);
        let look = looker.look();
        if looker.has_ended() {
            break;
        }
        let line = serde_json::to_string(&look).unwrap_or_else(|e| unreachable!("plain fields: {e}"));
        if !print(format!("{}\n", memfold_escape::json(&line)).as_bytes())? {
            break;
        }
    }
    Ok(0)
}

/// Writes to standard output. Returns whether it still has a reader.
fn print(bytes: &[u8]) -> Result<bool, Failure> {
    let mut out = stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(format!("cannot write to standard output: {error}"))),
    }
}
