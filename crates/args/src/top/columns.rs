//! What `memfold top` shows: one definition for each number. `?` shows the definitions, Prometheus receives them,
//! and the man page is made from them.

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
    column(Is::Pid, "PID", "pid", "Number of the process."),
    column(
        Is::State,
        "STATE",
        "state",
        "starting; watching: nothing is taken away yet; paging: cold memory may be taken away and compressed; stopped: not managed any more, everything is resident; unmanaged: it goes on as a program that can't be managed, and counts with its tree only.",
    ),
    column(
        Is::Logical,
        "LOGICAL",
        "logical_bytes",
        "What the program believes to have: RESIDENT without PAYLOAD and OVERHEAD, and what is compressed or spilled, at its uncompressed size. Tables and stacks of memfold outside of its store are in it.",
    ),
    column(
        Is::Resident,
        "RESIDENT",
        "resident_bytes",
        "Private anonymous memory of the process, all of memfold's own in it included. Pages that it shares with others since a fork count in each of them.",
    ),
    column(
        Is::Standby,
        "STANDBY",
        "standby_bytes",
        "Part of RESIDENT, and of LOGICAL: taken away from the program, but not compressed yet.",
    ),
    column(Is::Payload, "PAYLOAD", "payload_bytes", "Part of RESIDENT, not of LOGICAL: compressed bytes."),
    column(
        Is::Overhead,
        "OVERHEAD",
        "overhead_bytes",
        "Part of RESIDENT, not of LOGICAL: what the store has beside PAYLOAD: headers, rounding, holes, its reserve and its tables.",
    ),
    column(
        Is::Spilled,
        "SPILLED",
        "spilled_bytes",
        "Part of LOGICAL, not of RESIDENT: uncompressed size of what went to the tier of --spill.",
    ),
    column(
        Is::Saved,
        "SAVED",
        "saved_bytes",
        "LOGICAL without RESIDENT. Below zero where the store takes more than what is compressed had taken.",
    ),
    column(
        Is::Ratio,
        "RATIO",
        "compression_ratio",
        "Uncompressed bytes of what is compressed for each byte of PAYLOAD. Pages of zeros are among them, and need no PAYLOAD.",
    ),
    column(
        Is::Faults,
        "FAULTS/s",
        "faults_per_second",
        "Touches of compressed pages in a second, since the last look. Pages that are brought back beside them do not count.",
    ),
    column(
        Is::Fault,
        "FAULT",
        "fault_us",
        "How long it took to serve such a touch, on average since the last look, in microseconds in JSON. Waiting for room is in it; waking memfold's thread, some microseconds, is not.",
    ),
    column(
        Is::Stall,
        "STALL",
        "stall_share",
        "Part of the time since the last look in which at least one thread of the process waited for memfold: for a page, compressed or not, or for room. It is counted whenever a wait ends.",
    ),
    column(Is::Command, "COMMAND", "command", "Short name of the process."),
];

/// Numbers of a whole tree that are not sums over its processes: name in JSON, and definition.
pub const TREE: [(&str, &str); 8] = [
    ("supervisor", "Number of the 'memfold run' process."),
    ("command", "What it started."),
    ("limit_bytes", "The most memory that the tree may have, 'memfold limit' changes it."),
    ("stall_target", "With --limit auto or --proactive, the share of STALL that these may cost."),
    ("idle_seconds", "With --proactive, what is untouched for so long is compressed though there is room."),
    (
        "resident_bytes",
        "Private anonymous memory of all processes, of the supervisor too, and of those that are not managed. Pages shared since a fork count once, as well as the supervisor knows.",
    ),
    ("unmanaged_bytes", "Part of it: the supervisor, and processes that are not managed."),
    ("stall_share", "Of the process in which it is the largest."),
];

/// What is shown below the table: name, and definition.
pub const BELOW: [(&str, &str); 2] = [
    ("K, M, G", "Powers of 1024 bytes."),
    (
        "line of a tree",
        "What was started, the share of its limit that is in use, and all that it has resident: its processes, pages shared since a fork once, the supervisor, and processes that are not managed.",
    ),
];

/// Each key and what it does.
pub const KEYS: [(&str, &str); 11] = [
    ("up, down, k, j", "Choose a line"),
    ("page up/down", "The same, by a screen"),
    ("home, end", "Choose the first, the last"),
    ("left, right, s", "Sort by another column"),
    ("r", "Sort the other way round"),
    ("l", "Give the chosen line's tree another limit"),
    ("+, -", "Raise, lower that by 5 %; of other users' trees after a question"),
    ("space", "Pause, or go on"),
    ("?, F1", "What the columns are"),
    ("ctrl-z", "Sleep until the shell wakes it"),
    ("q, ctrl-c", "Quit"),
];
