//! The list on the screen.

use super::*;
use crate::entry::Link;

/// Some files, two directories, one of them with directories in it.
fn fill(builder: &mut Builder<'_>) -> Result<(), Error> {
    builder.begin(&directory("docs"), Row::default())?;
    builder.add(&file("a10.txt", 40_960))?;
    builder.add(&file("a9.txt", 8192))?;
    builder.begin(&directory("old"), Row::default())?;
    builder.add(&file("draft~", 4096))?;
    builder.end()?;
    builder.end()?;
    builder.begin(&directory("empty"), Row::default())?;
    builder.end()?;
    builder.add(&file("big", 1 << 20))?;
    builder.add(&file(".hidden", 1000))?;
    builder.add(&Entry { kind: Kind::Other, ..file("link", 0) })?;
    builder.add(&Entry { kind: Kind::Excluded, ..file("cache", 0) })
}

#[test]
fn the_list_looks_as_ncdu_s_does() {
    let heap = heap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    let tree = tree(&heap, &session, None, fill);
    let mut test = Test::new(&order, &tree, 80, 12);
    test.draw();
    let expected = [
        "memfold du ~ Use the arrow keys to navigate, press ? for help",
        "--- /root ----------------------------------------------------------------------",
        "    1.0 MiB [###########]  big",
        "   60.0 KiB [           ] /docs",
        "e   4.0 KiB [           ] /empty",
        "    4.0 KiB [           ]  .hidden",
        "<   0.0   B [           ]  cache",
        "@   0.0   B [           ]  link",
        "",
        "",
        "",
        " Total disk usage:   1.1 MiB  Apparent size:   1.1 MiB  Items: 10",
    ];
    assert_eq!(test.lines(), expected);
    test.keys("j");
    assert_eq!(test.selected(), "docs");
    test.press([KeyCode::Enter]);
    let expected = ["                          /..", "   40.0 KiB [###########]  a10.txt"];
    assert_eq!(test.rows()[..2], expected);
    assert!(test.lines()[1].starts_with("--- /root/docs ---"), "{:?}", test.lines()[1]);
    // The row for the parent, as in ncdu: a further key meant for the directory does nothing.
    assert_eq!(test.selected(), "..");
    assert_eq!(test.keys("d"), Act::Nothing);
    assert_eq!(test.rows()[..2], expected);
}

#[test]
fn keys_sort() {
    let heap = heap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    let tree = tree(&heap, &session, None, fill);
    let mut test = Test::new(&order, &tree, 120, 12);
    test.keys("j");
    // The same entry stays selected.
    for (keys, names, foot) in [
        ("n", ".hidden big cache /docs /empty link", "Sort: name, ascending"),
        ("n", "link /empty /docs cache big .hidden", "Sort: name, descending"),
        ("t", "/empty /docs link cache big .hidden", "Sort: directories, name, descending"),
        ("s", "/docs /empty big .hidden cache link", "Sort: directories, disk usage, descending"),
        ("ts", "cache link .hidden /empty /docs big", "Sort: disk usage, ascending"),
        ("sa", "big /docs /empty .hidden cache link", "Sort: apparent size, descending"),
        ("C", "/docs big .hidden /empty cache link", "Sort: items, descending"),
        ("e", "/docs big /empty link", "Sort: items, descending"),
    ] {
        test.keys(keys);
        assert_eq!(test.names().join(" "), names, "{keys}");
        assert_eq!(test.selected(), "docs", "{keys}");
        assert!(test.lines()[11].ends_with(foot), "{:?}", test.lines()[11]);
    }
    // Only `draft~` is hidden there.
    test.press([KeyCode::Enter, KeyCode::End]);
    assert_eq!(test.selected(), "a9.txt");
    test.keys("n");
    assert_eq!(test.names(), ["/..", "a9.txt", "a10.txt", "/old"]);
    test.press([KeyCode::End, KeyCode::Enter]);
    let above = format!("{:>1$}", "/..", 120 / 7 + 18);
    assert_eq!(test.rows(), [&above, "  all entries are hidden: press e to see them"]);
    test.keys("e");
    assert_eq!(test.names(), ["/..", "draft~"]);
}

