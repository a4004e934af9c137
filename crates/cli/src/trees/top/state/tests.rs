use super::history::KEPT;
use super::*;
use crate::trees::top::look::{Memory, Rates, Totals};

fn row(pid: i32, saved: i64, command: &str) -> Row {
    let memory = Memory { saved_bytes: saved, resident_bytes: pid as u64, ..Memory::default() };
    let rates = Rates { stall_share: Some(0.25), ..Rates::default() };
    Row { pid, state: "paging", memory, rates, command: command.into(), totals: Totals::default() }
}

fn tree(supervisor: i32, processes: Vec<Row>) -> Group {
    Group {
        supervisor,
        user: 0,
        command: "program".into(),
        limit_bytes: 100 << 20,
        stall_target: None,
        idle_seconds: None,
        unmanaged_bytes: 0,
        memory: Memory::default(),
        rates: Rates::default(),
        totals: Totals::default(),
        processes,
    }
}

fn look(trees: Vec<Group>) -> Look {
    Look { trees, ..Look::default() }
}

fn pids(state: &State) -> Vec<i32> {
    let pid = |line: &Line| match line {
        Line::Tree(supervisor) => *supervisor,
        Line::Process(_, pid) => *pid,
    };
    state.names().iter().map(pid).collect()
}

/// A tree with the sums over its processes.
fn summed(supervisor: i32, command: &str, processes: Vec<Row>) -> Group {
    let memory = Memory {
        saved_bytes: processes.iter().map(|row| row.memory.saved_bytes).sum(),
        resident_bytes: processes.iter().map(|row| row.memory.resident_bytes).sum(),
        ..Memory::default()
    };
    Group { memory, command: command.into(), ..tree(supervisor, processes) }
}

/// Sorts by a column.
fn sort(state: &mut State, is: Is) {
    while COLUMNS[state.sort].is != is {
        state.sort_by(1);
    }
}

#[test]
fn trees_are_sorted_and_processes_within_them() {
    let mut state = State::new();
    state.take(look(vec![
        summed(1, "y", vec![row(10, 5, "b"), row(11, 7, "a"), row(12, -1, "c")]),
        summed(2, "z", vec![row(20, 99, "d")]),
        summed(3, "x", vec![row(30, 1, "e"), row(31, 2, "f")]),
    ]));
    assert_eq!(pids(&state), [2, 20, 1, 11, 10, 12, 3, 31, 30]);
    state.is_reversed = true;
    assert_eq!(pids(&state), [3, 30, 31, 1, 12, 10, 11, 2, 20]);
    let by = |state: &mut State, is: Is| {
        sort(state, is);
        pids(state)
    };
    assert_eq!(by(&mut state, Is::Command), [3, 30, 31, 1, 11, 10, 12, 2, 20]);
    assert_eq!(by(&mut state, Is::Pid), [1, 10, 11, 12, 2, 20, 3, 30, 31]);
    assert_eq!(by(&mut state, Is::Resident), [3, 31, 30, 1, 12, 11, 10, 2, 20]);
    state.sort = 0;
    state.sort_by(-1);
    assert_eq!(COLUMNS[state.sort].is, Is::Command);
}

#[test]
fn equal_trees_keep_their_order() {
    let mut state = State::new();
    let all = || vec![tree(3, vec![]), tree(1, vec![row(10, 0, "a")]), tree(2, vec![])];
    for is in COLUMNS.iter().map(|column| column.is).filter(|is| *is != Is::State) {
        for is_reversed in [false, true] {
            state.take(look(all()));
            sort(&mut state, is);
            state.is_reversed = is_reversed && is != Is::Pid;
            assert_eq!(pids(&state), [1, 10, 2, 3], "{is:?}");
        }
    }
}

#[test]
fn the_selection_stays_when_the_order_changes() {
    let mut state = State::new();
    let trees = |saved: [i64; 2]| {
        look(vec![
            summed(1, "a", vec![row(10, saved[0], "x"), row(11, 0, "y")]),
            summed(2, "b", vec![row(20, saved[1], "z")]),
        ])
    };
    state.take(trees([5, 3]));
    assert_eq!((state.chosen, state.chosen_at()), (Some(Line::Tree(1)), Some(0)));
    // The other tree saves more now.
    state.take(trees([5, 9]));
    assert_eq!((state.chosen, state.chosen_at()), (Some(Line::Tree(1)), Some(2)));
    state.move_by(2);
    assert_eq!((state.chosen, state.chosen_at()), (Some(Line::Process(1, 11)), Some(4)));
    state.is_reversed = true;
    assert_eq!((state.chosen, state.chosen_at()), (Some(Line::Process(1, 11)), Some(1)));
    sort(&mut state, Is::Pid);
    assert_eq!((state.chosen, state.chosen_at()), (Some(Line::Process(1, 11)), Some(2)));
}

