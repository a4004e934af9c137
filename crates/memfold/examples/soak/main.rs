//! A soak test of heaps: random operations of several sessions, compared with models; tiers that fail; files
//! that were changed.
//!
//! `cargo run --release --features spill --example soak -- [--seconds N] [--seed N] [--rounds N]`: each round
//! makes a heap with random options (`shape.rs`) and uses it in several turns. After each turn everything is
//! compared with the models (`model.rs`). Then, at random, the tier does not answer for a while or loses some
//! of its data (`tier.rs`, `lost.rs`), and the heap is saved, loaded and compared, and changed copies of the
//! file are loaded (`files.rs`).
//!
//! All choices follow from the seed. If something differs, the program prints the round's seed and ends with
//! status 1; `--rounds 1 --seed SEED` repeats the round. With one thread and no tier it does the same again;
//! with several threads, or a tier, which has threads of its own, it may not.

mod files;
mod lost;
mod model;
mod random;
mod shape;
mod tier;

use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memfold::heap::Heap;
use model::Model;
use random::Random;
use shape::Shape;

/// A round that takes longer counts as hung.
const LONGEST: Duration = Duration::from_secs(600);

/// Totals of all rounds.
#[derive(Default)]
struct Counts {
    operations: AtomicU64,
    refused: AtomicU64,
    saved: AtomicU64,
    changed_files: AtomicU64,
    changed_files_loaded: AtomicU64,
    lost_blocks: AtomicU64,
    lost_nodes: AtomicU64,
    /// The most by which a limit in bytes was exceeded with a tier, in thousandths of the limit.
    excess_permille: AtomicU64,
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Relaxed);
}

/// Returns an error with this text unless `what` holds.
fn holds(what: bool, else_say: impl FnOnce() -> String) -> Result<(), String> {
    if what { Ok(()) } else { Err(else_say()) }
}

/// Runs a round, with one heap.
fn round(seed: u64, counts: &Counts) -> Result<(), String> {
    let mut random = Random(seed);
    let mut shape = Shape::random(&mut random);
    let (options, mut tier) = shape.options(&mut random);
    let mut heap = Heap::new(options).map_err(|error| format!("{shape:?}: {error}"))?;
    let mut models: Vec<Model> = (0..shape.threads).map(|_| Model::new(random.next())).collect();
    let text = format!("{shape:?}");
    let what = |error: String| format!("{error}, in {text}");
    for _ in 0..2 + random.below(4) {
        thread::scope(|scope| {
            let play = |model: &mut Model| model.play(&heap, &shape, counts);
            let threads: Vec<_> = models.iter_mut().map(|model| scope.spawn(move || play(model))).collect();
            // A thread that panicked has printed why.
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
        })
        .map_err(what)?;
        model::compare_all(&mut heap, &models).map_err(what)?;
        if let Some(tier) = &tier
            && random.one_in(3)
        {
            tier.away(|| lost::while_away(&mut heap, &models)).map_err(what)?;
            lost::wait(&mut heap).map_err(what)?;
            model::compare_all(&mut heap, &models).map_err(what)?;
        }
        if let Some(tier) = &tier
            && random.one_in(2)
        {
            tier.lose(&mut random);
            lost::mend(&mut heap, &mut models, &mut random, counts).map_err(what)?;
        }
        if random.one_in(2) {
            let saved = files::save_and_load(&mut heap, &models, &shape, &mut random, counts);
            if let Some((file, loaded)) = saved.map_err(what)? {
                files::change(&file, &models, &mut random, counts).map_err(what)?;
                if random.one_in(2) {
                    (heap, tier) = (loaded, None);
                    shape.bound = None;
                }
            }
        }
        // Nodes are dealt out again, so that sessions also use nodes that others made.
        if models.len() > 1 {
            let all = models.iter_mut().flat_map(Model::take_nodes).collect::<Vec<_>>();
            for (at, node) in all.into_iter().enumerate() {
                let to = at * 7 % models.len();
                models[to].give_node(node);
            }
        }
    }
    models.iter_mut().try_for_each(|model| model.end(&heap)).map_err(what)?;
    heap.check().map_err(|error| what(format!("at the end: {error}")))?;
    let stats = heap.stats();
    let left = (stats.nodes, stats.node_bytes, stats.blocks, stats.payload_bytes, stats.spilled_bytes);
    holds(left == (0, 0, 0, 0, 0), || what(format!("something is left: {stats:?}")))
}

/// The number after an argument.
fn number(name: &str) -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    let value = arguments.nth(1)?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} {value}: give a number")))
}

fn main() -> ExitCode {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs());
    // Runs that begin in different seconds have no seed in common.
    let first = number("--seed").unwrap_or(time << 20);
    let seconds = Duration::from_secs(number("--seconds").unwrap_or(10));
    let rounds = number("--rounds").unwrap_or(u64::MAX);
    let (begin, counts) = (Instant::now(), Counts::default());
    let watch = Watch::start();
    // If the build aborts on panics, the seed must be printed before.
    let (seed, usual) = (Arc::clone(&watch.0), panic::take_hook());
    panic::set_hook(Box::new(move |why| {
        usual(why);
        again(seed.load(Relaxed));
    }));
    let mut done = 0;
    while done < rounds && (begin.elapsed() < seconds || number("--rounds").is_some()) {
        let seed = first.wrapping_add(done);
        watch.begins(seed);
        let played = catch_unwind(AssertUnwindSafe(|| round(seed, &counts)));
        let failed = match played {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some("it panicked".to_owned()),
        };
        if let Some(error) = failed {
            eprintln!("soak: {error}");
            again(seed);
            return ExitCode::FAILURE;
        }
        done += 1;
    }
    let of = |counter: &AtomicU64| counter.load(Relaxed);
    println!(
        "soak: {done} rounds from seed {first} in {:.0} s: {} operations ({} refused), {} heaps saved, {} changed files ({} of them loaded), {} blocks with {} nodes lost; with a tier, limits in bytes were exceeded by at most {:.1} %; nothing differed",
        begin.elapsed().as_secs_f64(),
        of(&counts.operations),
        of(&counts.refused),
        of(&counts.saved),
        of(&counts.changed_files),
        of(&counts.changed_files_loaded),
        of(&counts.lost_blocks),
        of(&counts.lost_nodes),
        of(&counts.excess_permille) as f64 / 10.0,
    );
    ExitCode::SUCCESS
}

/// Prints how to repeat a round.
fn again(seed: u64) {
    eprintln!("soak: again: --rounds 1 --seed {seed}");
}

/// Ends the program if a round hangs; has the seed of the current round.
struct Watch(Arc<AtomicU64>);

impl Watch {
    fn start() -> Self {
        let seed = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&seed);
        thread::spawn(move || {
            let mut last = (0, Instant::now());
            loop {
                thread::sleep(Duration::from_secs(1));
                let now = seen.load(Relaxed);
                if now != last.0 {
                    last = (now, Instant::now());
                } else if last.1.elapsed() > LONGEST {
                    eprintln!("soak: it hangs");
                    again(now);
                    process::exit(1);
                }
            }
        });
        Watch(seed)
    }

    fn begins(&self, seed: u64) {
        self.0.store(seed, Relaxed);
    }
}
