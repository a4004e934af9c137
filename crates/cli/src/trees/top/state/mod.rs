//! The state of the screen: the last look, the history, the selection, and pending input.

mod history;

use std::collections::{HashMap, HashSet};

use memfold_args::top::columns::{COLUMNS, Is};
use nix::unistd::Uid;

pub use history::{History, Sample};

use super::look::{Group, Look, Row};
use super::order::Values;

/// The subject of a line. A process is identified together with its tree, because its id may be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Line {
    /// A tree, by its supervisor.
    Tree(i32),
    /// A process: the supervisor of its tree, and its id.
    Process(i32, i32),
}

impl Line {
    /// The supervisor of its tree.
    pub fn supervisor(self) -> i32 {
        match self {
            Line::Tree(supervisor) | Line::Process(supervisor, _) => supervisor,
        }
    }
}

/// The contents of a line.
pub enum Shown<'a> {
    /// A tree.
    Tree(&'a Group),
    /// A process.
    Process(&'a Row),
}

/// The pages of help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// The keys.
    Keys,
    /// The definitions of the columns.
    Columns,
}

/// A limit that is being typed.
#[derive(Debug, Default)]
pub struct Prompt {
    /// The supervisor of the tree that gets the limit.
    pub supervisor: i32,
    /// The text typed so far.
    pub text: String,
    /// The error in the text that was entered.
    pub error: Option<String>,
}

/// Asks the user to confirm a new limit for another user's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The supervisor of that tree.
    pub supervisor: i32,
    /// The tree's user.
    pub user: u32,
    /// The change that was requested.
    pub wish: Wish,
}

/// A change requested by a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Type a limit.
    Type,
    /// Raise or lower the limit by this many percent.
    Change(i64),
}

/// The state; see the module.
#[derive(Debug)]
pub struct State {
    /// The last look; if the single tree shown has ended, the last look that found it.
    pub look: Look,
    histories: HashMap<Line, History>,
    /// Seconds from the first look to the last.
    seconds: f64,
    /// The last look with processes, with its histories and selection. It is needed because a supervisor
    /// outlives its processes for a moment.
    last: Option<(Look, HashMap<Line, History>, Option<Line>)>,
    /// The selected line.
    pub chosen: Option<Line>,
    /// The sort column.
    pub sort: usize,
    /// Whether the table is sorted in the reverse of the column's usual order.
    pub is_reversed: bool,
    /// The page of help that is shown, if any, and its first line on the screen.
    pub help: Option<(Page, usize)>,
    /// The limit that is being typed.
    pub prompt: Option<Prompt>,
    /// A question that waits for an answer.
    pub question: Option<Question>,
    /// No limit may be changed.
    pub is_read_only: bool,
    /// The user of this process. Trees of other users are changed only after a question.
    pub user: u32,
    /// Other users' trees for which the user has confirmed changes.
    pub allowed: HashSet<i32>,
    /// A message about the last action.
    pub message: Option<String>,
    /// No looks are taken.
    pub is_paused: bool,
    /// The single tree shown has ended.
    pub has_ended: bool,
    /// Number of lines of the table when it was last drawn.
    pub visible: usize,
}

impl State {
    /// Starts sorted by saved memory.
    pub fn new() -> Self {
        State {
            look: Look::default(),
            histories: HashMap::new(),
            seconds: 0.0,
            last: None,
            chosen: None,
            sort: COLUMNS.iter().position(|column| column.is == Is::Saved).unwrap_or(0),
            is_reversed: false,
            help: None,
            prompt: None,
            question: None,
            is_read_only: false,
            user: Uid::effective().as_raw(),
            allowed: HashSet::new(),
            message: None,
            is_paused: false,
            has_ended: false,
            visible: 1,
        }
    }

