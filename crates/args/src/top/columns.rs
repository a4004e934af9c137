//! What `memfold top` shows: one definition for each number. `?` shows the definitions, Prometheus receives them,
//! and the man page is made from them.
//!
//! A new column of processes also needs a line in docs/top.md and, in the command's `trees/top`:
//!
//! - its value, in the order of [`COLUMNS`] (`look/mod.rs`, from a slot of the shared page)
//! - its cell and width, and its place among the columns that narrow screens drop (`cells.rs`)
//! - its place in the order of sorting (`state/mod.rs`)
//! - if it is not a rate, a gauge (`prometheus.rs`)

/// A column: its title, its name in JSON, and its definition.
pub struct Column {
    /// Which column it is.
    pub is: Is,
    /// The title above the numbers.
    pub title: &'static str,
    /// The name in JSON.
    pub name: &'static str,
    /// Its definition.
    pub definition: &'static str,
}

/// The columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Is {
    Pid,
    State,
    Logical,
    Resident,
    Standby,
    Payload,
    Overhead,
    Spilled,
    Saved,
    Ratio,
    Faults,
    Fault,
    Stall,
    Command,
}

const fn column(is: Is, title: &'static str, name: &'static str, definition: &'static str) -> Column {
    Column { is, title, name, definition }
}

/// All columns, in order.
pub const COLUMNS: [Column; 14] = [
    column(Is::Pid, "PID", "pid", "Process ID."),
    column(
        Is::State,
        "STATE",
        "state",
        "starting; watching: nothing is evicted yet; paging: cold memory may be evicted and compressed; stopped: no longer managed, everything is resident; unmanaged: it now runs a program that can't be managed, and counts only in its tree.",
    ),
    column(
        Is::Logical,
        "LOGICAL",
        "logical_bytes",
        "Memory of the program as if nothing were compressed: RESIDENT without PAYLOAD and OVERHEAD, plus compressed and spilled memory at its uncompressed size. It includes memfold's tables and stacks outside of its store.",
    ),
    column(
        Is::Resident,
        "RESIDENT",
        "resident_bytes",
        "Private anonymous memory of the process, including all of memfold's own. Pages that processes share since a fork count in each of them.",
    ),
    column(
        Is::Standby,
        "STANDBY",
        "standby_bytes",
        "Part of RESIDENT, and of LOGICAL: evicted, but not compressed yet.",
    ),
    column(Is::Payload, "PAYLOAD", "payload_bytes", "Part of RESIDENT, not of LOGICAL: compressed bytes."),
    column(
        Is::Overhead,
        "OVERHEAD",
        "overhead_bytes",
        "Part of RESIDENT, not of LOGICAL: the rest of the store: headers, rounding, holes, its reserve and its tables.",
    ),
    column(
        Is::Spilled,
        "SPILLED",
        "spilled_bytes",
        "Part of LOGICAL, not of RESIDENT: uncompressed size of memory on the tier of --spill.",
    ),
    column(
        Is::Saved,
        "SAVED",
        "saved_bytes",
        "LOGICAL minus RESIDENT. Negative if the store takes more than the compressed memory took before.",
    ),
    column(
        Is::Ratio,
        "RATIO",
        "compression_ratio",
        "Uncompressed size of compressed memory, divided by PAYLOAD. It includes pages of zeros, which need no PAYLOAD.",
    ),
    column(
        Is::Faults,
        "FAULTS/s",
        "faults_per_second",
        "Touches of compressed pages per second, since the last update. Pages that are restored along with them do not count.",
    ),
    column(
        Is::Fault,
        "FAULT",
        "fault_us",
        "Mean time to serve such a touch since the last update, in JSON in microseconds. It includes waiting for room, but not waking memfold's thread, which takes some microseconds.",
    ),
    column(
        Is::Stall,
        "STALL",
        "stall_share",
        "Share of the time since the last update in which at least one thread of the process waited for memfold: for a page, compressed or not, or for room. A wait is counted when it ends.",
    ),
    column(Is::Command, "COMMAND", "command", "Short name of the process."),
];

/// Numbers of a whole tree that are not sums over its processes: name in JSON, and definition.
pub const TREE: [(&str, &str); 8] = [
    ("supervisor", "Process ID of 'memfold run'."),
    ("command", "The command that it started."),
    ("limit_bytes", "The most memory that the tree may use; 'memfold limit' changes it."),
    ("stall_target", "With --limit auto or --proactive, the STALL that these may cause."),
    (
        "idle_seconds",
        "With --proactive, memory that is untouched for this long is compressed even if there is room.",
    ),
    (
        "resident_bytes",
        "Private anonymous memory of all processes, including the supervisor and those that are not managed. Pages shared since a fork count once, as far as the supervisor knows.",
    ),
    ("unmanaged_bytes", "Part of it: the supervisor, and processes that are not managed."),
    ("stall_share", "That of the process in which it is largest."),
];

/// What is on the screen besides the columns: name, and definition.
pub const BELOW: [(&str, &str); 3] = [
    ("K, M, G", "Powers of 1024 bytes."),
    (
        "line of a tree",
        "The sums over its processes, with the state in which all of them are, or 'mixed'; STALL is that of the process in which it is largest. RESIDENT includes the supervisor and processes that are not managed; pages shared since a fork count once. Then the command that was started, the LIMIT, and on wide screens a bar: the share of the limit that is in use.",
    ),
    (
        "charts",
        "The history of the chosen line: RESIDENT as a line, PAYLOAD filled, the LIMIT of a tree dashed; and STALL. A limit of more than three times RESIDENT is not drawn.",
    ),
];

/// Each key and what it does.
pub const KEYS: [(&str, &str); 11] = [
    ("up, down, k, j", "Choose a tree or a process"),
    ("page up/down", "The same, by a screen"),
    ("home, end", "Choose the first, the last"),
    ("left, right, s", "Sort the trees, and the processes of each, by another column"),
    ("r", "Reverse the order"),
    ("l", "Give the chosen line's tree another limit"),
    ("+, -", "Raise, lower that by 5 %"),
    ("space", "Pause, or go on"),
    ("?, F1", "List the keys; from there, explain the columns"),
    ("ctrl-z", "Suspend until the shell resumes it"),
    ("q, ctrl-c", "Quit"),
];

/// What holds for the keys that change a limit.
pub const CHANGES: [(&str, &str); 2] = [
    (
        "other users",
        "Before l, + or - change the limit of another user's tree, top asks, with the name of that user. A yes holds for this tree until top ends.",
    ),
    ("--read-only", "With this option l, + and - change nothing, and the screen says so."),
];
