//! The tables 4.1, 4.2, 4.4 and 4.5 of compll's paper: how much space a directory tree's nodes take in
//! blocks, and how well the blocks compress: with whole nodes in a block, and with each field ("element") in
//! blocks of its own.
//!
//! The paper filled one block with each setting; here the whole tree is stored, and figures are means over
//! all full blocks. Each codec compresses at most [`SAMPLES`] blocks, evenly spread.

mod elements;

use memfold::heap::{Heap, Limit, Options};
use serde_json::{Value, json};

use self::elements::Elements;
use crate::codecs::{Made, compared, compress};
use crate::measure::rows::Rows;
use crate::model::trees::Trees;
use crate::ncdu::scan::scan;
use crate::nodes::InHeap;
use crate::nodes::packed::Packed;
use crate::once::Tree;

/// Sizes of blocks of nodes, KiB.
const BLOCKS: [usize; 4] = [4, 8, 16, 32];
/// Nodes of a group of elements.
const GROUPS: [usize; 4] = [512, 1024, 2048, 4096];
const SAMPLES: usize = 64;

/// Measures and prints the tables of each tree.
pub fn run(names: &[String], trees: &Trees, rows: &mut Rows) -> Result<(), String> {
    for name in names {
        let tree = trees.find(name)?;
        let failed = |error: std::io::Error| format!("{}: {error}", tree.path.display());
        let mut packed = Vec::new();
        for kib in BLOCKS {
            let mut blocks = Packed::new(kib << 10);
            scan(&mut blocks, &tree.path, tree.usage).map_err(failed)?;
            packed.push(blocks);
        }
        let elements: Vec<Elements> = GROUPS.iter().map(|&size| Elements::of(&packed[0], size)).collect();
        if packed[3].full().is_empty() || elements[3].groups == 0 {
            return Err(format!("{}: too few files to fill blocks with", tree.path.display()));
        }
        by_node(&tree, &packed, rows)?;
        by_element(&tree, &elements, rows)?;
        ratios(&tree, &packed, &elements, rows)?;
    }
    Ok(())
}

/// Table 4.1, and the heap's own layout of the same nodes.
fn by_node(tree: &Tree, packed: &[Packed], rows: &mut Rows) -> Result<(), String> {
    println!("{}: bytes of a block of nodes (4.1), beside the heap's own", tree.name);
    println!(
        "{:>10} {:>8} {:>8} {:>8} {:>9} {:>8} {:>9} {:>7} {:>9}",
        "block", "nodes", "size", "headers", "alignment", "unused", "overhead", "heap's", "nodes"
    );
    for (blocks, kib) in packed.iter().zip(BLOCKS) {
        let (uses, count, size) = (blocks.uses(), blocks.full().len() as f64, (kib << 10) as f64);
        let own = own_layout(tree, kib << 10)?;
        let mean = |total: u64| total as f64 / count;
        let overhead = 1.0 - mean(uses.node_bytes) / size;
        println!(
            "{:>10} {:>8.1} {:>8.0} {:>8.0} {:>9.0} {:>8.0} {:>8.1}% {:>6.1}% {:>9.1}",
            kib << 10,
            mean(uses.nodes),
            mean(uses.node_bytes),
            mean(uses.headers),
            mean(uses.alignment),
            mean(uses.unused),
            100.0 * overhead,
            100.0 * own.0,
            own.1
        );
        let key = json!({ "tree": tree.name, "block_bytes": kib << 10 });
        let measured = json!({ "blocks": blocks.full().len(), "uses": uses, "heap_overhead": own.0, "heap_nodes_a_block": own.1 });
        add(rows, "table 4.1", &key, measured)?;
    }
    println!();
    Ok(())
}

/// The share of the heap's blocks that is not nodes, and the number of nodes per block.
fn own_layout(tree: &Tree, block_size: usize) -> Result<(f64, f64), String> {
    let options = Options::new().block_size(block_size).limit(Limit::Blocks(16)).codec("lz4");
    let heap = Heap::new(options).map_err(|bad| bad.to_string())?;
    let mut nodes = InHeap(heap.session().map_err(|error| error.to_string())?);
    scan(&mut nodes, &tree.path, tree.usage).map_err(|error| format!("{}: {error}", tree.path.display()))?;
    let stats = heap.stats();
    let bytes = stats.blocks as f64 * block_size as f64;
    Ok((1.0 - stats.node_bytes as f64 / bytes, stats.nodes as f64 / stats.blocks as f64))
}

