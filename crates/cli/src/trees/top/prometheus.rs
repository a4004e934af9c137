//! A look in Prometheus's text format, version 0.0.4.
//!
//! Prometheus computes rates itself, so it gets the counters. A tree's counters continue when one of its
//! processes ends.

use std::fmt::Write;

use memfold_args::top::columns::{COLUMNS, TREE};

use super::look::{Group, Look, Memory, Row, Totals};

/// What scrapers ask for.
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
    for (at, (name, column)) in gauges().enumerate() {
        let help = TREE.iter().find(|(of, _)| *of == name).map_or(column, |(_, help)| *help);
        let value = |tree: &Group| gauge(&tree.memory, at);
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
    for (at, (name, help)) in gauges().enumerate() {
        let value = |row: &Row| gauge(&row.memory, at);
        add(&format!("memfold_process_{name}"), "gauge", help, processes(&value));
    }
    for (at, (name, help)) in COUNTERS.iter().enumerate() {
        let value = |row: &Row| Some(counter(&row.totals, at));
        add(&format!("memfold_process_{name}"), "counter", help, processes(&value));
    }
    text
}

/// Names and definitions of the values that `gauge` returns.
fn gauges() -> impl Iterator<Item = (&'static str, &'static str)> {
    COLUMNS[2..10].iter().map(|column| (column.name, column.definition))
}

fn gauge(memory: &Memory, at: usize) -> Option<String> {
    Some(match at {
        0 => memory.logical_bytes.to_string(),
        1 => memory.resident_bytes.to_string(),
        2 => memory.standby_bytes.to_string(),
        3 => memory.payload_bytes.to_string(),
        4 => memory.overhead_bytes.to_string(),
        5 => memory.spilled_bytes.to_string(),
        6 => memory.saved_bytes.to_string(),
        _ => memory.compression_ratio?.to_string(),
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
        for (at, (name, _)) in gauges().enumerate() {
            assert_eq!(json[name].as_f64(), Some(at as f64), "{name}");
            assert_eq!(gauge(&memory, at), Some(at.to_string()));
        }
        assert_eq!(gauges().count(), json.as_object().unwrap().len());
    }

    #[test]
    fn labels_hold_anything() {
        let of = labels(&[("command", "a \"b\"\\n\nc\x1b[2J"), ("pid", "7")]);
        assert_eq!(of, "{command=\"a \\\"b\\\"\\\\n\\nc\u{fffd}[2J\",pid=\"7\"}");
    }
}