    /// Takes over a new look.
    pub fn take(&mut self, look: Look) {
        let at = self.chosen_at();
        let mut histories = HashMap::new();
        self.seconds += look.seconds;
        let mut note = |line: Line, values: &Values<'_>, limit: u64| {
            let mut history = self.histories.get(&line).cloned().unwrap_or_default();
            history.push(self.seconds, values, limit);
            histories.insert(line, history);
        };
        for tree in &look.trees {
            note(Line::Tree(tree.supervisor), &Values::of_tree(tree), tree.limit_bytes);
            for row in &tree.processes {
                let line = Line::Process(tree.supervisor, row.pid);
                note(line, &Values::of_process(row), tree.limit_bytes);
            }
        }
        let (had, has) = (has_processes(&self.look), has_processes(&look));
        let histories = std::mem::replace(&mut self.histories, histories);
        let before = std::mem::replace(&mut self.look, look);
        if has {
            self.last = None;
        } else if had {
            self.last = Some((before, histories, self.chosen));
        }
        let lines = self.names();
        if !self.chosen.is_some_and(|chosen| lines.contains(&chosen)) {
            // Select the first tree initially. Later, select the tree of a process that has ended, because
            // the line that takes its place may belong to another tree. If the tree has ended, too, take
            // that line.
            let tree = self.chosen.map(|chosen| Line::Tree(chosen.supervisor()));
            let at = at.unwrap_or(0).min(lines.len().saturating_sub(1));
            self.chosen = tree.filter(|tree| lines.contains(tree)).or_else(|| lines.get(at).copied());
        }
    }

    /// Notes that the single tree shown has ended. Its last numbers stay.
    pub fn end(&mut self) {
        self.has_ended = true;
        if let Some(last) = self.last.take() {
            (self.look, self.histories, self.chosen) = last;
        }
    }

    /// The lines of the table: the trees in the order of the sort column, and the processes of each in the
    /// same order.
    pub fn lines(&self) -> Vec<(Line, Shown<'_>)> {
        let (is, is_reversed) = (COLUMNS[self.sort].is, self.is_reversed);
        let mut trees: Vec<&Group> = self.look.trees.iter().collect();
        trees.sort_by(|a, b| Values::of_tree(a).order(&Values::of_tree(b), is, is_reversed));
        let mut lines = Vec::new();
        for tree in trees {
            lines.push((Line::Tree(tree.supervisor), Shown::Tree(tree)));
            let mut rows: Vec<&Row> = tree.processes.iter().collect();
            rows.sort_by(|a, b| Values::of_process(a).order(&Values::of_process(b), is, is_reversed));
            let line = |row: &Row| Line::Process(tree.supervisor, row.pid);
            lines.extend(rows.into_iter().map(|row| (line(row), Shown::Process(row))));
        }
        lines
    }

    fn names(&self) -> Vec<Line> {
        self.lines().into_iter().map(|(line, _)| line).collect()
    }

    /// The index of the selected line.
    pub fn chosen_at(&self) -> Option<usize> {
        let chosen = self.chosen?;
        self.names().iter().position(|line| *line == chosen)
    }

    /// Selects another line, `by` lines further down.
    pub fn move_by(&mut self, by: isize) {
        let lines = self.names();
        let at = self.chosen_at().unwrap_or(0).saturating_add_signed(by);
        self.chosen = lines.get(at.min(lines.len().saturating_sub(1))).copied();
    }

    /// Sorts by another column, `by` columns to the right.
    pub fn sort_by(&mut self, by: isize) {
        self.sort = (self.sort as isize + by).rem_euclid(COLUMNS.len() as isize) as usize;
        self.is_reversed = false;
    }

    /// The selected tree, or the tree of the selected process.
    pub fn tree(&self) -> Option<&Group> {
        let supervisor = self.chosen?.supervisor();
        self.look.trees.iter().find(|tree| tree.supervisor == supervisor)
    }

    /// Whether keys ask before they change the limit of a tree, because it is another user's.
    pub fn asks(&self, tree: &Group) -> bool {
        tree.user != self.user && !self.allowed.contains(&tree.supervisor)
    }

    /// The history of the selected line.
    pub fn history(&self) -> Option<&History> {
        self.histories.get(&self.chosen?)
    }

    /// Shows a changed limit at once.
    pub fn limit_is(&mut self, supervisor: i32, bytes: u64) {
        for tree in self.look.trees.iter_mut().filter(|tree| tree.supervisor == supervisor) {
            tree.limit_bytes = bytes;
        }
    }
}

fn has_processes(look: &Look) -> bool {
    look.trees.iter().any(|tree| !tree.processes.is_empty())
}

#[cfg(test)]
mod tests;
