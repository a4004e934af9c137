//! Measures the cost of random insertions under each kind of heap limit, compared with a BTreeSet and with
//! redb with a cache of the same size. Each repeat runs them one after the other, each in its own process.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Instant;

use memfold::collections::SlabList;
use memfold::heap::{Heap, Limit, Options};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use redb::{Database, Durability, TableDefinition};
use serde::{Deserialize, Serialize};

use super::load::{mix, peak};

const TABLE: TableDefinition<'_, u64, ()> = TableDefinition::new("set");

/// The structure that gets the elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    BTreeSet,
    /// A slab list in a heap with this limit.
    List(Limit),
    /// redb with a cache of this many bytes, in one transaction that is never written to disk.
    Redb(u64),
}

impl Who {
    /// The name for the hidden command and for output.
    fn name(self) -> String {
        let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
        match self {
            Who::BTreeSet => "BTreeSet".into(),
            Who::List(Limit::Bytes(bytes)) => format!("slab list, Bytes({})", mib(bytes)),
            Who::List(limit) => format!("slab list, {limit:?}"),
            Who::Redb(bytes) => format!("redb, a cache of {}", mib(bytes)),
        }
    }

    fn all(sizes: &[u64]) -> Vec<Who> {
        let limits = [Limit::Free, Limit::All, Limit::Share, Limit::Blocks(64)].map(Who::List);
        let sized = sizes.iter().flat_map(|&bytes| [Who::List(Limit::Bytes(bytes)), Who::Redb(bytes)]);
        [Who::BTreeSet].into_iter().chain(limits).chain(sized).collect()
    }
}

/// Seconds, and the process's peak memory in bytes.
#[derive(Serialize, Deserialize)]
pub struct Row {
    user: f64,
    system: f64,
    wall: f64,
    peak: u64,
}

fn seconds() -> (f64, f64) {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("its own");
    let of = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    (of(usage.user_time()), of(usage.system_time()))
}

/// Inserts in this process; `number` is an index into [`Who::all`].
pub fn one(number: usize, elements: u64, sizes: &[u64]) -> Result<Row, String> {
    let all = Who::all(sizes);
    let who = *all.get(number).ok_or("no such one")?;
    let ((user, system), begin) = (seconds(), Instant::now());
    let count = insert(who, elements)?;
    let wall = begin.elapsed().as_secs_f64();
    let (user_now, system_now) = seconds();
    if count != elements {
        return Err(format!("{}: {count} elements", who.name()));
    }
    Ok(Row { user: user_now - user, system: system_now - system, wall, peak: peak() })
}

fn insert(who: Who, elements: u64) -> Result<u64, String> {
    match who {
        Who::BTreeSet => {
            let mut set = BTreeSet::new();
            (0..elements).for_each(|i| {
                set.insert(mix(i));
            });
            Ok(set.len() as u64)
        }
        Who::List(limit) => {
            let heap = Heap::new(Options::new().limit(limit)).map_err(|error| error.to_string())?;
            let session = heap.session().map_err(|error| error.to_string())?;
            let mut list = SlabList::new(&session);
            (0..elements)
                .try_for_each(|i| list.insert(&mix(i)).map(|_| ()))
                .map_err(|error| error.to_string())?;
            Ok(list.len())
        }
        Who::Redb(bytes) => in_redb(bytes, elements).map_err(|error| error.to_string()),
    }
}

fn in_redb(bytes: u64, elements: u64) -> Result<u64, Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let mut builder = Database::builder();
    builder.set_cache_size(usize::try_from(bytes)?);
    let database = builder.create(directory.path().join("set.redb"))?;
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::None)?;
    let count = {
        let mut table = transaction.open_table(TABLE)?;
        for i in 0..elements {
            table.insert(mix(i), ())?;
        }
        redb::ReadableTableMetadata::len(&table)?
    };
    transaction.commit()?;
    Ok(count)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    f64::midpoint(all[(all.len() - 1) / 2], all[all.len() / 2])
}

/// Runs all and prints a table. User CPU time, which other programs on the machine affect least, is printed
/// with its minimum and maximum.
pub fn table(elements: u64, sizes: &[u64], repeats: usize) -> Result<(), String> {
    let all = Who::all(sizes);
    let mut rows: Vec<Vec<Row>> = all.iter().map(|_| Vec::new()).collect();
    for _ in 0..repeats.max(1) {
        for (number, rows) in rows.iter_mut().enumerate() {
            let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
            command.args(["limits-one", &number.to_string(), &elements.to_string()]);
            command.args(sizes.iter().map(u64::to_string));
            let output = command.output().map_err(|error| error.to_string())?;
            let said = String::from_utf8_lossy(&output.stdout);
            let row = serde_json::from_str(said.trim()).map_err(|_| {
                format!("{}: {}{said}", all[number].name(), String::from_utf8_lossy(&output.stderr))
            })?;
            rows.push(row);
        }
    }
    println!(
        "{elements} random 64-bit integers are inserted; medians of {} (user: least to most)",
        repeats.max(1)
    );
    println!(
        "{:<28} {:>8} {:>18} {:>9} {:>8} {:>8} {:>9}",
        "", "user s", "", "/BTreeSet", "system s", "wall s", "peak MiB"
    );
    for (who, own) in all.iter().zip(&rows) {
        let of = |what: fn(&Row) -> f64| median(own.iter().map(what).collect());
        let user = own.iter().map(|row| row.user);
        let (low, high) = (user.clone().fold(f64::INFINITY, f64::min), user.fold(0.0, f64::max));
        let ratio = median(own.iter().zip(&rows[0]).map(|(row, base)| row.user / base.user).collect());
        println!(
            "{:<28} {:>8.2} {:>18} {ratio:>9.2} {:>8.2} {:>8.2} {:>9.0}",
            who.name(),
            of(|row| row.user),
            format!("({low:.2} to {high:.2})"),
            of(|row| row.system),
            of(|row| row.wall),
            of(|row| row.peak as f64) / f64::from(1 << 20),
        );
    }
    Ok(())
}
