use memfold_args::top::columns::{CHANGES, COLUMNS, Is, KEYS};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::trees::top::look::{Group, Look, Memory, Rates, Row, Totals, Unseen};
use crate::trees::top::state::Line;

fn look() -> Look {
    let memory = Memory {
        logical_bytes: 900 * MIB,
        resident_bytes: 280 * MIB,
        saved_bytes: 620 * MIB as i64,
        ..Memory::default()
    };
    let rates = Rates { faults_per_second: Some(420.0), fault_us: Some(8.4), stall_share: Some(0.5) };
    let row = |pid| Row {
        pid,
        state: "paging",
        memory,
        rates,
        command: "evil\x1b[2J 文件".into(),
        totals: Totals::default(),
    };
    let tree = |supervisor: i32, limit: u64| Group {
        supervisor,
        user: nix::unistd::Uid::effective().as_raw(),
        command: format!("program\n{}", "with many words ".repeat(9)).into(),
        limit_bytes: limit,
        stall_target: None,
        idle_seconds: None,
        unmanaged_bytes: 0,
        memory,
        rates,
        totals: Totals::default(),
        processes: (1..=9).map(|i| row(supervisor * 10 + i)).collect(),
    };
    let unseen = |supervisor, reason| Unseen { supervisor, user: 0, reason };
    Look {
        trees: vec![tree(1, 300 * MIB), tree(2, 270 * MIB), tree(3, 0)],
        hidden: vec![unseen(7, "user"), unseen(8, "version")],
        ..Look::default()
    }
}

fn drawn(state: &mut State, columns: u16, lines: u16, colours: bool) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal.draw(|frame| View { colours, interval: 1.0 }.draw(frame, state)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    (0..lines)
        .map(|y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned())
        .collect()
}

fn press(state: &mut State, code: KeyCode) -> Act {
    key_pressed(state, code.into())
}

#[test]
fn every_size_is_drawn_in_every_state() {
    let prompt = Prompt { supervisor: 1, text: "300Q".into(), error: Some("is not a size ".repeat(9)) };
    let changes: [&dyn Fn(&mut State); 10] = [
        &|state| state.question = Some(Question { supervisor: 1, user: 12_345, wish: Wish::Type }),
        &|_| {},
        &|state| state.move_by(isize::MAX),
        &|state| state.help = Some((Page::Keys, usize::MAX / 2)),
        &|state| state.help = Some((Page::Columns, usize::MAX / 2)),
        &|state| {
            state.is_read_only = true;
            (0..9).for_each(|_| state.take(Look { seconds: 1.0, ..look() }));
        },
        &|state| {
            state.prompt =
                Some(Prompt { text: "300Q".into(), error: prompt.error.clone(), ..Prompt::default() })
        },
        &|state| state.message = Some("limit of 1: 300 MiB, was 200 MiB".repeat(3)),
        &|state| (state.is_paused, state.has_ended) = (true, true),
        &|state| state.take(Look::default()),
    ];
    for change in changes {
        for (columns, lines) in
            (0..=130).flat_map(|columns| [0, 1, 2, 3, 5, 8, 15, 24, 40].map(|lines| (columns, lines)))
        {
            let mut state = State::new();
            state.take(look());
            change(&mut state);
            drawn(&mut state, columns, lines, columns % 2 == 0);
        }
    }
}