/// Table 4.4.
fn by_element(tree: &Tree, elements: &[Elements], rows: &mut Rows) -> Result<(), String> {
    println!("{}: bytes of a group of elements (4.4)", tree.name);
    println!(
        "{:>10} {:>10} {:>8} {:>10} {:>10} {:>9}",
        "nodes", "size", "bits", "group", "names", "overhead"
    );
    for (elements, size) in elements.iter().zip(GROUPS) {
        let count = elements.groups as f64;
        let (nodes, group) = (elements.node_bytes as f64 / count, elements.group_bytes());
        let names = elements.names.iter().map(Vec::len).sum::<usize>() as f64 / count;
        let overhead = 1.0 - nodes / (group as f64 + names);
        println!(
            "{size:>10} {nodes:>10.0} {:>8} {group:>10} {names:>10.0} {:>8.1}%",
            elements.bits,
            100.0 * overhead
        );
        let key = json!({ "tree": tree.name, "nodes": size });
        let measured = json!({ "groups": elements.groups, "node_bytes": nodes, "bits": elements.bits, "group_bytes": group, "name_bytes": names });
        add(rows, "table 4.4", &key, measured)?;
    }
    println!();
    Ok(())
}

/// A sample of the blocks, evenly spread.
fn some(all: &[Vec<u8>]) -> impl Iterator<Item = &[u8]> {
    let count = all.len().min(SAMPLES);
    (0..count).map(move |i| &*all[i * all.len() / count])
}

/// Tables 4.2 and 4.5.
fn ratios(tree: &Tree, packed: &[Packed], elements: &[Elements], rows: &mut Rows) -> Result<(), String> {
    println!(
        "{}: compressed to % of the block, microseconds to compress + decompress (4.2); by element (4.5)",
        tree.name
    );
    print!("{:16}", "");
    BLOCKS.iter().for_each(|kib| print!(" {:>22}", format!("{kib} KiB")));
    GROUPS.iter().for_each(|size| print!(" {:>8}", format!("{size} el.")));
    println!();
    for codec in compared() {
        print!("{:16}", codec.name());
        for (blocks, kib) in packed.iter().zip(BLOCKS) {
            let key = json!({ "tree": tree.name, "codec": codec.name(), "block_bytes": kib << 10 });
            let made = compress(codec, some(blocks.full()));
            let percent = 100.0 * made.compressed_bytes as f64 / made.original_bytes as f64;
            print!(" {percent:>6.2} {:>7.0} +{:>6.0}", made.compress_us, made.decompress_us);
            add(rows, "table 4.2", &key, json!(made))?;
        }
        for (elements, size) in elements.iter().zip(GROUPS) {
            let key = json!({ "tree": tree.name, "codec": codec.name(), "nodes": size });
            let made = grouped(codec, elements);
            print!(" {:>8.2}", 100.0 * made.compressed_bytes as f64 / made.original_bytes as f64);
            add(rows, "table 4.5", &key, json!(made))?;
        }
        println!();
    }
    println!();
    Ok(())
}

/// Compresses columns and names as they would be stored, each block separately: the bytes of all groups are
/// extrapolated from the samples; times are per group.
fn grouped(codec: &'static dyn memfold_codec::Codec, elements: &Elements) -> Made {
    let mut sum = Made::default();
    for column in &elements.columns {
        let made = compress(codec, some(column));
        let times = elements.groups as f64 / column.len().min(SAMPLES) as f64;
        sum.original_bytes += (made.original_bytes as f64 * times) as u64;
        sum.compressed_bytes += (made.compressed_bytes as f64 * times) as u64;
        sum.compress_us += made.compress_us;
        sum.decompress_us += made.decompress_us;
    }
    let made = compress(codec, some(&elements.names));
    let times = elements.names.len() as f64 / elements.names.len().min(SAMPLES) as f64;
    sum.original_bytes += (made.original_bytes as f64 * times) as u64;
    sum.compressed_bytes += (made.compressed_bytes as f64 * times) as u64;
    let names = elements.names.len() as f64 / elements.groups as f64;
    sum.compress_us += made.compress_us * names;
    sum.decompress_us += made.decompress_us * names;
    sum
}

/// Adds a row, unless it exists already.
fn add(rows: &mut Rows, section: &str, key: &Value, measured: Value) -> Result<(), String> {
    if rows.find(section, key).is_some() {
        return Ok(());
    }
    rows.add(section, key, measured)
}
