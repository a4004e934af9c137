//! `bench-collections rand-ops`: random operations in random proportions on many lists at a time, modelled on
//! libslablist's `drv_rand_ops`.
//!
//! As a soak test (`--check`), each list has a model from the standard library, and each answer is compared
//! with the model's; at the end nothing may be left in the heap. Otherwise each kind of operation is timed.
//! Everything follows from the seed, so a failure can be reproduced with `--seed`, the same options, and
//! `--operations` as reported.
//!
//! **More operations, or more kinds of lists**: the operations are in the tables at the top of `sorted.rs` and
//! `ordered.rs`, each with a name, a weight and a function. Another kind of list is one more `impl Game` in
//! [`games`].

mod elements;
mod ordered;
mod sorted;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use memfold::heap::{Error, Heap, Limit, Options, Session};
use ordered::InOrder;
use sorted::Sorted;

use crate::plots::clock::{self, Rate};
use crate::random::Random;

/// The most operations on one list before the next list's turn.
const BURST: usize = 256;
/// Lists of up to this many elements are compared with their models by position each time, longer ones only
/// from time to time.
const SHORT: u64 = 2000;

#[derive(clap::Args)]
pub struct Args {
    /// Seconds to run
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Stops after this many operations, however long they take
    #[arg(long)]
    operations: Option<u64>,
    /// Seed of all random choices; by default, the time
    #[arg(long)]
    seed: Option<u64>,
    /// Number of frames of the heap; 0: enough for all blocks
    #[arg(long, default_value_t = 0)]
    frames: u32,
    /// Approximate number of elements of the longest lists
    #[arg(long, default_value_t = 200_000)]
    longest: usize,
    /// Compares all answers with those of models, and checks all invariants
    #[arg(long)]
    check: bool,
}

/// A list under test, and its model, if there is one.
trait Game {
    /// The kind of the list.
    fn name(&self) -> String;
    /// Performs one random operation. An error says what went wrong.
    fn step(&mut self, random: &mut Random, times: &mut Times) -> Result<(), String>;
    /// Compares everything and checks each invariant.
    fn check(&self) -> Result<(), String>;
}

/// The context of an operation.
struct Turn<'a> {
    name: &'static str,
    random: &'a mut Random,
    times: &'a mut Times,
}

impl Turn<'_> {
    /// Times an operation; errors of the heap become texts.
    fn time<R>(&mut self, operation: impl FnOnce() -> Result<R, Error>) -> Result<R, String> {
        self.times.time(self.name, operation).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Checks that the answers of the list and its model are equal.
    fn compare<R: PartialEq + Debug>(&self, list: R, model: R) -> Result<(), String> {
        if list == model {
            Ok(())
        } else {
            Err(format!("{}: {list:?}, but the model says {model:?}", self.name))
        }
    }
}

/// The current proportions of the operations on a list.
#[derive(Default)]
struct Weights {
    of: Vec<usize>,
    steps: usize,
}

impl Weights {
    /// Chooses the next operation of a table, in which the first one adds, the second one removes, and the
    /// third one is always possible.
    ///
    /// The proportions change from time to time, so that lists grow and shrink, and there are periods with
    /// many removals, or only lookups.
    fn next(&mut self, random: &mut Random, base: impl Iterator<Item = usize>, is_too_long: bool) -> usize {
        if self.steps == 0 {
            self.steps = 1 << random.below(15);
            self.of = base.map(|weight| weight * random.below(5)).collect();
            if is_too_long {
                self.of[0] = 0;
                self.of[1] = 4000;
            }
            self.of[2] += 1;
        }
        self.steps -= 1;
        let mut at = random.below(self.of.iter().sum());
        let is_it = |weight: &usize| {
            let it = at < *weight;
            at = at.saturating_sub(*weight);
            it
        };
        self.of.iter().position(is_it).unwrap_or(2)
    }
}

/// Checks that the contents of the list equal those of its model.
fn compare_all<T: PartialEq + Debug>(
    list: impl Iterator<Item = Result<T, Error>>,
    mut model: impl Iterator<Item = T>,
) -> Result<(), String> {
    for (number, x) in list.enumerate() {
        let (x, other) = (x.map_err(|error| format!("element {number}: {error}"))?, model.next());
        if Some(&x) != other.as_ref() {
            return Err(format!("element {number} is {x:?}, but the model says {other:?}"));
        }
    }
    model.next().map_or(Ok(()), |x| Err(format!("{x:?} is missing")))
}

/// The times of operations by kind.
#[derive(Default)]
struct Times {
    /// The number of operations, and their ticks.
    of: BTreeMap<&'static str, (u64, u64)>,
}

