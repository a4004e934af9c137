//! Sentences on the screen.

use crate::output::text::width;
use memfold::size::Human;
use memfold_escape::shown;
use nix::unistd::{Uid, User};

use super::look::{Group, Look};
use super::state::{Line, Question, State};

/// The first line, without what does not fit.
pub fn summary(look: &Look, columns: usize) -> String {
    if look.trees.is_empty() {
        return "nothing to show".into();
    }
    let (mut logical, mut resident, mut processes) = (0_u64, 0_u64, 0);
    for tree in &look.trees {
        logical = logical.saturating_add(tree.memory.logical_bytes);
        resident = resident.saturating_add(tree.memory.resident_bytes);
        processes += tree.processes.len();
    }
    let saved = logical.saturating_sub(resident);
    let (trees, processes) =
        (counted(look.trees.len(), "tree", "trees"), counted(processes, "process", "processes"));
    let kept = format!("{} in {}", Human(logical), Human(resident));
    let all = format!("{trees}, {processes}: {kept}, {} saved", Human(saved));
    [all, format!("{trees}, {processes}: {kept}"), kept]
        .into_iter()
        .find(|text| text.len() <= columns)
        .unwrap_or_default()
}

fn counted(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// The text for a screen without trees.
pub fn nothing(look: &Look, columns: usize) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        "  Nothing runs under memfold that you may see.".into(),
        String::new(),
        "  Start something:  memfold run --limit 512M -- PROGRAM".into(),
        "  Would it help?    memfold analyze PID".into(),
    ];
    if let Some(hint) = hidden(look) {
        lines.push(String::new());
        lines.extend(wrapped(&hint, columns.saturating_sub(3)).map(|line| format!("  {line}")));
    }
    lines
}

/// A line about trees that cannot be read, and how to see them.
pub fn hidden(look: &Look) -> Option<String> {
    let of = |reason: &str| {
        let unseen = look.hidden.iter().filter(|unseen| unseen.reason == reason);
        unseen.map(|unseen| (unseen.supervisor, unseen.user)).collect::<Vec<_>>()
    };
    let (others, old) = (of("user"), of("version"));
    let mut text = Vec::new();
    if !others.is_empty() {
        let all: Vec<_> = others.iter().map(|(pid, user)| format!("{pid} of {}", user_name(*user))).collect();
        let count = counted(others.len(), "tree of another user", "trees of other users");
        text.push(format!("{count} ({}): try 'memfold top' as root.", all.join(", ")));
    }
    if !old.is_empty() {
        let all: Vec<_> = old.iter().map(|(pid, _)| pid.to_string()).collect();
        let count = counted(old.len(), "tree", "trees");
        let all = all.join(", ");
        text.push(format!(
            "{count} under another version of memfold ({all}): use the command that started it."
        ));
    }
    (!text.is_empty()).then(|| text.join(" "))
}

fn user_name(user: u32) -> String {
    let known = User::from_uid(Uid::from_raw(user)).ok().flatten();
    known.map_or_else(|| format!("user {user}"), |user| shown(user.name.as_bytes()))
}

/// The question before another user's tree gets a new limit.
pub fn question(question: &Question) -> String {
    let Question { supervisor, user, .. } = question;
    format!(
        "the tree of {supervisor} is {}'s: change its limit? y, which holds for this tree until top ends, or any other key",
        user_name(*user)
    )
}

/// The right end of the first line: whether keys and looks have an effect.
pub fn mode(state: &State, interval: f64) -> String {
    let looks = match () {
        () if state.has_ended => "ended: last numbers".to_owned(),
        () if state.is_paused => "paused".to_owned(),
        () => format!("every {interval} s"),
    };
    format!("{}{looks}", if state.is_read_only { "read-only, " } else { "" })
}

/// Whether a tree's limit adapts itself.
pub fn is_auto(tree: &Group) -> bool {
    tree.stall_target.is_some() && tree.idle_seconds.is_none()
}

/// The name of the chosen line, above its history: its process ids, its command, and its owner if that is
/// another user.
pub fn chosen(state: &State) -> String {
    let Some((line, tree)) = state.chosen.zip(state.tree()) else { return String::new() };
    let supervisor = tree.supervisor;
    let (what, command) = match line {
        Line::Tree(_) => (format!("tree {supervisor}"), &tree.command),
        Line::Process(_, pid) => {
            let row = tree.processes.iter().find(|row| row.pid == pid);
            (format!("{pid} in tree {supervisor}"), row.map_or(&tree.command, |row| &row.command))
        }
    };
    let owner = match () {
        () if tree.user == state.user => String::new(),
        () if state.asks(tree) && !state.is_read_only => {
            format!(" of {} (read-only: keys ask first)", user_name(tree.user))
        }
        () => format!(" of {}", user_name(tree.user)),
    };
    format!("{what}{owner}: {}", shown(command))
}

/// The most important keys that fit into a line. Keys that may not change anything are left out.
pub fn keys(columns: usize, is_read_only: bool) -> String {
    let mut text = String::new();
    for (key, changes) in [
        ("q quit", false),
        ("? help", false),
        ("↑↓ choose", false),
        ("←→ sort", false),
        ("r reverse", false),
        ("l limit", true),
        ("+- limit by 5 %", true),
        ("space pause", false),
    ] {
        if changes && is_read_only {
            continue;
        }
        if width(&text) + 2 + width(key) > columns {
            break;
        }
        text += if text.is_empty() { " " } else { "  " };
        text += key;
    }
    text
}

/// Wraps a text to this many columns. A longer word is cut when it is drawn.
pub fn wrapped(text: &str, columns: usize) -> impl Iterator<Item = String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if width(line) + 1 + width(word) <= columns => line.extend([" ", word]),
            _ => lines.push(word.into()),
        }
    }
    lines.into_iter()
}
