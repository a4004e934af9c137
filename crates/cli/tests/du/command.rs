//! `memfold du` as a command: its inputs and outputs, refusals, and memory use.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::common;

/// Runs `memfold du` without the configuration of the user and the machine.
pub fn du(args: &[&str]) -> Output {
    Command::new(common::MEMFOLD).args(["du", "--ignore-config"]).args(args).output().unwrap()
}

pub fn json(args: &[&str]) -> Value {
    let output = du(&[&["--json"], args].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub fn make(at: &Path) {
    fs::create_dir_all(at.join("a/b")).unwrap();
    fs::write(at.join("a/large"), vec![1; 300_000]).unwrap();
    fs::write(at.join("a/b/small"), "x").unwrap();
    fs::write(at.join("line\nbreak"), vec![1; 5000]).unwrap();
    fs::hard_link(at.join("a/large"), at.join("a/b/again")).unwrap();
}

/// The result of the system's `du`.
fn apparent(path: &Path) -> u64 {
    let output = Command::new("du").args(["-s", "-B1", "--apparent-size"]).arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split('\t').next().unwrap().parse().unwrap()
}

#[test]
fn summaries_equal_those_of_du() {
    let scratch = tempfile::tempdir().unwrap();
    make(scratch.path());
    let path = text(scratch.path());
    let page = json(&["--depth", "1", "--top", "2", path]);
    assert_eq!(page["version"], 1);
    assert_eq!(page["apparent_bytes"], apparent(scratch.path()));
    assert_eq!((&page["items"], &page["failures"]), (&6.into(), &0.into()));
    assert_eq!(page["directories"].as_array().unwrap().len(), 2);
    assert_eq!(page["directories"][1]["apparent_bytes"], apparent(&scratch.path().join("a")));
    let files: Vec<_> =
        page["files"].as_array().unwrap().iter().map(|file| file["apparent_bytes"].clone()).collect();
    // One of the files has two names.
    assert_eq!(files, [300_000, 5000]);
    assert!(page["memory"]["peak_resident_bytes"].as_u64().unwrap() > 1 << 20);

    let output = du(&["--apparent-size", "--top", "9", path]);
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(lines.contains(&format!("4.88KiB  {path}/line\\nbreak\n")), "{lines}");
}

#[test]
fn several_directories_come_one_after_the_other() {
    let scratch = tempfile::tempdir().unwrap();
    make(scratch.path());
    let (a, b, none) = (scratch.path().join("a"), scratch.path().join("a/b"), scratch.path().join("none"));
    let (a, b, none) = (text(&a), text(&b), text(&none));
    let paths = |output: &Output| -> Vec<String> {
        let lines = String::from_utf8(output.stdout.clone()).unwrap();
        lines.lines().map(|line| line.split_once('/').map_or("", |(_, path)| path).to_owned()).collect()
    };
    let both = du(&["--depth", "0", b, a]);
    assert!(both.status.success(), "{both:?}");
    assert_eq!(paths(&both), [&b[1..], &a[1..]]);
    // A directory that cannot be read does not prevent the others.
    let some = du(&["--depth", "0", a, none, b]);
    assert_eq!((some.status.code(), paths(&some)), (Some(125), vec![a[1..].to_owned(), b[1..].to_owned()]));
    assert!(String::from_utf8_lossy(&some.stderr).contains(none), "{some:?}");
    let pages = du(&["--json", a, b]);
    let objects = serde_json::Deserializer::from_slice(&pages.stdout).into_iter::<Value>();
    let found: Vec<_> = objects.map(|page| page.unwrap()["path"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, [a, b]);
    for options in [&[][..], &["-o", "-"], &["--save", "x"]] {
        let refused = du(&[options, &[a, b]].concat());
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(125), 0), "{options:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("one directory at a time"), "{refused:?}");
    }
}

/// Directories in an order other than the tree's, sorted by the command and by `sort -h`.
#[test]
fn directories_are_listed_in_an_order() {
    let scratch = tempfile::tempdir().unwrap();
    for (path, bytes) in
        [("a10/x", 9000), ("a9/deep/y", 300_000), ("a9/z", 3_000_000), ("b/one", 70_000), ("b/two", 1)]
    {
        let path = scratch.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![1; bytes]).unwrap();
    }
    let here = text(scratch.path());
    let lines = |args: &[&str]| {
        let output = du(&[&["--depth", "2", here], args].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let paths = |lines: &str| -> Vec<String> {
        lines.lines().map(|line| line.rsplit_once(here).unwrap().1.to_owned()).collect()
    };
    let largest = ["", "/a9", "/a9/deep", "/b", "/a10"];
    assert_eq!(paths(&lines(&["--sort", "disk-usage"])), largest);
    assert_eq!(paths(&lines(&["--sort", "disk-usage-desc", "--apparent-size"])), largest);
    assert_eq!(paths(&lines(&["--sort", "apparent-size-asc"])), ["/a10", "/b", "/a9/deep", "/a9", ""]);
    assert_eq!(paths(&lines(&["--sort", "name"])), ["", "/a9", "/a9/deep", "/a10", "/b"]);
    assert_eq!(paths(&lines(&["--sort", "name-desc"])), ["/b", "/a10", "/a9/deep", "/a9", ""]);
    assert_eq!(
        paths(&lines(&["--sort", "name", "--disable-natsort"])),
        ["", "/a10", "/a9", "/a9/deep", "/b"]
    );
    assert_eq!(paths(&lines(&["--sort", "itemcount"]))[..3], ["", "/a9", "/b"]);
    // Without --sort, each directory comes before its subdirectories.
    assert_eq!(paths(&lines(&[])), ["", "/a10", "/a9", "/a9/deep", "/b"]);
    let page = json(&["--depth", "1", "--sort", "disk-usage", here]);
    let found = page["directories"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap());
    assert_eq!(found.map(|path| &path[here.len()..]).collect::<Vec<_>>(), ["", "/a9", "/b", "/a10"]);
    for options in [&[][..], &["--apparent-size"], &["--si"]] {
        let unsorted = scratch.path().join("list");
        let all = lines(options);
        fs::write(&unsorted, &all).unwrap();
        let sorted = Command::new("sort").arg("-hr").arg(&unsorted).env("LC_ALL", "C").output().unwrap();
        fs::remove_file(&unsorted).unwrap();
        assert_eq!(paths(&String::from_utf8(sorted.stdout).unwrap()), largest, "{all}");
    }
}

#[test]
fn a_tree_goes_through_files_unchanged() {
    let scratch = tempfile::tempdir().unwrap();
    let tree = scratch.path().join("tree");
    make(&tree);
    let file = |name: &str| scratch.path().join(name);
    let page = |args: &[&str]| {
        let mut page = json(&[args, &["--depth", "9", "--top", "9"]].concat());
        page.as_object_mut().unwrap().remove("memory");
        page
    };
    let scanned = page(&[text(&tree)]);
    for (name, options) in [("json", &["-o"][..]), ("zst", &["-c", "-o"]), ("own", &["--save"])] {
        let path = file(name);
        let written = du(&[options, &[text(&path), text(&tree)]].concat());
        assert!(written.status.success() && written.stdout.is_empty() && written.stderr.is_empty());
        assert_eq!(page(&["-f", text(&path)]), scanned, "{name}");
        // Convert from this format to the others.
        for (other, options) in [("json", "-o"), ("own", "-O")] {
            let again = file(&format!("{name}-{other}"));
            assert!(du(&["-f", text(&path), options, text(&again)]).status.success());
            assert_eq!(page(&["-f", text(&again)]), scanned, "{name} {other}");
        }
    }
    let piped = du(&["-o", "-", text(&tree)]);
    assert!(
        piped.stdout.starts_with(b"[1,2,{\"progname\":\"memfold\""),
        "{}",
        String::from_utf8_lossy(&piped.stdout)
    );
}

/// Sparse files have the maximum length of a file. The sum of two of them exceeds the maximum of a sum.
#[test]
fn sums_of_the_longest_files_do_not_begin_again_at_zero() {
    const MOST: u64 = i64::MAX as u64;
    let scratch = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::create_dir(scratch.path().join("below")).unwrap();
    for name in ["a", "below/b", "below/c"] {
        let file = fs::File::create(scratch.path().join(name)).unwrap();
        if let Err(error) = file.set_len(MOST) {
            return eprintln!("skipped: no such files in /dev/shm: {error}");
        }
    }
    let path = text(scratch.path());
    let page = json(&["--depth", "1", path]);
    assert_eq!(
        (&page["apparent_bytes"], &page["directories"][1]["apparent_bytes"]),
        (&MOST.into(), &MOST.into())
    );
    // The export can be read again.
    let export = scratch.path().join("export");
    assert!(du(&["-0", "-o", text(&export), path]).status.success());
    let again = json(&["--depth", "1", "-f", text(&export)]);
    assert_eq!(again["directories"], page["directories"]);
}

#[test]
fn names_in_summaries_are_escaped_as_in_the_browser() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("a\\n\u{202e}gpj.exe\u{1b}[31m"), "x").unwrap();
    let output = du(&["--top", "1", text(scratch.path())]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.ends_with("/a\\\\n\\u{202e}gpj.exe\\u{1b}[31m\n"), "{said}");
}

#[test]
fn a_file_is_among_the_largest_once() {
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path();
    for (name, size) in [("a", 100_000), ("b", 400_000), ("c", 300_000), ("d", 200_000)] {
        fs::write(at.join(name), vec![1; size]).unwrap();
        for other in 0..4 {
            fs::hard_link(at.join(name), at.join(format!("{name}{other}"))).unwrap();
        }
    }
    for (top, sizes) in [
        (0, &[][..]),
        (1, &[400_000]),
        (3, &[400_000, 300_000, 200_000]),
        (9, &[400_000, 300_000, 200_000, 100_000]),
    ] {
        let page = json(&["--apparent-size", "--top", &top.to_string(), text(at)]);
        let found: Vec<_> = page["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["apparent_bytes"].as_u64().unwrap())
            .collect();
        assert_eq!(found, sizes, "{top}");
    }
}

#[test]
fn the_version_is_printed_as_by_ncdu() {
    for option in ["-v", "-V", "--version"] {
        let output = du(&[option]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.contains(env!("CARGO_PKG_VERSION")), "{option}: {said}");
    }
}

#[test]
fn a_configuration_file_is_heeded() {
    let scratch = tempfile::tempdir().unwrap();
    let (tree, home) = (scratch.path().join("tree"), scratch.path().join("home"));
    make(&tree);
    let run = |variable: &str, directory: &Path, args: &[&str]| {
        let mut command = Command::new(common::MEMFOLD);
        command.env_remove("XDG_CONFIG_HOME").env("HOME", "/nowhere").env(variable, directory);
        command.arg("du").args(args).arg(&tree).output().unwrap()
    };
    let configure = |text: &str| {
        for directory in ["memfold", ".config/memfold"] {
            fs::create_dir_all(home.join(directory)).unwrap();
            fs::write(home.join(directory).join("du"), text).unwrap();
        }
    };
    let top = ["--top", "1"];
    configure("# Sizes as they are\n--apparent-size\n--si\n@--of-the-future\n");
    for variable in ["HOME", "XDG_CONFIG_HOME"] {
        let lines = |args: &[&str]| {
            let output = run(variable, &home, &[args, &top].concat());
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(lines(&[]).starts_with("     300kB  "), "{}", lines(&[]));
        assert!(lines(&["--no-si"]).starts_with("    293KiB  "), "{}", lines(&["--no-si"]));
        assert!(!lines(&["--ignore-config"]).contains("kB"));
    }
    // The option -c alone compresses nothing, and is not an error.
    configure("-c");
    assert!(run("HOME", &home, &top).status.success());

    configure("-e\n\n--sort=colour\n");
    for args in [&top[..], &["-o", "-"], &["--json"]] {
        let output = run("HOME", &home, args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0), "{said}");
        for word in ["line 3", ".config/memfold/du'", "apparent-size", "--ignore-config"] {
            assert!(said.contains(word), "{said}");
        }
    }
    assert!(run("HOME", &home, &["--ignore-config", "--json"]).status.success());
}

/// A tree of this many files, as ncdu exports one.
fn export(files: usize) -> String {
    let mut text = String::from("[1,2,{},[{\"name\":\"/made/up\"}");
    for number in 0..files {
        if number % 50 == 0 {
            let end = if number == 0 { "" } else { "]" };
            write!(text, "{end},[{{\"name\":\"directory of number {}\"}}", number / 50).unwrap();
        }
        let size = number * 7919 % 100_000;
        write!(
            text,
            ",{{\"name\":\"a-file.{:x}.{number}.txt\",\"asize\":{size},\"dsize\":{}}}",
            number * 31,
            size.next_multiple_of(4096)
        )
        .unwrap();
    }
    text + "]]]"
}

#[test]
fn memory_stays_small() {
    let scratch = tempfile::tempdir().unwrap();
    let (text_file, own) = (scratch.path().join("x.json"), scratch.path().join("x.own"));
    let files = 400_000;
    fs::write(&text_file, export(files)).unwrap();
    let peak = |page: &Value| page["memory"]["peak_resident_bytes"].as_u64().unwrap();
    let read = json(&["-f", text(&text_file)]);
    assert_eq!(read["items"], (files + files / 50) as u64);
    assert!(peak(&read) < 20 * files as u64 + (8 << 20), "{read}");

    // The limit is held. If the tree does not fit, there is a message.
    let limited = json(&["--limit", "9M", "-f", text(&text_file)]);
    assert!(limited["memory"]["heap_bytes"].as_u64().unwrap() <= 9 << 20, "{limited}");
    let refused = du(&["--json", "--limit", "2M", "-f", text(&text_file)]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--limit"), "{refused:?}");

    // Reading a file of our own format, even all of it, does not load it into memory.
    assert!(du(&["-f", text(&text_file), "--save", text(&own)]).status.success());
    let looked = json(&["-f", text(&own), "--top", "5", "--depth", "1"]);
    assert_eq!(looked["directories"].as_array().unwrap().len(), 1 + files / 50);
    let without = json(&["-f", text(&own)]);
    assert!(peak(&without) < 8 << 20, "{without}");
    assert!(peak(&looked) < 24 << 20, "{}", peak(&looked));
}

/// Directories are nested deeper than the limit of open files. The threads that read them close descriptors
/// early.
#[test]
fn deep_trees_need_few_open_files() {
    let scratch = tempfile::tempdir().unwrap();
    let mut items = 0;
    for chain in 0..4 {
        let mut at = scratch.path().join(format!("chain{chain}"));
        items += 1;
        for level in 0..700 {
            if level % 3 == chain % 3 {
                fs::create_dir_all(at.join("e/f")).unwrap();
                items += 2;
            }
            at.push("d");
            items += 1;
        }
        fs::create_dir_all(at).unwrap();
    }
    for files in [40, 64, 1024] {
        for threads in [1, 2, 8] {
            let script =
                format!("ulimit -n {files}; exec \"$0\" du --ignore-config --json -t {threads} \"$1\"");
            let output = Command::new("sh")
                .arg("-c")
                .arg(&script)
                .arg(common::MEMFOLD)
                .arg(scratch.path())
                .output()
                .unwrap();
            let page: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((&page["items"], &page["failures"]), (&items.into(), &0.into()), "{script}");
        }
    }
}

#[test]
fn files_of_several_file_systems_are_distinguished() {
    let scratch = tempfile::tempdir().unwrap();
    let export = scratch.path().join("x.json");
    let file = r#""asize":5000,"dsize":8192,"ino":7,"hlnkc":true,"nlink":2"#;
    let text = format!(
        r#"[1,2,{{}},[{{"name":"/t","dev":1}},{{"name":"a",{file}}},{{"name":"b",{file}}},{{"name":"c","dev":2,{file}}}]]"#
    );
    fs::write(&export, text).unwrap();
    let page = json(&["--top", "5", "-f", export.to_str().unwrap()]);
    let paths: Vec<_> = page["files"].as_array().unwrap().iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["/t/a", "/t/c"]);
}
