//! The text of the help window. The man page is also generated from it (crates/pages), so it depends on
//! nothing else.

/// Its tabs.
pub(super) const TABS: [&str; 3] = ["Keys", "Format", "About"];

/// A key and what it does.
const KEYS: [(&str, &str); 24] = [
    ("up, k", "Move up"),
    ("down, j", "Move down"),
    ("page up/down", "Move by a screen"),
    ("home, end", "Move to the first, the last"),
    ("right, enter, l", "Open the selected directory"),
    ("left, <, h", "Open the directory above"),
    ("n", "Sort by name (again: reverse the order)"),
    ("s", "Sort by size (again: reverse the order)"),
    ("C", "Sort by items (again: reverse the order)"),
    ("M", "Sort by time (if scanned with -e)"),
    ("t", "Directories before files, or not"),
    ("a", "Disk usage, or apparent size"),
    ("g", "Graph, percentage, both, or none"),
    ("u", "Sizes shared by hard links, or unique"),
    ("c", "Show counts of items, or not"),
    ("m", "Show times, or not (if scanned with -e)"),
    ("e", "Show hidden and excluded ones, or not"),
    ("i", "About the selected entry"),
    ("d", "Delete the selected entry"),
    ("r", "Read the opened directory again"),
    ("b", "Shell in the opened directory"),
    ("?", "Help"),
    ("ctrl-z", "Suspend until the shell resumes it"),
    ("q", "Quit"),
];

/// A flag and what it means.
const FORMAT: [(&str, &str); 12] = [
    ("", "X  [size] [graph] [items] [time] [name]"),
    ("", "X is one of these, or nothing:"),
    ("!", "It could not be read, or not all of it"),
    (".", "Something below it could not be read"),
    ("<", "Left out: a pattern, a cache, or above itself"),
    (">", "Left out: another file system"),
    ("^", "Left out: a kernel file system"),
    ("@", "Neither file nor directory (link, socket, ..)"),
    ("H", "The file has other names (hard links)"),
    ("e", "An empty directory"),
    ("", "A file with several names counts once per directory."),
    ("", "With u: S has names elsewhere, too, U has none."),
];

const ABOUT: [(&str, &str); 4] = [
    ("", concat!("memfold du ", env!("CARGO_PKG_VERSION"))),
    ("", "Disk usage of trees with more files than fit"),
    ("", "into memory: the tree is kept compressed."),
    ("", env!("CARGO_PKG_REPOSITORY")),
];

/// The lines of a tab: the key or flag at the left, and its meaning.
pub(super) fn lines(tab: usize) -> &'static [(&'static str, &'static str)] {
    match tab {
        0 => &KEYS,
        1 => &FORMAT,
        _ => &ABOUT,
    }
}
