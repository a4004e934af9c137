//! A look in Prometheus's text format, version 0.0.4.
//!
//! Prometheus computes rates itself, so it gets the counters. When a process ends, the counters of its tree
//! do not decrease.

use std::fmt::Write;

use memfold_args::top::columns::{COLUMNS, Column, Is, TREE};

use super::look::{Group, Look, Memory, Row, Totals};

/// The content type of the answer.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Names and definitions of the counters.
const COUNTERS: [(&str, &str); 3] = [
    ("faults_total", "Touches of compressed pages. Pages that were restored along with them do not count."),
    ("fault_seconds_total", "Time to serve such touches, summed; it includes waiting for room."),
    (
        "stalled_seconds_total",
        "Time in which at least one thread of a process waited for memfold: for a page, compressed or not, or for room.",
    ),
];

/// Labels of a sample, and its value.
type Samples = Vec<(String, String)>;

/// The text.
pub fn text(look: &Look) -> String {
    let mut text = String::new();
    let mut add = |name: &str, kind: &str, help: &str, samples: Samples| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", help_text(help));
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let version = labels(&[("version", look.version)]);
    add(
        "memfold_build_info",
        "gauge",
        "Version of the memfold that reports this.",
        vec![(version, "1".into())],
    );
    let hidden = ["user", "version"].map(|reason| {
        let count = look.hidden.iter().filter(|unseen| unseen.reason == reason).count();
        (labels(&[("reason", reason)]), count.to_string())
    });
    let help = "Trees that can't be seen: of other users, or under another version of memfold.";
    add("memfold_hidden_trees", "gauge", help, hidden.into());

    let trees = |value: &dyn Fn(&Group) -> Option<String>| -> Samples {
        look.trees.iter().filter_map(|tree| Some((of_tree(tree), value(tree)?))).collect()
    };
    let limit = |tree: &Group| Some(tree.limit_bytes.to_string());
    add("memfold_tree_limit_bytes", "gauge", tree_help("limit_bytes"), trees(&limit));
    let unmanaged = |tree: &Group| Some(tree.unmanaged_bytes.to_string());
    add("memfold_tree_unmanaged_bytes", "gauge", tree_help("unmanaged_bytes"), trees(&unmanaged));
    let processes = |tree: &Group| Some(tree.processes.len().to_string());
    add("memfold_tree_processes", "gauge", "Processes that are managed.", trees(&processes));
    for &Column { is, name, definition, .. } in gauges() {
        let help = TREE.iter().find(|(of, _)| *of == name).map_or(definition, |(_, help)| *help);
        let value = |tree: &Group| gauge(&tree.memory, is);
        add(&format!("memfold_tree_{name}"), "gauge", help, trees(&value));
    }
    for (at, (name, help)) in COUNTERS.iter().enumerate() {
        let help = format!("{help} All processes, including those that have ended.");
        let value = |tree: &Group| Some(counter(&tree.totals, at));
        add(&format!("memfold_tree_{name}"), "counter", &help, trees(&value));
    }

    let processes = |value: &dyn Fn(&Row) -> Option<String>| -> Samples {
        let rows = look.trees.iter().flat_map(|tree| tree.processes.iter().map(move |row| (tree, row)));
        rows.filter_map(|(tree, row)| Some((of_process(tree, row), value(row)?))).collect()
    };
    for &Column { is, name, definition, .. } in gauges() {
        let value = |row: &Row| gauge(&row.memory, is);
        add(&format!("memfold_process_{name}"), "gauge", definition, processes(&value));
    }
    for (at, (name, help)) in COUNTERS.iter().enumerate() {
        let value = |row: &Row| Some(counter(&row.totals, at));
        add(&format!("memfold_process_{name}"), "counter", help, processes(&value));
    }
    text
}

/// The columns that are gauges here: current memory. There are no rates, because Prometheus computes them.
const GAUGES: [Is; 8] =
    [Is::Logical, Is::Resident, Is::Standby, Is::Payload, Is::Overhead, Is::Spilled, Is::Saved, Is::Ratio];

fn gauges() -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|column| GAUGES.contains(&column.is))
}

/// The value of a column of [`GAUGES`]; `None` for a ratio that is not known, and for other columns.
fn gauge(memory: &Memory, is: Is) -> Option<String> {
    Some(match is {
        Is::Logical => memory.logical_bytes.to_string(),
        Is::Resident => memory.resident_bytes.to_string(),
        Is::Standby => memory.standby_bytes.to_string(),
        Is::Payload => memory.payload_bytes.to_string(),
        Is::Overhead => memory.overhead_bytes.to_string(),
        Is::Spilled => memory.spilled_bytes.to_string(),
        Is::Saved => memory.saved_bytes.to_string(),
        Is::Ratio => memory.compression_ratio?.to_string(),
        _ => return None,
    })
}

fn counter(totals: &Totals, at: usize) -> String {
    match at {
        0 => totals.faults.to_string(),
        1 => (totals.fault_ns as f64 / 1e9).to_string(),
        _ => (totals.stalled_ns as f64 / 1e9).to_string(),
    }
}

fn tree_help(name: &str) -> &'static str {
    TREE.iter().find(|(of, _)| *of == name).map_or("", |(_, help)| *help)
}

fn of_tree(tree: &Group) -> String {
    labels(&[("supervisor", &tree.supervisor.to_string()), ("command", &memfold_escape::text(&tree.command))])
}

fn of_process(tree: &Group, row: &Row) -> String {
    let (pid, supervisor) = (row.pid.to_string(), tree.supervisor.to_string());
    labels(&[("pid", &pid), ("command", &memfold_escape::text(&row.command)), ("supervisor", &supervisor)])
}

fn labels(labels: &[(&str, &str)]) -> String {
    let all: Vec<_> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", label_value(value))).collect();
    format!("{{{}}}", all.join(","))
}

/// Quotes a label value; a command may contain anything, including terminal control sequences.
fn label_value(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    memfold_escape::replaced(&text)
}

fn help_text(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_belong_together() {
        let memory = Memory {
            logical_bytes: 0,
            resident_bytes: 1,
            standby_bytes: 2,
            payload_bytes: 3,
            overhead_bytes: 4,
            spilled_bytes: 5,
            saved_bytes: 6,
            compression_ratio: Some(7.0),
        };
        let json = serde_json::to_value(memory).unwrap();
        for column in gauges() {
            let value: f64 = gauge(&memory, column.is).unwrap().parse().unwrap();
            assert_eq!(json[column.name].as_f64(), Some(value), "{}", column.name);
        }
        assert_eq!(gauges().count(), json.as_object().unwrap().len());
    }

    #[test]
    fn labels_hold_anything() {
        let of = labels(&[("command", "a \"b\"\\n\nc\x1b[2J"), ("pid", "7")]);
        assert_eq!(of, "{command=\"a \\\"b\\\"\\\\n\\nc\u{fffd}[2J\",pid=\"7\"}");
    }
}
