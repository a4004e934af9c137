//! Patterns of excluded names, compared with ncdu.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::common::MEMFOLD;

/// Names that are difficult for patterns.
const NAMES: [&[u8]; 27] = [
    b"a",
    b"b",
    b"ab",
    b"x.o",
    b"x.oo",
    b".h",
    b".h.o",
    b"a-b",
    b"A",
    b"1",
    b"12",
    b"[a]",
    b"a]",
    b"[a",
    b"{a,b}",
    b"a\\b",
    b"*",
    "ä".as_bytes(),
    "é.o".as_bytes(),
    b"a b",
    b"-",
    b"^",
    b"!",
    b"a\nb",
    b"~",
    b"\xff",
    b"\xffb.o",
];

const PATTERNS: [&[u8]; 69] = [
    b"",
    b"sub/",
    b"sub/*",
    b"tree",
    b"/",
    b"*",
    b"**",
    b"**/a",
    b"sub/**",
    b"sub/**/b",
    b"[[:digit:]]",
    b"[[:alpha:]]",
    b"[[:alpha:]",
    b"[[:nosuch:]]",
    b"[[=a=]]",
    b"[[.a.]]",
    b"[a",
    b"[z-a]",
    b"[a-z]*",
    b"[A-Z]",
    b"{",
    b"}",
    b"{a,b}",
    b"[]a]",
    b"[]",
    b"[",
    b"]",
    b"[!]]",
    b"[^a]",
    b"[!a]",
    b"[a-]",
    b"[/]",
    b"sub[/]a",
    b"[\\]]",
    b"\\",
    b"a\\",
    b"a\\\\b",
    b"\\*",
    b"\\a",
    b"a**b",
    b".*",
    b"./a",
    b"~",
    b"//a",
    b"sub//a",
    b"?",
    b"??",
    "ä".as_bytes(),
    "[ä]".as_bytes(),
    "[ä-é]*".as_bytes(),
    "*[!ä]".as_bytes(),
    b"*\n*",
    b"*/",
    b"a/**",
    b"**b",
    b"/**/a",
    b"[a]",
    b"\xff",
    b"?b.o",
    b"[\xff]*",
    b"*\xff*",
    b"\xc3*",
    b"*\xa4",
    b"*.o",
    b"s*/a",
    b"s?b/[ab]",
    b"x.*",
    b"*.o*",
    b"*/sub/*.o",
];

/// Further patterns, generated from special sequences.
fn generated() -> impl Iterator<Item = Vec<u8>> {
    let parts: [&[u8]; 32] = [
        b"a",
        b"b",
        b"x",
        b".",
        b"o",
        b"*",
        b"?",
        b"/",
        b"[ab]",
        b"[!a]",
        b"[^a]",
        b"[a-z]",
        b"[]a]",
        b"[[:alpha:]]",
        b"[[:digit:]]",
        b"[a",
        b"\\*",
        b"\\",
        b"**",
        b"sub",
        b"{",
        b"}",
        b",",
        b"-",
        b"[a-]",
        b"[!]]",
        "ä".as_bytes(),
        b"\xff",
        b"[\\]]",
        b"[z-a]",
        b"[a/b]",
        b"[[=a=]]",
    ];
    let mut state = 88_172_645_463_325_252_u64;
    let mut number = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    (0..400).map(move |_| (0..=number(4)).flat_map(|_| parts[number(parts.len())].to_vec()).collect())
}

/// The paths that a program excludes.
fn excluded(program: &[&str], locale: &str, arguments: &[&OsStr], at: &Path) -> BTreeSet<String> {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).args(["-0", "-o", "-"]).args(arguments).arg(at).env("LC_ALL", locale);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let mut all = BTreeSet::new();
    // Strings in the export contain invalid bytes unchanged.
    let text: String = output.stdout.utf8_chunks().fold(String::new(), |text, chunk| {
        let bytes = chunk.invalid().iter().map(|byte| format!("<{byte:02x}>"));
        text + chunk.valid() + &bytes.collect::<String>()
    });
    let page: Value = serde_json::from_str(&text).unwrap();
    collect(&page[3], "", &mut all);
    all
}

fn collect(entry: &Value, above: &str, all: &mut BTreeSet<String>) {
    let (own, below) = match entry {
        Value::Array(entries) => (&entries[0], &entries[1..]),
        own => (own, &[][..]),
    };
    let path = format!("{above}/{}", own["name"].as_str().unwrap());
    if own["excluded"] == "pattern" {
        all.insert(path.clone());
    }
    below.iter().for_each(|entry| collect(entry, &path, all));
}