#[test]
fn trees_of_others_are_changed_after_a_question_only() {
    let mut state = State::new();
    let mut seen = look();
    seen.trees[1].user = 12_345;
    state.take(seen);
    // The limit of one's own tree changes at once.
    assert_eq!(press(&mut state, KeyCode::Char('+')), Act::Change(1, 5));
    state.chosen = Some(Line::Tree(2));
    let heading = |state: &mut State| {
        drawn(state, 120, 40, false).into_iter().find(|line| line.starts_with(" tree 2")).unwrap()
    };
    assert!(heading(&mut state).starts_with(" tree 2 of user 12345 (read-only: keys ask first): program"));
    for key in ['+', '-', 'l'] {
        assert_eq!(press(&mut state, KeyCode::Char(key)), Act::Nothing);
        let lines = drawn(&mut state, 80, 24, false).join("\n");
        assert!(
            lines.contains("the tree of 2 is user 12345's: change its limit?")
                && lines.contains("until top ends"),
            "{lines}"
        );
        // Pressing the same key again does not confirm.
        assert_eq!(press(&mut state, KeyCode::Char(key)), Act::Nothing);
        assert!(state.question.is_none() && state.prompt.is_none(), "{key}");
        assert_eq!(state.message.as_deref(), Some("its limit stays"));
    }
    assert_eq!(press(&mut state, KeyCode::Char('-')), Act::Nothing);
    assert_eq!(press(&mut state, KeyCode::Char('y')), Act::Change(2, -5));
    // The confirmation holds for this tree, and for no other.
    assert!(heading(&mut state).starts_with(" tree 2 of user 12345: program"));
    assert_eq!(press(&mut state, KeyCode::Char('+')), Act::Change(2, 5));
    assert_eq!((press(&mut state, KeyCode::Char('l')), state.prompt.is_some()), (Act::Nothing, true));
}

#[test]
fn nothing_is_changed_if_only_to_be_read() {
    let mut state = State::new();
    state.take(look());
    let lines = drawn(&mut state, 80, 24, false);
    assert!(lines[23].contains("l limit") && !lines[0].contains("read-only"), "{lines:#?}");
    state.is_read_only = true;
    for key in ['+', '-', '=', 'l'] {
        assert_eq!(press(&mut state, KeyCode::Char(key)), Act::Nothing);
        assert!(state.prompt.is_none() && state.question.is_none(), "{key}");
        assert!(state.message.as_ref().unwrap().contains("--read-only"));
    }
    // The screen says so at any time, and does not offer these keys.
    press(&mut state, KeyCode::Char(' '));
    for (key, mode) in [(' ', " read-only, every 1 s"), (' ', " read-only, paused")] {
        press(&mut state, KeyCode::Char(key));
        let lines = drawn(&mut state, 80, 24, false);
        assert!(lines[0].ends_with(mode) && lines[0].contains("2.64 GiB in 840 MiB"), "{lines:#?}");
        assert!(lines[23].contains("r reverse") && !lines[23].contains("limit"), "{lines:#?}");
    }
    // No key asks for anything but a look, whatever the tree.
    let mut seen = look();
    seen.trees[0].user = 12_345;
    state.take(seen);
    state.chosen = Some(Line::Tree(1));
    for key in (' '..='~').filter(|key| !matches!(key, 'q' | ' ' | '?')) {
        assert_eq!(press(&mut state, KeyCode::Char(key)), Act::Nothing, "{key}");
        assert!(state.prompt.is_none() && state.question.is_none(), "{key}");
    }
}

#[test]
fn a_small_screen_has_what_matters() {
    let mut state = State::new();
    state.take(look());
    let lines = drawn(&mut state, 80, 24, false);
    assert!(lines[0].starts_with(" memfold top  3 trees, 27 processes: 2.64 GiB in 840 MiB "), "{lines:#?}");
    assert!(lines[0].ends_with(" every 1 s") && !lines[0].contains("saved"), "{lines:#?}");
    for title in ["PID", "LOGICAL", "RESIDENT", "SAVED▾", "FAULTS/s", "STALL", "COMMAND"] {
        assert!(lines[1].contains(title), "{title}: {lines:#?}");
    }
    assert!(lines[1].ends_with("LIMIT") && lines[2].ends_with("300M"), "{lines:#?}");
    // The line of a tree has its sums, in the columns of its processes; its command ends after a word.
    let cells: Vec<_> = lines[2].split_whitespace().collect();
    let tree = ["1", "900M", "280M", "620M", "420", "50.0", "%", "program\\nwith", "…", "300M"];
    assert_eq!(cells, tree, "{lines:#?}");
    assert!(lines[3].contains("420") && lines[3].contains("50.0 %"), "{lines:#?}");
    // A program's name cannot move the cursor.
    assert!(lines[3].contains("   evil\\u{1b}"), "{lines:#?}");
    let hint = lines[20..].join(" ");
    assert!(hint.contains("1 tree of another user (7 of root): try 'memfold top' as root"), "{lines:#?}");
    assert!(hint.contains("another version of memfold (8)") && lines[23].contains("q quit"), "{lines:#?}");
    // The selected line stays visible.
    state.move_by(isize::MAX);
    let lines = drawn(&mut state, 40, 6, false);
    assert!(lines.iter().any(|line| line.trim_start().starts_with("39 ")), "{lines:#?}");
    // Even if there is only one line.
    assert!(drawn(&mut state, 40, 1, false)[0].contains("39 "));
}

