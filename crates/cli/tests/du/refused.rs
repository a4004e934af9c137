//! Refusals and failures of `memfold du`, and their messages.

use std::fs;
use std::process::Command;

use super::command::{du, json, make, text};
use super::common;

#[test]
fn errors_name_a_remedy() {
    let scratch = tempfile::tempdir().unwrap();
    let path = text(scratch.path());
    let bad = scratch.path().join("bad");
    fs::write(&bad, "[1,0,{},[{\"name\":\"/\"},").unwrap();
    let cases: [(&[&str], &str); 20] = [
        (&["--json", "/nowhere"], "cannot read the directory '/nowhere'"),
        (&["--json", "--limit", "1X", path], "--limit 64M"),
        (&["--json", "-X", "/nowhere", path], "cannot read the patterns in '/nowhere'"),
        (&["--json", "-f", text(&bad)], "cannot read the tree in"),
        (&["-o", "/nowhere/x", path], "of -o"),
        (&["-c", path], "-o FILE"),
        (&[path], "not a terminal"),
        // One of the two outputs would be lost.
        (&["--json", "-o", "x", path], "cannot be used with"),
        (&["--json", "--save", "x", path], "cannot be used with"),
        (&["--top", "2", "-o", "-", path], "cannot be used with"),
        (&["--depth", "2", "-o", "-", path], "cannot be used with"),
        (&["-O", "-", "--depth", "2", path], "cannot be used with"),
        (&["-O", "-", "--top", "2", path], "cannot be used with"),
        (&["--sort", "colour", path], "apparent-size"),
        (&["--depth", "-1", path], "'-1' for '--depth <N>': give a whole number from 0 on"),
        (&["--top", "-3", path], "'-3' for '--top <N>': give a whole number from 0 on"),
        // The same if the browser would start.
        (&["/no/such"], "cannot read the directory '/no/such': No such file"),
        (&[text(&bad)], "is not a directory: give the directory that it is in"),
        (&["--depth", "1", text(&bad)], "is not a directory: give the directory that it is in"),
        (&[path, path], "give the one that contains them"),
    ];
    for (args, what) in cases {
        let output = du(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{args:?}: {said}");
        assert!(said.starts_with("memfold: ") && said.contains(what), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_limit_that_is_too_small_is_answered_with_the_least() {
    let scratch = tempfile::tempdir().unwrap();
    let path = text(scratch.path());
    let needs = |limit: &str| {
        let said = String::from_utf8(du(&["--json", "--limit", limit, path]).stderr).unwrap();
        let why = said.strip_prefix(&format!(
            "memfold: --limit {limit}: the limit is too small: blocks of 65536 bytes"
        ))?;
        assert!(why.contains(" take at least ") && why.contains(" bytes, and the tree "), "{said}");
        why.split(' ').find_map(|word| word.parse::<u64>().ok())
    };
    let least = needs("1M").unwrap();
    assert_eq!((needs("1"), needs("500K")), (Some(least), Some(least)));
    assert_eq!(needs(&(least - 1).to_string()), Some(least));
    assert_eq!(needs(&least.to_string()), None);
    // With additional room for the tree, the limit suffices.
    json(&["--limit", &(least + (1 << 20)).to_string(), path]);
}

/// Otherwise writes would seem to succeed.
#[test]
fn a_closed_standard_output_is_an_error() {
    let scratch = tempfile::tempdir().unwrap();
    make(scratch.path());
    let run = |script: &str| {
        let script = script.replace("du", "\"$0\" du --ignore-config").replace("DIR", "\"$1\"");
        Command::new("sh").args(["-c", &script, common::MEMFOLD]).arg(scratch.path()).output().unwrap()
    };
    for script in ["du --json DIR >&-", "du -o - DIR >&-", "du --top 1 DIR >&- <&-", "du -O - DIR >&-"] {
        let output = run(script);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), said.contains("standard output is closed")),
            (Some(125), true),
            "{said}"
        );
    }
    // No opened file takes the place of another closed standard descriptor.
    let written = run("du --top 1 /nowhere 2>&- >/dev/null; du -o \"$1/x\" DIR 2>&- <&-; cat \"$1/x\"");
    assert!(written.stdout.starts_with(b"[1,2,{"), "{}", written.stdout.escape_ascii());
}

#[test]
fn a_file_of_our_own_is_not_read_from_a_pipe() {
    let scratch = tempfile::tempdir().unwrap();
    make(scratch.path());
    let script = "\"$0\" du --ignore-config -O - \"$1\" | \"$0\" du --ignore-config --json -f -";
    let output =
        Command::new("sh").args(["-c", script, common::MEMFOLD]).arg(scratch.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("can't be read from standard input: give its name to -f"), "{said}");
}

#[test]
fn summaries_mark_unreadable_directories() {
    let scratch = tempfile::tempdir().unwrap();
    let export = scratch.path().join("x.json");
    fs::write(
        &export,
        r#"[1,2,{},[{"name":"/t"},[{"name":"a","read_error":true}],[{"name":"b"},{"name":"x","read_error":true}],[{"name":"c"}]]]"#,
    )
    .unwrap();
    let path = text(&export);
    let output = du(&["--depth", "1", "-f", path]);
    let lines = String::from_utf8(output.stdout).unwrap();
    let marks: Vec<_> = lines.lines().map(|line| line.split_at(10).1).collect();
    assert_eq!(marks, [". /t", "! /t/a", ". /t/b", "  /t/c"]);
    assert!(output.status.success());
    let said = "memfold: 2 directories or files could not be read, and what is in them is not counted\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), said);
    assert_eq!(String::from_utf8_lossy(&du(&["--top", "1", "-f", path]).stderr), said);
    assert_eq!(String::from_utf8_lossy(&du(&["-1", "-o", "-", "-f", path]).stderr), said);
    // The JSON object has its own field for failures, and exports mark each failure.
    assert!(du(&["--json", "-f", path]).stderr.is_empty() && du(&["-o", "-", "-f", path]).stderr.is_empty());
}