impl Times {
    /// Runs an operation and records its time.
    #[inline(always)]
    fn time<R>(&mut self, name: &'static str, operation: impl FnOnce() -> R) -> R {
        let begin = clock::ticks();
        let result = operation();
        let took = clock::ticks() - begin;
        let of = self.of.entry(name).or_default();
        *of = (of.0 + 1, of.1 + took);
        result
    }

    fn count(&self) -> u64 {
        self.of.values().map(|(count, _)| count).sum()
    }

    fn print(&self, per_ns: f64) {
        println!("{:<16} {:>12} {:>14} {:>12}", "", "operations", "a second", "ns each");
        for (name, (count, ticks)) in &self.of {
            let ns = *ticks as f64 / per_ns / *count as f64;
            println!("{name:<16} {count:>12} {:>14.0} {ns:>12.0}", 1e9 / ns);
        }
    }
}

/// The lists: of several types, each small, medium and long.
fn games<'s>(session: &'s Session<'_>, args: &Args) -> Vec<Box<dyn Game + 's>> {
    let mut games: Vec<Box<dyn Game + 's>> = Vec::new();
    for longest in [40, 3000, args.longest] {
        games.push(Box::new(Sorted::<u64>::new(session, longest, false, args.check)));
        games.push(Box::new(Sorted::<i64>::new(session, longest, false, args.check)));
        games.push(Box::new(Sorted::<u32>::new(session, longest, true, args.check)));
        games.push(Box::new(Sorted::<u8>::new(session, longest, true, args.check)));
        games.push(Box::new(Sorted::<[u64; 2]>::new(session, longest, false, args.check)));
        games.push(Box::new(InOrder::<u64>::new(session, longest, args.check)));
        games.push(Box::new(InOrder::<str>::new(session, longest / 4, args.check)));
    }
    games
}

/// Runs until the time is over, or until the requested number of operations was performed.
pub fn run(args: &Args) -> Result<(), String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seed = args.seed.unwrap_or(now.as_nanos() as u64);
    let limit = Limit::Blocks(if args.frames > 0 { args.frames } else { 1 << 20 });
    let mut heap = Heap::new(Options::new().limit(limit)).map_err(|error| error.to_string())?;
    let rate = Rate::new();
    let mut times = Times::default();
    let begin = Instant::now();
    let lists = {
        let session = heap.session().map_err(|error| error.to_string())?;
        let mut games = games(&session, args);
        play(args, seed, &mut games, &mut times)
            .map_err(|error| format!("{error} (after {} operations, --seed {seed})", times.count()))?;
        games.len()
    };
    let seconds = begin.elapsed().as_secs_f64();
    let left = heap.stats().nodes;
    if left > 0 {
        return Err(format!("{left} nodes are left of lists that are gone (--seed {seed})"));
    }
    heap.check().map_err(|violation| format!("{violation:?} (--seed {seed})"))?;
    let per_ns = rate.per_ns();
    times.print(per_ns);
    let stats = heap.stats();
    let compared = if args.check { "no difference to the models" } else { "not compared with models" };
    println!(
        "rand-ops: {} operations on {lists} lists in {seconds:.0} s, {} blocks compressed, {} brought back, seed {seed}: {compared}",
        times.count(),
        stats.compressions,
        stats.faults
    );
    Ok(())
}

fn play(args: &Args, seed: u64, games: &mut [Box<dyn Game + '_>], times: &mut Times) -> Result<(), String> {
    let mut random = Random(seed);
    let (begin, limit) = (Instant::now(), Duration::from_secs_f64(args.seconds));
    let most = args.operations.unwrap_or(u64::MAX);
    while times.count() < most && (args.operations.is_some() || begin.elapsed() < limit) {
        let at = random.below(games.len());
        let game = &mut games[at];
        for _ in 0..=random.below(BURST) {
            game.step(&mut random, times).map_err(|error| format!("{}: {error}", game.name()))?;
        }
        if args.check && random.below(2000) == 0 {
            game.check().map_err(|error| format!("{}: {error}", game.name()))?;
        }
    }
    games.iter().try_for_each(|game| game.check().map_err(|error| format!("{}: {error}", game.name())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(frames: u32) -> Args {
        Args { seconds: 0.0, operations: Some(60_000), seed: Some(4), frames, longest: 20_000, check: true }
    }

    #[test]
    fn lists_do_as_their_models() {
        run(&args(3)).unwrap();
        run(&args(0)).unwrap();
    }

    #[test]
    fn a_difference_is_found() {
        let heap = Heap::new(Options::new()).unwrap();
        let session = heap.session().unwrap();
        let mut random = Random(7);
        let mut times = Times::default();
        let mut game = Sorted::<u64>::new(&session, 3000, false, true);
        while game.is_empty() {
            game.step(&mut random, &mut times).unwrap();
        }
        game.forget_one();
        assert!(game.check().is_err());
        let failed = (0..100_000).find_map(|_| game.step(&mut random, &mut times).err());
        assert!(failed.is_some());
    }
}