/// A state after a minute of looks at one tree.
fn watched() -> State {
    let mut state = State::new();
    for second in 0..=60 {
        let mut seen = look();
        seen.trees.truncate(1);
        seen.hidden.clear();
        let tree = &mut seen.trees[0];
        tree.processes.truncate(1);
        tree.memory.resident_bytes = 80 * MIB + 3 * second * MIB;
        tree.memory.payload_bytes = second * MIB;
        tree.rates.stall_share = Some(second as f64 / 1000.0);
        state.take(Look { seconds: 1.0, ..seen });
    }
    state
}

fn has_braille(text: &str) -> bool {
    text.chars().any(|letter| ('\u{2801}'..='\u{28ff}').contains(&letter))
}

#[test]
fn charts_take_the_rest_of_the_screen() {
    for (columns, lines) in [(120, 40), (80, 24)] {
        let mut state = watched();
        let lines = drawn(&mut state, columns, lines, false);
        assert!(lines[4].starts_with(" tree 1: program\\nwith many words"), "{lines:#?}");
        assert_eq!(lines[5], " ⣿ PAYLOAD 60M  ⠒ RESIDENT 260M  ⠤ LIMIT 300M", "{lines:#?}");
        // No line is empty, and the charts reach both sides.
        assert!(lines.iter().all(|line| !line.is_empty()), "{lines:#?}");
        let most = lines[6..].iter().map(|line| line.chars().count()).max().unwrap();
        assert!(most + 3 >= usize::from(columns), "{lines:#?}");
        // Each axis has labels with units, and times.
        let label = |lines: &[String], label: &str| {
            lines
                .iter()
                .position(|line| line.contains(label))
                .unwrap_or_else(|| panic!("{label}: {lines:#?}"))
        };
        assert!(lines[6].starts_with(" 384M│"), "{lines:#?}");
        let stall = label(&lines, " ⣿ STALL 6.0 %");
        assert!(label(&lines, " 10 %│") > stall && label(&lines, "  5 %│") > stall, "{lines:#?}");
        for chart in [&lines[6..stall], &lines[stall..]] {
            label(chart, "   0│");
            let times = &chart[label(chart, "-60s")];
            assert!(times.contains("-30s") && times.ends_with("now"), "{times}");
        }
        // The filled part grows to the right: it is of compressed memory.
        let bottom = &lines[label(&lines[..stall], "   0│")];
        assert!(bottom.ends_with("⣿⣿⣿⣿"), "{bottom}");
        assert!(has_braille(&lines[label(&lines, "128M│")]), "{lines:#?}");
    }
}

