//! One measurement: the four operations on one tree, with one kind of memory, in this process, which should
//! be new.
//!
//! The contents of the nodes are checked against the plan of the tree, and by a checksum that must be the
//! same for the other kind of memory. After the deletion nothing may be left.

use std::path::PathBuf;

use memfold::heap::Heap;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::measure::settings::Settings;
use crate::measure::{Cost, Memory, memory, timed};
use crate::model::Totals;
use crate::ncdu::check::summary;
use crate::ncdu::scan::{Usage, scan};
use crate::ncdu::{DIR, Dir, Nodes, browse, delete, open};
use crate::nodes::{InHeap, Malloc};

/// Which memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Malloc,
    Heap,
}

/// A tree to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Its name in rows.
    pub name: String,
    pub path: PathBuf,
    pub usage: Usage,
    /// Its expected contents, if known.
    pub totals: Option<Totals>,
}

/// An operation's cost, and the heap's work during it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    #[serde(flatten)]
    pub cost: Cost,
    /// Blocks restored, and blocks compressed.
    pub faults: u64,
    pub compressions: u64,
}

/// The heap's figures for its memory, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct HeapMemory {
    pub all: u64,
    pub frames: u64,
    pub payload: u64,
    pub tables: u64,
    pub blocks: u64,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Nodes, and the sum of their requested sizes.
    pub nodes: u64,
    pub node_bytes: u64,
    /// Names in the directory that was opened.
    pub opened: usize,
    /// Checksums of what was drawn, and of the whole tree afterwards.
    pub drawn: u64,
    pub sum: u64,
    pub scan: Operation,
    pub open: Operation,
    pub browse: Operation,
    pub delete: Operation,
    /// The process's growth up to the end of the scan, and its peak until then.
    pub memory: Memory,
    pub heap: Option<HeapMemory>,
    /// The process's growth up to the deletion of everything but the root, and its peak until then.
    pub left: Memory,
    pub heap_left: Option<HeapMemory>,
    /// All private anonymous memory of the process after the scan, including its initial memory.
    pub whole: u64,
}

/// Called with the name and figure of an operation as soon as it is done, so that an incomplete run has reported
/// something.
pub type Tell<'t> = &'t dyn Fn(&str, serde_json::Value);

/// The four operations.
pub fn once(kind: Kind, tree: &Tree, settings: &Settings, tell: Tell<'_>) -> Result<Outcome, String> {
    let before = memory();
    let (outcome, left) = match kind {
        Kind::Malloc => {
            let mut nodes = Malloc::default();
            let outcome = operations(&mut nodes, tree, before, &|| (0, 0), &|| None, tell)?;
            (outcome, nodes.live())
        }
        Kind::Heap => {
            let mut heap = Heap::new(settings.options()).map_err(|bad| bad.to_string())?;
            let mut nodes = InHeap(heap.session().map_err(|error| error.to_string())?);
            let counts = || {
                let stats = heap.stats();
                (stats.faults, stats.compressions)
            };
            let memory = || {
                let stats = heap.stats();
                Some(HeapMemory {
                    all: stats.memory_bytes(),
                    frames: stats.frame_bytes,
                    payload: stats.payload_bytes,
                    tables: stats.table_bytes,
                    blocks: stats.blocks,
                })
            };
            let outcome = operations(&mut nodes, tree, before, &counts, &memory, tell)?;
            drop(nodes);
            heap.check().map_err(|violation| format!("the heap is not sound: {violation:?}"))?;
            (outcome, heap.stats().nodes)
        }
    };
    if left == 0 { Ok(outcome) } else { Err(format!("{left} nodes are left after all were freed")) }
}

fn operations<N: Nodes>(
    nodes: &mut N,
    tree: &Tree,
    before: Memory,
    counts: &dyn Fn() -> (u64, u64),
    heap: &dyn Fn() -> Option<HeapMemory>,
    tell: Tell<'_>,
) -> Result<Outcome, String> {
    let (found, scanned) = measured(counts, || scan(nodes, &tree.path, tree.usage));
    let found = found.map_err(|error| format!("{}: {error}", tree.path.display()))?;
    let (scanned_memory, heap_scanned) = (memory(), heap());
    tell("scan", json!(scanned));
    tell("memory", json!(scanned_memory.since(before)));
    tell("heap", json!(heap_scanned));

    let (opened, open) = measured(counts, || open::open(nodes, found.largest.0));
    let opened = opened.ok_or("the tree has no directory with anything in it")?;
    tell("open", json!(open));
    let (drawn, browse) = measured(counts, || browse::browse(nodes, opened));

    tell("browse", json!(browse));

    let whole = summary(nodes, found.root);
    if tree.totals.is_some_and(|totals| whole.totals != totals) {
        return Err(format!("the tree holds {:?}, but was made with {:?}", whole.totals, tree.totals));
    }
    let ((), delete) = measured(counts, || delete::delete(nodes, found.root));
    let (left, heap_left) = (memory(), heap());
    let root: Dir = nodes.read(found.root, DIR);
    if root.items != 0 || [root.size, root.asize] != found.own {
        return Err(format!(
            "after the deletion the root counts {root:?}, its own sizes are {:?}",
            found.own
        ));
    }
    nodes.free(found.root);

    let count = whole.totals.files + whole.totals.directories;
    Ok(Outcome {
        nodes: count,
        node_bytes: whole.totals.name_bytes + count * (size_of::<Dir>() as u64 + 1),
        opened: found.largest.1,
        drawn,
        sum: whole.sum,
        scan: scanned,
        open,
        browse,
        delete,
        memory: scanned_memory.since(before),
        heap: heap_scanned,
        left: left.since(before),
        heap_left,
        whole: scanned_memory.anonymous,
    })
}

fn measured<T>(counts: &dyn Fn() -> (u64, u64), operation: impl FnOnce() -> T) -> (T, Operation) {
    let before = counts();
    let (result, cost) = timed(operation);
    let after = counts();
    (result, Operation { cost, faults: after.0 - before.0, compressions: after.1 - before.1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Model, disk};
    use crate::operations::same;

    #[test]
    fn both_kinds_of_memory_come_to_the_same() {
        let place = std::env::temp_dir().join(format!("memfold-tree-{}", std::process::id()));
        let model = Model::small();
        disk::make(&model, &place).expect("a place for temporary files");
        let totals = Some(model.totals());
        let tree = Tree { name: String::from("small"), path: place.clone(), usage: Usage::Size, totals };
        let malloc = once(Kind::Malloc, &tree, &Settings::default(), &|_, _| {}).expect("malloc");
        assert_eq!((malloc.nodes, malloc.opened), (3030, 750));
        let tight = |codec: &str| Settings {
            block_size: Some(4096),
            resident: Some(4),
            codec: Some(codec.to_owned()),
            ..Settings::default()
        };
        for settings in [Settings::default(), tight("zstd:1"), tight("lz4"), tight("copy")] {
            let heap = once(Kind::Heap, &tree, &settings, &|_, _| {}).expect("the heap");
            same(&malloc, &heap).unwrap_or_else(|difference| panic!("{settings:?}: {difference}"));
            assert_eq!(settings.resident.is_some(), heap.open.faults > 0, "{settings:?}");
        }
        // A plan of another tree is detected.
        let other = Tree { totals: Some(Totals { files: 2999, ..model.totals() }), ..tree };
        assert!(once(Kind::Malloc, &other, &Settings::default(), &|_, _| {}).is_err());
        std::fs::remove_dir_all(&place).expect("removed");
    }
}