/// The version of ncdu, if it is installed.
fn version() -> String {
    let output = Command::new("ncdu").arg("--version").output();
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn make(at: &Path) {
    let directories = ["", "sub", "sub/a", "sub/x.o", "sub/a/b", "sub/.h2"].map(|below| at.join(below));
    directories.iter().for_each(|directory| fs::create_dir_all(directory).unwrap());
    for path in directories.iter().flat_map(|below| NAMES.map(|name| below.join(OsStr::from_bytes(name)))) {
        if !path.exists() {
            fs::write(path, "").unwrap();
        }
    }
}

/// Whether ncdu 1 and 2 interpret the pattern in the same way. In ncdu 1, special characters match slashes,
/// so a path may match although its name alone does not. Also, a pattern that ends with a slash matches
/// nothing.
fn is_meant_alike(pattern: &[u8]) -> bool {
    let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    let may_match_slashes = |at: usize| matches!(pattern[at..], [b'*' | b'?', ..] | [b'[', b'!' | b'^', ..]);
    match pattern.iter().any(is_special) {
        false => !pattern.ends_with(b"/") && !pattern.windows(2).any(|pair| pair == b"//"),
        true => !pattern.contains(&b'/') && !(1..pattern.len()).any(may_match_slashes),
    }
}

/// The examples of ncdu's manual: the names of a path are compared one by one.
#[test]
fn names_are_compared_one_by_one() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("tree");
    for path in ["node_modules/x", "src/node_modules/y", "src/b.log", "a.log", "src/deep/b.log"] {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), "").unwrap();
    }
    fs::write(root.join("src/deep/node_modules"), "a file").unwrap();
    let here = root.to_str().unwrap();
    let cases: [(&str, &[&str]); 8] = [
        ("node_modules/", &["/node_modules", "/src/node_modules"]),
        ("node_modules", &["/node_modules", "/src/node_modules", "/src/deep/node_modules"]),
        (&format!("{here}/*.log"), &["/a.log"]),
        (&format!("{here}/*/*.log"), &["/src/b.log"]),
        (&format!("{here}/src/"), &["/src"]),
        ("s*/b.log", &["/src/b.log"]),
        ("src*log", &[]),
        ("deep/*", &["/src/deep/b.log", "/src/deep/node_modules"]),
    ];
    for (pattern, expected) in cases {
        let option = OsString::from(format!("--exclude={pattern}"));
        let found = excluded(&[MEMFOLD, "du", "--ignore-config"], "C.UTF-8", &[&option], &root);
        let expected: BTreeSet<_> = expected.iter().map(|path| format!("/{here}{path}")).collect();
        assert_eq!(found, expected, "{pattern}");
    }
}

#[test]
fn the_same_names_are_excluded_as_in_ncdu() {
    if version().is_empty() {
        eprintln!("skipped, since there is no ncdu");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("tree");
    make(&root);
    let both = |locale: &str, arguments: &[&OsStr]| {
        let theirs = excluded(&["ncdu"], locale, arguments, &root);
        assert_eq!(
            excluded(&[MEMFOLD, "du", "--ignore-config"], locale, arguments, &root),
            theirs,
            "{locale}, {arguments:?}"
        );
        theirs
    };
    let mut found = BTreeSet::new();
    let named =
        NAMES.iter().flat_map(|name| [name.to_vec(), [b"sub/", *name].concat(), [b"*", *name].concat()]);
    let mut patterns: Vec<_> =
        PATTERNS.map(<[u8]>::to_vec).into_iter().chain(generated()).chain(named).collect();
    let is_old = version().starts_with("ncdu 1.");
    patterns.retain(|pattern| !is_old || is_meant_alike(pattern));
    for pattern in patterns {
        for locale in ["C.UTF-8", "C"] {
            let option = OsString::from_vec([b"--exclude=", &pattern[..]].concat());
            found.insert(both(locale, &[&option]));
        }
    }
    assert!(found.len() > 40, "{}", found.len());
    // Files of patterns may have the line ends of other systems.
    let patterns = scratch.path().join("patterns");
    fs::write(&patterns, b"\r\n[[:digit:]]\r\n\n\xff*\n*.oo\r\r\n  a\nsub/a/b").unwrap();
    let of_file = both("C.UTF-8", &[OsStr::new("-X"), patterns.as_os_str(), OsStr::new("--exclude=~")]);
    assert!(of_file.len() > 20, "{of_file:?}");
}