#[test]
fn columns_come_and_go() {
    let heap = heap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    let extended = Extended { modified: 1_000_000_000, ..Extended::default() };
    let tree = tree(&heap, &session, Some(extended), |builder| {
        let with = |entry| Entry { extended: Some(extended), ..entry };
        let link = Some(Link { inode: 7, device: None, names: 2 });
        builder.begin(&with(directory("d")), Row::default())?;
        builder.add(&Entry { link, ..with(file("one", 8192)) })?;
        let later = Extended { modified: 1_700_000_000, ..extended };
        builder.add(&Entry { extended: Some(later), ..file("late", 4096) })?;
        builder.end()?;
        builder.add(&Entry { link, ..with(file("two", 8192)) })
    });
    let mut test = Test::new(&order, &tree, 100, 8);
    let expected: [(&str, [&str; 2]); 8] = [
        ("", ["   16.0 KiB [##############] /d", "H   8.0 KiB [#######       ]  two"]),
        ("g", ["   16.0 KiB [ 80.0%] /d", "H   8.0 KiB [ 40.0%]  two"]),
        ("g", ["   16.0 KiB [ 80.0% ##############] /d", "H   8.0 KiB [ 40.0% #######       ]  two"]),
        ("g", ["   16.0 KiB /d", "H   8.0 KiB  two"]),
        ("c", ["   16.0 KiB      2 /d", "H   8.0 KiB         two"]),
        (
            "m",
            [
                "   16.0 KiB      2  2023-11-14 22:13:20 +0000 /d",
                "H   8.0 KiB         2001-09-09 01:46:40 +0000  two",
            ],
        ),
        ("mu", ["   16.0 KiB S   8.0 KiB      2 /d", "H   8.0 KiB S   8.0 KiB         two"]),
        ("u", ["   16.0 KiB U   8.0 KiB      2 /d", "H   8.0 KiB                     two"]),
    ];
    test.draw();
    for (keys, rows) in expected {
        test.keys(keys);
        assert_eq!(test.rows(), rows, "{keys}");
    }
    test.keys("M");
    assert_eq!(test.names(), ["/d", "two"]);
    test.keys("M");
    assert_eq!(test.names(), ["two", "/d"]);
}

#[test]
fn the_browser_returns_to_its_position() {
    let heap = heap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    let tree = tree(&heap, &session, None, |builder| {
        for number in 0..1000 {
            builder.begin(&directory(&format!("d{number}")), Row::default())?;
            builder.add(&file("f", number * 4096))?;
            builder.end()?;
        }
        Ok(())
    });
    let mut test = Test::new(&order, &tree, 80, 13);
    test.keys("n");
    test.press([KeyCode::Home, KeyCode::PageDown, KeyCode::Down]);
    assert_eq!(test.selected(), "d11");
    assert_eq!(test.names()[0], "/d2");
    test.press([KeyCode::End]);
    assert_eq!(test.selected(), "d999");
    assert_eq!((test.names()[0].as_str(), test.rows().len()), ("/d990", 10));
    test.press([KeyCode::Down, KeyCode::PageUp, KeyCode::Up, KeyCode::Up]);
    assert_eq!((test.selected(), test.names()[0].clone()), ("d987".into(), "/d987".into()));
    test.press([KeyCode::Down, KeyCode::Right]);
    assert_eq!((test.names(), test.selected()), (vec!["/..".into(), "f".into()], "..".into()));
    // There is no directory to open.
    test.press([KeyCode::Down, KeyCode::Enter]);
    assert_eq!(test.selected(), "f");
    assert_eq!(test.browser.directory(), 989);
    test.press([KeyCode::Up, KeyCode::Enter]);
    assert_eq!((test.selected(), test.names()[0].clone()), ("d988".into(), "/d987".into()));
    test.press([KeyCode::Left, KeyCode::Home, KeyCode::Up]);
    assert_eq!(test.selected(), "d0");
    // A larger screen has no empty lines.
    test.press([KeyCode::End]);
    test.resize(Size { width: 80, height: 33 });
    assert_eq!((test.rows().len(), test.selected()), (30, "d999".into()));
}

