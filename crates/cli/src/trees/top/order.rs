//! The values of a line of the table, for a tree or a process, and the order of the lines.

use std::cmp::Ordering;

use memfold_args::top::columns::Is;

use super::look::{Group, Memory, Rates, Row};

/// The values of a line: a tree has the sums over its processes.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// The process id; a tree has that of its supervisor.
    pub pid: i32,
    /// The state; see [`state`] for trees.
    pub state: &'static str,
    /// Bytes.
    pub memory: &'a Memory,
    /// Rates.
    pub rates: &'a Rates,
    /// The command, not escaped.
    pub command: &'a [u8],
}

impl<'a> Values<'a> {
    /// Those of a tree.
    pub fn of_tree(tree: &'a Group) -> Self {
        Values {
            pid: tree.supervisor,
            state: state(tree),
            memory: &tree.memory,
            rates: &tree.rates,
            command: &tree.command,
        }
    }

    /// Those of a process.
    pub fn of_process(row: &'a Row) -> Self {
        Values {
            pid: row.pid,
            state: row.state,
            memory: &row.memory,
            rates: &row.rates,
            command: &row.command,
        }
    }

    /// The order of two trees, or of two processes of a tree, by a column: numbers in descending order, names
    /// and process ids in ascending order.
    pub fn order(&self, other: &Self, is: Is, is_reversed: bool) -> Ordering {
        let order = match is {
            Is::Pid => self.pid.cmp(&other.pid),
            Is::State => self.state.cmp(other.state),
            Is::Command => self.command.cmp(other.command),
            _ => other.number(is).total_cmp(&self.number(is)),
        };
        let order = if is_reversed { order.reverse() } else { order };
        // Equal lines keep their places from look to look.
        order.then(self.pid.cmp(&other.pid))
    }

    /// The number in a column; unknown values sort last.
    fn number(&self, is: Is) -> f64 {
        let (memory, rates) = (self.memory, self.rates);
        match is {
            Is::Logical => memory.logical_bytes as f64,
            Is::Resident => memory.resident_bytes as f64,
            Is::Standby => memory.standby_bytes as f64,
            Is::Payload => memory.payload_bytes as f64,
            Is::Overhead => memory.overhead_bytes as f64,
            Is::Spilled => memory.spilled_bytes as f64,
            Is::Saved => memory.saved_bytes as f64,
            Is::Ratio => memory.compression_ratio.unwrap_or(-1.0),
            Is::Faults => rates.faults_per_second.unwrap_or(-1.0),
            Is::Fault => rates.fault_us.unwrap_or(-1.0),
            Is::Stall => rates.stall_share.unwrap_or(-1.0),
            Is::Pid | Is::State | Is::Command => 0.0,
        }
    }
}

/// The state in which all processes of a tree are, "mixed" if they differ, or "-" if there are none.
fn state(tree: &Group) -> &'static str {
    let mut states = tree.processes.iter().map(|row| row.state);
    match states.next() {
        None => "-",
        Some(first) if states.all(|state| state == first) => first,
        Some(_) => "mixed",
    }
}
