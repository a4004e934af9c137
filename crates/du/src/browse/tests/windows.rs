//! Windows in front of the list.

use super::*;
use crate::browse::windows::Window;
use crate::entry::Link;
use crate::tree::flags;

fn with<R>(
    fill: impl FnOnce(&mut Builder<'_>) -> Result<(), Error>,
    test: impl FnOnce(&mut Test<'_, '_>) -> R,
) -> R {
    let heap = heap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    let tree = tree(&heap, &session, None, fill);
    let mut shown = Test::new(&order, &tree, 80, 24);
    shown.draw();
    test(&mut shown)
}

/// The contents of the window: the lines between its sides.
fn inside(test: &Test<'_, '_>) -> Vec<String> {
    let lines = test.lines();
    let inside =
        lines.iter().filter_map(|line| Some(line.split_once('│')?.1.split_once('│')?.0.trim().into()));
    inside.filter(|line: &String| !line.is_empty()).collect()
}

#[test]
fn a_file_s_names_are_shown_and_can_be_gone_to() {
    let fill = |builder: &mut Builder<'_>| {
        let link = Some(Link { inode: 7, device: None, names: 3 });
        builder.begin(&directory("a"), Row::default())?;
        builder.begin(&directory("b"), Row::default())?;
        builder.add(&Entry { link, ..file("two", 10_000) })?;
        builder.end()?;
        builder.end()?;
        builder.add(&Entry { link, ..file("one", 10_000) })
    };
    with(fill, |test| {
        test.keys("ni");
        // The window follows the selection.
        assert_eq!(inside(test)[0], "Name: a");
        test.keys("j");
        let expected = [
            "Name: one",
            "Path: /root",
            "Type: File",
            "Disk usage:  12.0 KiB (12,288 B)",
            "Apparent size:   9.8 KiB (10,000 B)",
            "Names: 3 (press 2 to see them)",
            "Press i to hide this window",
        ];
        assert_eq!(inside(test), expected);
        test.keys("2");
        let expected = [
            "2 of 3 names are here (enter opens):",
            "/root/one",
            "/root/a/b/two",
            "Press i to hide this window",
        ];
        let mut shown = inside(test);
        shown[1..3].sort();
        let mut sorted = expected.map(String::from);
        sorted[1..3].sort();
        assert_eq!(shown, sorted);
        let at = inside(test).iter().position(|line| line == "/root/a/b/two").unwrap() - 1;
        test.press([KeyCode::Down].repeat(at));
        test.press([KeyCode::Enter]);
        assert_eq!(test.names(), ["/..", "two"]);
        assert_eq!(test.selected(), "two");
        // And back, as from any other directory.
        test.keys("hh");
        assert_eq!(test.selected(), "a");
        test.keys("i");
        assert_eq!(
            inside(test)[3..6],
            ["Disk usage:  20.0 KiB (20,480 B)", "Apparent size:  17.8 KiB (18,192 B)", "Items:         2"]
        );
        assert_eq!(inside(test)[6..8], ["Shared:  12.0 KiB (12,288 B)", "Unique:   8.0 KiB (8,192 B)"]);
        test.keys("i");
        assert!(inside(test).is_empty());
    });
}

