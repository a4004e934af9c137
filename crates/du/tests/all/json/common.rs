//! Makes trees from exports and exports from trees, and reads exports with an independent reader.

use std::collections::BTreeSet;
use std::io::Read;

use memfold::heap::{Heap, Limit, Options, Session};
use memfold_du::json::{Export, Import, ReadError, read, write};
use memfold_du::scan::Progress;
use memfold_du::tree::Tree;
use serde_json::{Map, Value};

/// A heap with a limit in MiB.
pub fn heap(mebibytes: u64) -> Heap {
    Heap::new(Options::new().limit(Limit::Bytes(mebibytes << 20))).unwrap()
}

pub fn tree<'s>(from: impl Read, heap: &'s Heap, session: &'s Session<'_>) -> Result<Tree<'s>, ReadError> {
    read(from, &Import::default(), heap, session, &Progress::default(), |_| true)
}

/// Reads an export and calls `look` with the tree.
pub fn with_tree<T>(from: impl Read, look: impl FnOnce(&Tree<'_>) -> T) -> Result<T, ReadError> {
    let heap = heap(16);
    let session = heap.session().unwrap();
    Ok(look(&tree(from, &heap, &session)?))
}

pub fn export(tree: &Tree<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(tree, &mut bytes, &Export { timestamp: 1, extended: true }, |_| true).unwrap();
    bytes
}

/// Reads an export and writes it again.
pub fn again(from: &[u8]) -> Vec<u8> {
    with_tree(from, export).unwrap_or_else(|error| panic!("{error}: {}", from.escape_ascii()))
}

/// The entries of an export, as a set: path, whether it is a directory, fields. Fields that cannot be
/// compared between programs are left out.
pub fn entries(export: &[u8]) -> BTreeSet<String> {
    // Each byte becomes a character: names need not be UTF-8, and no escape stands for a byte above 0x7f.
    let text: String = export.iter().map(|byte| char::from(*byte)).collect();
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let top = value.as_array().unwrap();
    assert_eq!((top.len(), &top[0], &top[1]), (4, &1.into(), &2.into()));
    assert!(top[2].is_object());
    let mut all = BTreeSet::new();
    add(&top[3], "", &mut all);
    all
}

fn add(value: &Value, above: &str, to: &mut BTreeSet<String>) {
    let fields = |value: &Value| value.as_object().unwrap().clone();
    let (mut own, below) = match value {
        Value::Array(values) => (fields(&values[0]), &values[1..]),
        value => (fields(value), &[][..]),
    };
    let path = format!("{above}/{}", own["name"].as_str().unwrap());
    common(&mut own);
    let line = format!("{path:?} {} {}", value.is_array(), Value::Object(own));
    assert!(to.insert(line), "{path:?} is there twice");
    below.iter().for_each(|value| add(value, &path, to));
}

/// Keeps only fields that both programs write in the same way.
fn common(own: &mut Map<String, Value>) {
    // memfold's own fields.
    own.remove("errno");
    own.remove("loop");
    if let Some(excluded) = own.get_mut("excluded") {
        if excluded == "othfs" {
            *excluded = "otherfs".into();
        }
        // ncdu writes the fields that it has read by then, which is arbitrary.
        own.retain(|key, _| ["name", "excluded", "ino", "hlnkc", "nlink"].contains(&key.as_str()));
    }
    // The extended fields of an entry that could not be examined are missing in ncdu's export, and zero here.
    if own.get("read_error").is_some() && own.get("mode") == Some(&0.into()) {
        own.retain(|key, _| !["uid", "gid", "mode", "mtime"].contains(&key.as_str()));
    }
}