#[test]
fn a_tree_has_the_state_of_its_processes() {
    let mut rows = vec![row(10, 0, "a"), row(11, 0, "b")];
    let state = |processes: &[Row]| Values::of_tree(&tree(1, processes.to_vec())).state;
    assert_eq!((state(&rows), state(&[])), ("paging", "-"));
    rows[1].state = "watching";
    assert_eq!(state(&rows), "mixed");
}

#[test]
fn the_selection_stays_at_its_process_or_its_line() {
    let mut state = State::new();
    state.take(look(Vec::new()));
    assert_eq!((state.chosen, state.history().is_none()), (None, true));
    state.move_by(1);
    let all = || tree(1, vec![row(10, 3, "a"), row(11, 2, "b"), row(12, 1, "c")]);
    state.take(look(vec![all()]));
    assert_eq!(state.chosen, Some(Line::Tree(1)));
    state.move_by(2);
    // Another tree comes before it.
    state.take(look(vec![tree(0, vec![row(11, 9, "x")]), all()]));
    assert_eq!((state.chosen, state.chosen_at()), (Some(Line::Process(1, 11)), Some(4)));
    // The selected process ends. A key must not change another tree now.
    state.take(look(vec![tree(0, vec![row(11, 9, "x")]), tree(1, vec![row(10, 3, "a"), row(12, 1, "c")])]));
    assert_eq!(state.chosen, Some(Line::Tree(1)));
    // Its tree ends, too, and the line above takes its place.
    state.take(look(vec![tree(0, vec![row(11, 9, "x")])]));
    assert_eq!(state.chosen, Some(Line::Process(0, 11)));
    state.take(look(vec![tree(0, vec![row(11, 9, "x")]), all()]));
    state.move_by(isize::MAX);
    assert_eq!(state.chosen, Some(Line::Process(1, 12)));
    state.move_by(isize::MIN);
    assert_eq!(state.chosen, Some(Line::Tree(0)));
    assert_eq!(state.tree().map(|tree| tree.supervisor), Some(0));
    state.take(look(Vec::new()));
    assert_eq!(state.chosen, None);
}

#[test]
fn history_is_that_of_the_chosen_line() {
    let mut state = State::new();
    for _ in 0..KEPT + 3 {
        let trees = vec![tree(1, vec![row(10, 3, "a"), row(11, 2, "b")])];
        state.take(Look { seconds: 2.0, ..look(trees) });
    }
    state.move_by(1);
    let history = state.history().unwrap();
    assert_eq!(history.samples().len(), KEPT);
    let (first, last) = (history.samples().next().unwrap(), history.newest().unwrap());
    assert_eq!((last.resident, last.limit, last.stall), (10, 100 << 20, Some(0.25)));
    assert_eq!(last.at - first.at, 2.0 * (KEPT - 1) as f64);
    // A new process has no history, even if it has the id of an earlier one.
    state.take(look(vec![tree(2, vec![row(10, 3, "a")])]));
    assert_eq!(state.chosen, Some(Line::Process(2, 10)));
    assert_eq!(state.history().unwrap().samples().len(), 1);
    state.move_by(-1);
    assert_eq!(state.history().unwrap().newest().unwrap().stall, None);
}

#[test]
fn the_last_numbers_of_a_tree_that_has_ended_stay() {
    let mut state = State::new();
    let all = || look(vec![tree(1, vec![row(10, 3, "a"), row(11, 2, "b")])]);
    state.take(all());
    state.move_by(2);
    // The supervisor outlives its processes for a moment.
    (0..2).for_each(|_| state.take(look(vec![tree(1, Vec::new())])));
    assert_eq!(pids(&state), [1]);
    state.end();
    assert_eq!((pids(&state), state.chosen), (vec![1, 10, 11], Some(Line::Process(1, 11))));
    assert!(state.has_ended && state.history().is_some());
    // New processes appear in between.
    let mut state = State::new();
    let fewer = || look(vec![tree(1, vec![row(12, 3, "c")])]);
    [all(), look(vec![tree(1, Vec::new())]), fewer()].into_iter().for_each(|look| state.take(look));
    state.end();
    assert_eq!(pids(&state), [1, 12]);
}