#[test]
fn unreadable_entries_show_the_reason() {
    let fill = |builder: &mut Builder<'_>| {
        let row = row(flags::FAILED, 13);
        builder.begin(&directory("above"), Row::default())?;
        builder.begin(&directory("closed"), row)?;
        builder.end()?;
        builder.end()?;
        builder.add(&Entry { kind: Kind::Failed(5), ..file("bad", 0) })?;
        builder.add(&Entry { kind: Kind::OtherFileSystem, ..file("mount", 0) })?;
        builder.add(&Entry { kind: Kind::KernelFileSystem, ..file("proc", 0) })
    };
    with(fill, |test| {
        test.keys("n");
        let flags: Vec<_> = test.rows().iter().map(|row| row[..1].to_string()).collect();
        assert_eq!(
            (test.names().join(" "), flags.concat()),
            ("/above bad /mount /proc".into(), ".!>^".into())
        );
        test.keys("i");
        assert!(inside(test).contains(&"Note: one thing below was not read".into()), "{:?}", inside(test));
        test.keys("j");
        assert!(inside(test).contains(&"Note: not read: Input/output error".into()), "{:?}", inside(test));
        test.keys("ikljil");
        assert_eq!(test.rows()[1], "!   4.0 KiB [###########] /closed");
        assert!(inside(test).contains(&"Note: not read: Permission denied".into()), "{:?}", inside(test));
        test.keys("il");
        assert_eq!(test.rows()[1], "  not read: Permission denied");
    });
}

#[test]
fn deleting_asks_first_and_names_what_goes() {
    let fill = |builder: &mut Builder<'_>| {
        builder.begin(&directory("dir"), Row::default())?;
        builder.add(&file("f", 10_000))?;
        builder.end()?;
        builder.add(&file("bad\nname", 1))
    };
    with(fill, |test| {
        assert_eq!(test.keys("d"), Act::Nothing);
        let expected = [
            "Are you sure you want to delete",
            "\"dir\"",
            "and all of its contents?",
            "yes   no   don't ask me again",
        ];
        assert_eq!(inside(test), expected);
        // Pressing only enter means no.
        assert_eq!(test.press([KeyCode::Enter]), Act::Nothing);
        assert!(inside(test).is_empty());
        assert_eq!(test.keys("dhq"), Act::Nothing);
        assert_eq!(test.press([KeyCode::Char('d'), KeyCode::Left, KeyCode::Esc]), Act::Nothing);
        let slot = test.browser.slot().unwrap().unwrap();
        let act = test.press([KeyCode::Char('d'), KeyCode::Left, KeyCode::Enter]);
        assert_eq!(act, Act::Delete { directory: 0, slot });
        test.keys("jd");
        assert_eq!(inside(test)[1], "\"bad\\nname\"");
        let act = test.press([KeyCode::Right, KeyCode::Enter]);
        let slot = test.browser.slot().unwrap().unwrap();
        assert_eq!(act, Act::Delete { directory: 0, slot });
        // From now on there is no question.
        assert_eq!(test.keys("d"), Act::Delete { directory: 0, slot });
        // The row for the parent cannot be deleted.
        test.press([KeyCode::Home, KeyCode::Enter, KeyCode::Home]);
        assert_eq!(test.selected(), "..");
        assert_eq!(test.keys("d"), Act::Nothing);
        assert!(inside(test).is_empty());
    });
}

