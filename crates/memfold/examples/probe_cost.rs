//! Times the operations that have probes, in nanoseconds of CPU time for each: the least of some rounds.
//! `bench/probe-cost` compares builds with and without probes by it.
//!
//! `cargo run --release --example probe_cost`

#[cfg(unix)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    unix::main()
}

#[cfg(not(unix))]
fn main() {
    eprintln!("probe_cost: needs a clock of CPU time");
}

#[cfg(unix)]
mod unix {
    use std::error::Error;
    use std::hint::black_box;

    use memfold::collections::SlabList;
    use memfold::heap::{Heap, Limit, Options};

    /// Nodes that are live at the same time, and how often they are made and freed.
    const NODES: usize = 10_000;
    const ROUNDS: usize = 200;
    /// Elements of a list.
    const ELEMENTS: u64 = 300_000;
    const LISTS: usize = 5;

    /// CPU time of this thread, ns.
    fn now() -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes to `time` only.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// The least of several times.
    struct Least(&'static str, f64);

    impl Least {
        fn new(name: &'static str) -> Self {
            Least(name, f64::INFINITY)
        }

        fn note(&mut self, since: u64, operations: u64) {
            self.1 = self.1.min((now() - since) as f64 / operations as f64);
        }
    }

    pub fn main() -> Result<(), Box<dyn Error>> {
        let mut all =
            ["heap_alloc", "heap_free", "list_add", "list_find", "list_remove", "heap_fault"].map(Least::new);
        let [alloc, free, add, find, remove, fault] = &mut all;
        let heap = Heap::new(Options::new().limit(Limit::Blocks(1 << 16)))?;
        let session = heap.session()?;
        let mut nodes = Vec::with_capacity(NODES);
        for _ in 0..ROUNDS {
            let since = now();
            for _ in 0..NODES {
                nodes.push(session.alloc(black_box(16))?);
            }
            alloc.note(since, NODES as u64);
            let since = now();
            nodes.drain(..).try_for_each(|node| session.free(node))?;
            free.note(since, NODES as u64);
        }
        for _ in 0..LISTS {
            let mut list = SlabList::new(&session);
            let element = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let since = now();
            (0..ELEMENTS).try_for_each(|number| list.insert(&element(number)).map(drop))?;
            add.note(since, ELEMENTS);
            let since = now();
            (0..ELEMENTS).try_for_each(|number| list.contains(&element(number)).map(drop))?;
            find.note(since, ELEMENTS);
            let since = now();
            (0..ELEMENTS).try_for_each(|number| list.remove(&element(number)).map(drop))?;
            remove.note(since, ELEMENTS);
        }
        drop(session);
        // Each read is from a block that is not resident.
        let heap = Heap::new(Options::new().limit(Limit::Blocks(3)).block_size(4 << 10))?;
        let session = heap.session()?;
        let nodes: Vec<_> = (0..200).map(|_| session.alloc(2000)).collect::<Result<_, _>>()?;
        for _ in 0..ROUNDS {
            let (since, before) = (now(), heap.stats().faults);
            nodes.iter().step_by(2).try_for_each(|node| session.get_at::<u64>(*node, 0).map(drop))?;
            fault.note(since, heap.stats().faults - before);
        }
        all.iter().for_each(|Least(name, ns)| println!("{name} {ns:.3}"));
        Ok(())
    }
}
