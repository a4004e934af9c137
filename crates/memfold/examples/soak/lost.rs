//! Blocks that a tier has lost, or cannot return at the moment.

use std::time::{Duration, Instant};

use memfold::heap::{Error, Heap, Lost, SaveError};

use crate::model::Model;
use crate::random::Random;
use crate::{Counts, count, holds};

/// Nodes of each model that are read while the tier does not answer: each read waits.
const ASKED: usize = 30;
/// How long the tier may take to answer again.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most attempts to free everything lost: data that were read ahead may hide a loss for a while.
const TURNS: usize = 20;

/// Reads, writes and saves while the tier does not answer: each node is right, or away, and none is reported
/// as lost.
pub(crate) fn while_away(heap: &mut Heap, models: &[Model]) -> Result<(), String> {
    let mut session = heap.session().map_err(|error| format!("session: {error}"))?;
    for (node, bytes) in models.iter().flat_map(|model| model.nodes().take(ASKED)) {
        match session.read(node) {
            Ok(read) => holds(read == *bytes, || format!("{node:?} differs while the tier is away"))?,
            Err(error) => holds(error == Error::Away, || format!("{node:?}: {error}, not away"))?,
        }
        // Writes the byte that is there, so the node is the same whether or not this succeeds.
        let wrote = session.write_at(node, 0, &bytes[..1]);
        let may = matches!(wrote, Ok(()) | Err(Error::Away | Error::Limit));
        holds(may, || format!("{node:?}: write_at: {wrote:?} while the tier is away"))?;
    }
    drop(session);
    match heap.save_to(std::io::sink()) {
        Ok(()) | Err(SaveError::Heap(Error::Away | Error::Limit)) => Ok(()),
        Err(error) => Err(format!("save while the tier is away: {error}")),
    }
}

/// Waits until the tier answers again.
pub(crate) fn wait(heap: &mut Heap) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        match heap.find_lost() {
            Ok(lost) => return holds(lost.is_empty(), || format!("{lost}, which was only away")),
            Err(Error::Away) if begin.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(format!("find_lost: {error}")),
        }
    }
}

/// Frees the lost nodes, one by one or all at once, until the heap can be saved.
pub(crate) fn mend(
    heap: &mut Heap,
    models: &mut [Model],
    random: &mut Random,
    counts: &Counts,
) -> Result<(), String> {
    read_all(heap, models)?;
    for _ in 0..TURNS {
        let lost = match heap.save_to(std::io::sink()) {
            Ok(()) | Err(SaveError::Heap(Error::Limit)) if heap.find_lost() == Ok(Lost::default()) => {
                return Ok(());
            }
            Ok(()) => continue,
            Err(SaveError::Lost(lost)) => lost,
            Err(error) => return Err(format!("save: {error}")),
        };
        count(&counts.lost_blocks, lost.blocks() as u64);
        count(&counts.lost_nodes, lost.nodes());
        holds(heap.check().is_err_and(|why| why.to_string().contains("lost")), || {
            "check finds nothing lost".into()
        })?;
        if random.one_in(3) {
            new_nodes(heap)?;
        }
        if random.one_in(2) {
            one_by_one(heap, models, &lost)?;
        } else {
            let lost = heap.free_lost().map_err(|error| format!("free_lost: {error}"))?;
            let session = heap.session().map_err(|error| format!("session: {error}"))?;
            for (node, _) in models.iter().flat_map(Model::nodes).filter(|(node, _)| lost.has(*node)) {
                let size = session.size(node);
                holds(size == Err(Error::Stale), || format!("{node:?}: {size:?} after free_lost"))?;
            }
            models.iter_mut().for_each(|model| model.forget_all(|node| lost.has(node)));
        }
    }
    Err(format!("something is still lost after {TURNS} turns"))
}

/// Checks that each node is right, or lost.
fn read_all(heap: &Heap, models: &[Model]) -> Result<(), String> {
    let session = heap.session().map_err(|error| format!("session: {error}"))?;
    for (node, bytes) in models.iter().flat_map(Model::nodes) {
        match session.read(node) {
            Ok(read) => holds(read == *bytes, || format!("{node:?} differs after blocks were lost"))?,
            Err(error) => holds(error == Error::Lost, || format!("{node:?}: {error}, not lost"))?,
        }
    }
    Ok(())
}

/// Checks that new nodes can be made, read and freed while others are lost.
fn new_nodes(heap: &Heap) -> Result<(), String> {
    let mut session = heap.session().map_err(|error| format!("session: {error}"))?;
    for len in [1, 16, 16, 100, 900, 5000, 40_000].into_iter().cycle().take(60) {
        let node = match session.put_bytes(&vec![7; len]) {
            Err(Error::Limit) => continue,
            made => made.map_err(|error| format!("put_bytes beside what is lost: {error}"))?,
        };
        let read = session.read(node);
        holds(read == Ok(vec![7; len]), || format!("a new node beside what is lost: {read:?}"))?;
        session.free(node).map_err(|error| format!("free of a new node: {error}"))?;
    }
    Ok(())
}

fn one_by_one(heap: &Heap, models: &mut [Model], lost: &Lost) -> Result<(), String> {
    let session = heap.session().map_err(|error| format!("session: {error}"))?;
    for model in models {
        let gone: Vec<_> = model.nodes().map(|(node, _)| node).filter(|node| lost.has(*node)).collect();
        for node in &gone {
            session.free(*node).map_err(|error| format!("free of the lost {node:?}: {error}"))?;
            let again = session.free(*node);
            holds(again == Err(Error::Stale), || format!("freed again: {again:?}"))?;
        }
        model.forget_all(|node| lost.has(node));
    }
    Ok(())
}