#[test]
fn a_full_table_leaves_room_for_charts() {
    let mut state = State::new();
    state.take(look());
    for (columns, height, least) in [(120, 40, 13), (80, 24, 7)] {
        let lines = drawn(&mut state, columns, height, false);
        let heading = lines.iter().position(|line| line.starts_with(" tree 1: program")).unwrap();
        let foot = lines.iter().position(|line| line.contains("of another user")).unwrap();
        assert_eq!(foot - heading, least + 1, "{lines:#?}");
        assert!(
            lines[heading + 1].contains("RESIDENT") && lines.iter().any(|line| line.contains("STALL 50.0 %"))
        );
        assert!(lines[foot - 1].contains("-60s") && lines[foot - 1].contains("now"), "{lines:#?}");
    }
    // A low screen has none, and a narrow one only the first.
    assert!(!drawn(&mut state, 80, 15, false).iter().any(|line| line.contains("-60s")));
    let lines = drawn(&mut state, 50, 20, false);
    assert!(
        lines.iter().any(|line| line.contains("-60s")) && !lines.iter().any(|line| line.contains("5 %│"))
    );
}

#[test]
fn a_far_limit_does_not_flatten_the_charts() {
    let mut state = watched();
    let mut seen = state.look.clone();
    seen.trees[0].limit_bytes = 64 << 30;
    (0..600).for_each(|_| state.take(Look { seconds: 1.0, ..seen.clone() }));
    let lines = drawn(&mut state, 120, 40, false);
    assert!(lines[5].ends_with("⠤ LIMIT 64G (above)") && lines[6].starts_with(" 384M│"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("-10m") && line.contains("-5m")), "{lines:#?}");
    // A process has no limit.
    state.move_by(1);
    let lines = drawn(&mut state, 120, 40, false);
    assert!(lines[4].starts_with(" 11 in tree 1: evil\\u{1b}") && !lines[5].contains("LIMIT"), "{lines:#?}");
}

#[test]
fn there_is_a_gap_where_no_looks_were_taken() {
    let mut state = watched();
    let line = |lines: &[String]| {
        let at = lines.iter().position(|line| line.starts_with("    0│")).unwrap();
        lines[at].chars().skip(6).collect::<String>()
    };
    let before = line(&drawn(&mut state, 120, 40, false));
    assert!(!before.trim_start().contains(' '), "{before}");
    // A pause of 20 seconds.
    let seen = state.look.clone();
    state.take(Look { seconds: 20.0, ..seen.clone() });
    (0..10).for_each(|_| state.take(Look { seconds: 1.0, ..seen.clone() }));
    let after = line(&drawn(&mut state, 120, 40, false));
    assert!(after.trim_start().contains("          ") && after.ends_with('⣿'), "{after}");
}

#[test]
fn the_sort_column_is_marked_on_every_screen() {
    for (sort, column) in COLUMNS.iter().enumerate() {
        for columns in [80, 120] {
            let mut state = State::new();
            state.take(look());
            state.sort = sort;
            let lines = drawn(&mut state, columns, 24, true);
            assert!(lines[1].contains(&format!("{}▾", column.title)), "{lines:#?}");
            press(&mut state, KeyCode::Char('r'));
            let lines = drawn(&mut state, columns, 24, true);
            assert!(lines[1].contains(&format!("{}▴", column.title)), "{lines:#?}");
            // No title, and no number, is cut.
            let titles = lines[1].replace('▴', " ");
            let known = |word: &str| word == "LIMIT" || COLUMNS.iter().any(|column| column.title == word);
            assert!(titles.split_whitespace().all(known), "{titles}");
        }
    }
}

#[test]
fn trees_move_when_they_are_sorted_by_keys() {
    let mut state = State::new();
    let mut seen = look();
    seen.trees[2].memory.saved_bytes += 1;
    state.take(seen);
    let order = |state: &mut State| -> Vec<String> {
        let lines = drawn(state, 120, 40, false);
        let pids = lines[2..].iter().filter_map(|line| line.split_whitespace().next());
        pids.filter(|pid| ["1", "2", "3"].contains(pid)).map(str::to_owned).take(2).collect()
    };
    assert_eq!(order(&mut state), ["3", "1"]);
    press(&mut state, KeyCode::Char('r'));
    assert_eq!(order(&mut state), ["1", "2"]);
    while COLUMNS[state.sort].is != Is::Pid {
        press(&mut state, KeyCode::Left);
    }
    press(&mut state, KeyCode::Char('r'));
    assert_eq!(order(&mut state), ["3", "2"]);
}

