//! What the screen knows: the last look, what came before, what is chosen, what is being typed.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet, VecDeque};

use nix::unistd::Uid;

use super::columns::{COLUMNS, Is};
use super::look::{Group, Look, Rates, Row};

/// Looks that are kept: more than a screen is wide.
const KEPT: usize = 512;

/// What a line is about. A process is named with its tree, for its number may be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Line {
    /// A tree, by its supervisor.
    Tree(i32),
    /// A process of it.
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

/// What a line shows.
pub enum Shown<'a> {
    /// A tree.
    Tree(&'a Group),
    /// A process.
    Process(&'a Row),
}

/// How something was, look by look.
#[derive(Debug, Default, Clone)]
pub struct History {
    /// Bytes.
    pub resident: VecDeque<u64>,
    /// Of a thousand.
    pub stall: VecDeque<u64>,
}

/// A limit that is being typed.
#[derive(Debug, Default)]
pub struct Prompt {
    /// For the tree of this supervisor.
    pub supervisor: i32,
    /// As far as it goes.
    pub text: String,
    /// What is wrong with what was entered.
    pub error: Option<String>,
}

/// A tree of another user is about to get another limit: whether that is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// Of that tree.
    pub supervisor: i32,
    /// Whose it is.
    pub user: u32,
    /// What was asked for.
    pub wish: Wish,
}

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// A limit that is typed.
    Type,
    /// So many hundredths more, or less.
    Change(i64),
}

/// See the module.
#[derive(Debug)]
pub struct State {
    /// The last look; when the one tree that is shown has ended, the last in which it was there.
    pub look: Look,
    histories: HashMap<Line, History>,
    /// The same, and what was chosen, when there were processes last; a supervisor outlives them for a moment.
    last: Option<(Look, HashMap<Line, History>, Option<Line>)>,
    /// The chosen line.
    pub chosen: Option<Line>,
    /// The column that sorts.
    pub sort: usize,
    /// The other way round than it is usual for that.
    pub is_reversed: bool,
    /// The definitions are shown, from this line on.
    pub help: Option<usize>,
    /// A limit is being typed.
    pub prompt: Option<Prompt>,
    /// Waits for an answer.
    pub question: Option<Question>,
    /// Nothing is changed.
    pub is_read_only: bool,
    /// Who looks: trees of others are changed after a question only.
    pub user: u32,
    /// Those trees of others for which it was answered.
    pub allowed: HashSet<i32>,
    /// What was done last.
    pub message: Option<String>,
    /// No looks are taken.
    pub is_paused: bool,
    /// The one tree that is shown has ended.
    pub has_ended: bool,
    /// Lines that the table had when it was drawn last.
    pub visible: usize,
}

impl State {
    /// Sorted by what is saved.
    pub fn new() -> Self {
        State {
            look: Look::default(),
            histories: HashMap::new(),
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

    /// Takes a look.
    pub fn take(&mut self, look: Look) {
        let at = self.chosen_at();
        let mut histories = HashMap::new();
        let mut note = |line: Line, resident: u64, rates: &Rates| {
            let mut history = self.histories.get(&line).cloned().unwrap_or_default();
            push(&mut history.resident, resident);
            push(&mut history.stall, (rates.stall_share.unwrap_or(0.0) * 1000.0).round() as u64);
            histories.insert(line, history);
        };
        for tree in &look.trees {
            note(Line::Tree(tree.supervisor), tree.memory.resident_bytes, &tree.rates);
            for row in &tree.processes {
                note(Line::Process(tree.supervisor, row.pid), row.memory.resident_bytes, &row.rates);
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
            // The first process at first; then what has come to be where the chosen one was.
            let at = at.unwrap_or(1).min(lines.len().saturating_sub(1));
            self.chosen = lines.get(at).copied();
        }
    }

    /// The one tree that is shown has ended: its last numbers stay.
    pub fn end(&mut self) {
        self.has_ended = true;
        if let Some(last) = self.last.take() {
            (self.look, self.histories, self.chosen) = last;
        }
    }

    /// The lines of the table in their order.
    pub fn lines(&self) -> Vec<(Line, Shown<'_>)> {
        let mut lines = Vec::new();
        for tree in &self.look.trees {
            lines.push((Line::Tree(tree.supervisor), Shown::Tree(tree)));
            let mut rows: Vec<&Row> = tree.processes.iter().collect();
            rows.sort_by(|a, b| self.order(a, b));
            let line = |row: &Row| Line::Process(tree.supervisor, row.pid);
            lines.extend(rows.into_iter().map(|row| (line(row), Shown::Process(row))));
        }
        lines
    }

    fn names(&self) -> Vec<Line> {
        self.lines().into_iter().map(|(line, _)| line).collect()
    }

    /// Numbers from the largest on, names and process numbers from the smallest.
    fn order(&self, a: &Row, b: &Row) -> Ordering {
        let is = COLUMNS[self.sort].is;
        let order = match is {
            Is::Pid => a.pid.cmp(&b.pid),
            Is::State => a.state.cmp(b.state),
            Is::Command => a.command.cmp(&b.command),
            _ => number(b, is).total_cmp(&number(a, is)),
        };
        let order = if self.is_reversed { order.reverse() } else { order };
        order.then(a.pid.cmp(&b.pid))
    }

    /// Which of the lines is the chosen one.
    pub fn chosen_at(&self) -> Option<usize> {
        let chosen = self.chosen?;
        self.names().iter().position(|line| *line == chosen)
    }

    /// Chooses another, so many lines down.
    pub fn move_by(&mut self, by: isize) {
        let lines = self.names();
        let at = self.chosen_at().unwrap_or(0).saturating_add_signed(by);
        self.chosen = lines.get(at.min(lines.len().saturating_sub(1))).copied();
    }

    /// Sorts by another column, so many to the right.
    pub fn sort_by(&mut self, by: isize) {
        self.sort = (self.sort as isize + by).rem_euclid(COLUMNS.len() as isize) as usize;
        self.is_reversed = false;
    }

    /// The chosen tree, or that of the chosen process.
    pub fn tree(&self) -> Option<&Group> {
        let supervisor = self.chosen?.supervisor();
        self.look.trees.iter().find(|tree| tree.supervisor == supervisor)
    }

    /// Of the chosen line: what it is called, and its history.
    pub fn history(&self) -> Option<(String, &History)> {
        let chosen = self.chosen?;
        let name = match chosen {
            Line::Tree(supervisor) => format!("tree {supervisor}"),
            Line::Process(_, pid) => pid.to_string(),
        };
        Some((name, self.histories.get(&chosen)?))
    }

    /// A limit was changed: it is shown at once.
    pub fn limit_is(&mut self, supervisor: i32, bytes: u64) {
        for tree in self.look.trees.iter_mut().filter(|tree| tree.supervisor == supervisor) {
            tree.limit_bytes = bytes;
        }
    }
}

fn has_processes(look: &Look) -> bool {
    look.trees.iter().any(|tree| !tree.processes.is_empty())
}

fn push(values: &mut VecDeque<u64>, value: u64) {
    if values.len() == KEPT {
        values.pop_front();
    }
    values.push_back(value);
}

/// A column's number; what is not known comes last.
fn number(row: &Row, is: Is) -> f64 {
    let (memory, rates) = (&row.memory, &row.rates);
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

#[cfg(test)]
mod tests;
