//! Hit ratios of the policies: traces of blocks are replayed in a heap with each policy, with room for a part
//! of the blocks.
//!
//! Traces are recorded from ncdu's operations on trees, and generated for two patterns in which policies are
//! known to differ.

mod replay;
mod trace;

use memfold::heap::PolicyKind;
use serde_json::json;

use crate::measure::rows::Rows;
use crate::model::trees::Trees;
use crate::ncdu::scan::scan;
use crate::ncdu::{browse, delete, open};
use crate::once::Tree;
use replay::{Count, optimum, replay};
use trace::{Phase, Recorder, Trace, scan_and_hot, zipf};

/// Resident blocks, as a percentage of the most that exist at a time.
const SHARES: [usize; 7] = [1, 2, 3, 5, 10, 20, 40];
const BLOCK: usize = 32 << 10;
/// The number of blocks and of uses in the patterns.
const BLOCKS: u32 = 5000;
const USES: usize = 1_000_000;

/// Plays all traces, and prints a table for each.
pub fn run(names: &[String], trees: &Trees, rows: &mut Rows) -> Result<(), String> {
    let mut traces = Vec::new();
    for name in names {
        traces.push(operations(&trees.find(name)?)?);
    }
    traces.push(zipf(BLOCKS, USES));
    traces.push(scan_and_hot(BLOCKS, BLOCKS / 50, USES));
    // Sums of hit ratios, and of logarithms of the faults relative to the optimum, with equal weight for all
    // traces.
    let (mut sums, mut times) = ([0.0_f64; PolicyKind::ALL.len() + 1], [0.0_f64; PolicyKind::ALL.len() + 1]);
    for trace in &traces {
        let (_, most) = trace.blocks();
        println!("{}: {} uses of {most} blocks at most at a time", trace.name, trace.events().count());
        for (number, phase) in trace.phases.iter().enumerate() {
            print!("{:>16}", format!("{}, %", phase.name));
            PolicyKind::ALL.iter().for_each(|policy| print!(" {:>14}", policy.name()));
            println!(" {:>14}", "optimum");
            for share in SHARES {
                print!("{share:>16}");
                let best = counted(trace, number, share, most, None, rows)?;
                let weight = 1.0 / (trace.phases.len() * SHARES.len() * traces.len()) as f64;
                for (policy, (sum, times)) in sums.iter_mut().zip(&mut times).enumerate() {
                    let count =
                        counted(trace, number, share, most, PolicyKind::ALL.get(policy).copied(), rows)?;
                    print!(" {:>14.4}", count.hit_ratio());
                    *sum += weight * count.hit_ratio();
                    // One is added to each count, because it may be zero.
                    *times += weight * ((count.faults + 1) as f64 / (best.faults + 1) as f64).ln();
                }
                println!();
            }
        }
    }
    print!("{:>16}", "mean");
    sums.iter().for_each(|sum| print!(" {sum:>14.4}"));
    print!("\n{:>16}", "faults / optimum");
    times.iter().for_each(|times| print!(" {:>14.2}", times.exp()));
    println!();
    Ok(())
}

/// The count of a phase for a policy or the optimum, from the file or from a replay, which also stores the
/// counts of the other phases.
fn counted(
    trace: &Trace,
    phase: usize,
    share: usize,
    most: usize,
    policy: Option<PolicyKind>,
    rows: &mut Rows,
) -> Result<Count, String> {
    let resident = (most * share / 100).max(1) as u32;
    let name = policy.map_or("optimum", PolicyKind::name);
    let key =
        |phase: &Phase| json!({ "trace": trace.name, "phase": phase.name, "share": share, "policy": name });
    if let Some(row) = rows.find("policies", &key(&trace.phases[phase])) {
        let number =
            |field: &str| row[field].as_u64().ok_or_else(|| format!("a row of before has no {field}"));
        return Ok(Count { uses: number("uses")?, faults: number("faults")? });
    }
    let counts = match policy {
        Some(policy) => replay(trace, policy, resident)?,
        None => optimum(trace, resident),
    };
    for (phase, count) in trace.phases.iter().zip(&counts) {
        let row = json!({ "resident": resident, "uses": count.uses, "faults": count.faults, "hit_ratio": count.hit_ratio() });
        rows.add("policies", &key(phase), row)?;
    }
    Ok(counts[phase])
}

/// The trace of ncdu's operations on a tree.
fn operations(tree: &Tree) -> Result<Trace, String> {
    let mut nodes = Recorder::new(BLOCK);
    let mut phases = Vec::new();
    let mut phase =
        |name: &str, nodes: &Recorder| phases.push(Phase { name: name.to_owned(), events: nodes.take() });
    let found = scan(&mut nodes, &tree.path, tree.usage)
        .map_err(|error| format!("{}: {error}", tree.path.display()))?;
    phase("scan", &nodes);
    let opened =
        open::open(&mut nodes, found.largest.0).ok_or("the tree has no directory with anything in it")?;
    phase("open", &nodes);
    browse::browse(&mut nodes, opened);
    phase("browse", &nodes);
    delete::delete(&mut nodes, found.root);
    phase("delete", &nodes);
    Ok(Trace { name: format!("ncdu, {}", tree.name), phases })
}