#[test]
fn the_keys_fit_on_a_small_screen() {
    let mut state = State::new();
    state.take(look());
    press(&mut state, KeyCode::Char('?'));
    let lines = drawn(&mut state, 80, 24, false);
    for (key, meaning) in KEYS {
        let line = lines.iter().find(|line| line.trim_start().starts_with(&format!("{key} ")));
        assert!(line.is_some_and(|line| line.ends_with(meaning)), "{key}: {lines:#?}");
    }
    assert!(lines[20].is_empty() && !lines[23].contains("more"), "{lines:#?}");
    assert!(lines[23].contains("? columns   any other key goes back"), "{lines:#?}");
}

#[test]
fn help_can_all_be_reached() {
    for (columns, lines) in [(80, 24), (40, 10), (200, 60)] {
        let mut state = State::new();
        state.take(look());
        let mut seen = Vec::<String>::new();
        for _ in 0..2 {
            press(&mut state, KeyCode::Char('?'));
            for _ in 0..200 {
                seen.extend(drawn(&mut state, columns, lines, false));
                press(&mut state, KeyCode::Down);
            }
        }
        let keys = KEYS.iter().chain(&CHANGES).map(|(key, _)| *key);
        for word in COLUMNS.iter().map(|column| column.title).chain(keys) {
            assert!(
                seen.iter().any(|line| line.trim_start().starts_with(word)),
                "{word} in {columns}x{lines}"
            );
        }
        press(&mut state, KeyCode::Char('q'));
        assert_eq!(state.help, None);
    }
}

#[test]
fn a_limit_is_typed() {
    let mut state = State::new();
    state.take(look());
    assert_eq!(press(&mut state, KeyCode::Char('+')), Act::Change(1, 5));
    assert_eq!(press(&mut state, KeyCode::Char('-')), Act::Change(1, -5));
    press(&mut state, KeyCode::Char('l'));
    // Letters are input now, not keys.
    for key in "30q".chars() {
        assert_eq!(press(&mut state, KeyCode::Char(key)), Act::Nothing);
    }
    assert!(drawn(&mut state, 80, 24, false)[23].contains("limit of 1, now 300 MiB: 30q▏"));
    assert_eq!(press(&mut state, KeyCode::Enter), Act::Enter);
    enter(&mut state, &Looker::new(None));
    let lines = drawn(&mut state, 80, 24, false);
    assert!(lines[21].contains("the limit '30q' is not a size; give a size like"), "{lines:#?}");
    press(&mut state, KeyCode::Backspace);
    assert_eq!(
        state.prompt.as_ref().map(|prompt| (prompt.text.as_str(), prompt.error.is_none())),
        Some(("30", false))
    );
    press(&mut state, KeyCode::Char('M'));
    assert_eq!(press(&mut state, KeyCode::Enter), Act::Enter);
    // The tree has ended.
    enter(&mut state, &Looker::new(None));
    assert!(state.prompt.is_none() && state.message.as_ref().unwrap().contains("has ended"));
    press(&mut state, KeyCode::Char('l'));
    press(&mut state, KeyCode::Char('1'));
    assert_eq!((press(&mut state, KeyCode::Esc), state.prompt.is_none()), (Act::Nothing, true));
    assert_eq!(press(&mut state, KeyCode::Char('q')), Act::Quit);
}

#[test]
fn nothing_can_be_changed_where_nothing_is() {
    let mut state = State::new();
    state.take(Look::default());
    for key in "l+-=r s".chars() {
        press(&mut state, KeyCode::Char(key));
    }
    assert!(state.prompt.is_none() && state.is_paused);
    assert_eq!(press(&mut state, KeyCode::Char(' ')), Act::Look);
    let lines = drawn(&mut state, 80, 24, false);
    assert!(lines.iter().any(|line| line.contains("memfold run --limit 512M -- PROGRAM")), "{lines:#?}");
}