#[test]
fn impossible_actions_are_explained() {
    with(
        |builder| builder.add(&file("f", 1)),
        |test| {
            let read_only = ReadOnly(test.actions.source);
            for (key, text) in [('d', "Deleting"), ('r', "Refreshing"), ('b', "A shell")] {
                let act = test.browser.key(&read_only, KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
                assert_eq!(act, Act::Nothing);
                test.draw();
                assert_eq!(inside(test)[0], format!("{text} is not possible here."));
                test.keys(" ");
            }
            assert_eq!((test.keys("r"), test.keys("b")), (Act::Refresh, Act::Shell));
            test.keys("m");
            assert_eq!(
                inside(test)[..2].join(" "),
                "Times are unknown. They are known if the tree is scanned with -e."
            );
        },
    );
}

#[test]
fn quitting_asks_if_the_option_is_set() {
    with(
        |_| Ok(()),
        |test| {
            assert_eq!(test.keys("q"), Act::Quit);
            test.browser.options.confirm_quit = true;
            assert_eq!(test.keys("q"), Act::Nothing);
            assert_eq!(inside(test), ["Really quit? (y/N)"]);
            assert_eq!(test.keys("n"), Act::Nothing);
            assert!(inside(test).is_empty());
            assert_eq!(test.keys("qy"), Act::Quit);
        },
    );
}

#[test]
fn help_can_be_read_to_its_end() {
    with(
        |_| Ok(()),
        |test| {
            test.keys("?");
            assert_eq!(inside(test)[0], "up, k  Move up");
            test.keys(&"j".repeat(50));
            assert!(inside(test).iter().any(|line| line.starts_with("q  Quit")), "{:?}", inside(test));
            test.keys("k");
            assert!(!inside(test).iter().any(|line| line.starts_with("q  Quit")));
            test.keys("2");
            assert_eq!(inside(test)[2], "!  It could not be read, or not all of it");
            test.keys("l");
            assert!(inside(test)[0].starts_with("memfold du "));
            test.keys("q");
            assert!(inside(test).is_empty());
        },
    );
}

#[test]
fn after_a_change_the_next_entry_is_selected() {
    with(
        |builder| ["a", "b", "c"].iter().try_for_each(|name| builder.add(&file(name, 1))),
        |test| {
            test.keys("nj");
            // Nothing was deleted, so b stays.
            test.browser.deleted(&test.actions, 1, Err(Error::Damaged));
            test.draw();
            assert_eq!(test.selected(), "b");
            assert!(inside(test)[0].contains("damaged"));
            test.keys(" ");
            test.browser.deleted(&test.actions, 1, Ok(()));
            assert!(inside(test).is_empty());
            test.browser.refreshed(&test.actions, b"c".to_vec(), Ok(()));
            test.draw();
            assert_eq!(test.selected(), "c");
            // If the selected entry has vanished, the one in its row is selected.
            test.browser.refreshed(&test.actions, b"gone".to_vec(), Err(Error::Stopped));
            test.draw();
            assert_eq!((test.selected(), inside(test).len()), ("c".into(), 0));
        },
    );
}

#[test]
fn the_question_names_the_entry_to_delete() {
    let fill = |builder: &mut Builder<'_>| builder.add(&file("a-file-of-some-length", 10_000));
    with(fill, |test| {
        let slot = 0;
        for (width, height) in (1..60).flat_map(|width| (1..9).map(move |height| (width, height))) {
            let what = format!("{height} lines of {width}");
            test.resize(Size { width, height });
            let has_room = if height == 1 { width >= 24 } else { width >= 14 };
            test.keys("d");
            let asks = matches!(test.browser.window, Window::Delete(_));
            assert_eq!(asks, has_room, "{what}");
            if !asks {
                // The message replaces the question.
                test.keys(" ");
                assert!(matches!(test.browser.window, Window::None), "{what}");
                // Nothing is deleted without a question, either.
                test.browser.options.confirm_delete = false;
                assert_eq!(test.keys("d "), Act::Nothing, "{what}");
                test.browser.options.confirm_delete = true;
                // Nor if the question fitted when it was shown.
                test.resize(Size { width: 80, height: 24 });
                test.keys("d");
                test.resize(Size { width, height });
                assert_eq!(test.press([KeyCode::Left, KeyCode::Enter]), Act::Nothing, "{what}");
                continue;
            }
            let lines = |test: &Test<'_, '_>| test.lines().join("\n");
            let answers = [
                (' ', [" no", " no"]),
                ('l', [" always", " don't ask"]),
                ('h', [" no", " no"]),
                ('h', [" yes", " yes"]),
            ];
            for (key, words) in answers {
                test.keys(&key.to_string());
                let lines = lines(test);
                let is_answer = words.iter().any(|word| lines.contains(word));
                assert!(lines.contains("\"a") && is_answer, "{what}, {words:?}:\n{lines}");
            }
            let act = test.press([KeyCode::Enter]);
            assert_eq!(act, Act::Delete { directory: 0, slot }, "{what}");
        }
    });
}