#[test]
fn odd_names_stand_in_their_columns() {
    let heap = heap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    let names: [&[u8]; 6] = [
        b"new\nline",
        b"\xff\xfe",
        "文件名文件名文件名".as_bytes(),
        b"\x1b[2J",
        "e\u{301}t\u{e9}".as_bytes(),
        &[b'x'; 255],
    ];
    let tree = tree(&heap, &session, None, |builder| {
        names.iter().try_for_each(|name| builder.add(&Entry { name, ..FILE }))
    });
    let mut test = Test::new(&order, &tree, 40, 12);
    test.keys("gggn");
    let expected = [
        "    0.0   B  \\u{1b}[2J",
        "    0.0   B  e\u{301}té",
        "    0.0   B  new\\nline",
        "    0.0   B  xxxxxxxxxxxx...xxxxxxxxxxxx",
        "    0.0   B  文件名文件名文件名",
        "    0.0   B  \\xff\\xfe",
    ];
    assert_eq!(test.rows(), expected);
    test.resize(Size { width: 26, height: 12 });
    assert_eq!(test.rows()[4], "    0.0   B  文件...文件名");
}

#[test]
fn nothing_panics_however_small_the_screen_is() {
    let heap = heap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    let extended = Some(Extended::default());
    let tree = tree(&heap, &session, extended, |builder| {
        let link = Some(Link { inode: 1, device: None, names: 9 });
        builder.add(&Entry { link, extended, ..file("文件", 1) })?;
        builder.add(&Entry { link, extended, ..file(&"x".repeat(255), u64::MAX >> 2) })?;
        builder.begin(&Entry { extended, ..directory("d") }, Row::default())?;
        builder.end().map(|_| ())
    });
    let windows = ["", "i", "i2", "?", "?2", "d", "q"];
    for keys in windows {
        let mut test = Test::new(&order, &tree, 80, 24);
        test.browser.options.confirm_quit = true;
        test.keys("cmugg");
        test.keys(keys);
        for width in (0..30).chain([50, 100, 200]) {
            for height in (0..10).chain([20, 60]) {
                test.resize(Size { width, height });
                if width >= 20 && height >= 5 && keys.is_empty() {
                    assert!(
                        test.rows()[0].contains('文') || test.rows()[0].contains('x'),
                        "{:?}",
                        test.rows()
                    );
                }
            }
        }
    }
}

#[test]
fn a_path_of_any_depth_is_cut() {
    let heap = heap();
    let (session, order) = (heap.session().unwrap(), heap.session().unwrap());
    const DEPTH: u32 = 20_000;
    let tree = tree(&heap, &session, None, |builder| {
        (1..=DEPTH)
            .try_for_each(|number| builder.begin(&directory(&format!("level{number}")), Row::default()))?;
        builder.add(&file("f", 1))?;
        (0..DEPTH).try_for_each(|_| builder.end().map(|_| ()))
    });
    let mut test = Test::new(&order, &tree, 60, 10);
    for _ in 0..DEPTH {
        test.browser.enter(&tree).unwrap();
        test.browser.select(1);
    }
    test.draw();
    assert_eq!(
        test.lines()[1],
        "--- /root/level19997/leve...9/level20000 ---"
            .replace("/root/level19997/leve...9/level20000", &test.browser.path.1)
            .to_string()
            + &"-".repeat(60 - 8 - test.browser.path.1.len())
    );
    assert!(test.browser.path.1.starts_with("/root/"), "{}", test.browser.path.1);
    assert!(test.browser.path.1.ends_with("/level19999/level20000"), "{}", test.browser.path.1);
    assert!(test.browser.path.1.contains("..."));
    // And all the way back.
    for _ in 0..DEPTH {
        test.browser.leave(&tree).unwrap();
    }
    test.draw();
    assert_eq!((test.browser.directory(), test.selected()), (0, "level1".into()));
}
