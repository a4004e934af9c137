//! Foreign names must not affect a terminal, a page or a log. Every tool gets names with control characters,
//! marks that reverse the text direction, and invalid bytes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Killed, MEMFOLD, is_root};

/// Clears the screen, reverses the following text, breaks the line, and is not valid UTF-8.
const EVIL: &[u8] = b"odd\x1b[2J\n\xe2\x80\xaegnp\xc2\x9b1m\x7f\xff.x";

fn evil(directory: &Path) -> PathBuf {
    directory.join(OsStr::from_bytes(EVIL))
}

/// Checks that a text does nothing to a terminal, and contains the name in some form.
#[track_caller]
fn is_harmless(what: &str, bytes: &[u8]) {
    let text =
        str::from_utf8(bytes).unwrap_or_else(|error| panic!("{what}: {error}: {}", bytes.escape_ascii()));
    let text = text.replace('\t', " ");
    assert_eq!(memfold_escape::lines(&text), text, "{what}");
    assert!(text.contains("odd") && text.contains("gnp"), "{what}: {text}");
    // The name's line break is escaped.
    assert!(!text.lines().any(|line| line.trim_start().starts_with("gnp")), "{what}: {text}");
}

/// Checks that invalid bytes of a name appear as escapes, not as replacement characters.
#[track_caller]
fn tells_bytes(what: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    assert!(
        !text.contains('\u{fffd}') && (text.contains("\\xff") || text.contains("\\xc2")),
        "{what}: {text}"
    );
}

#[track_caller]
fn harmless(words: &[&OsStr]) {
    let output = Command::new(MEMFOLD).args(words).stdin(Stdio::null()).output().unwrap();
    let said = [&output.stdout[..], &output.stderr].concat();
    is_harmless(&format!("{words:?}"), &said);
    let has =
        |bytes: &[u8]| words.iter().any(|word| word.as_bytes().windows(bytes.len()).any(|it| it == bytes));
    if has(b"\xff") && !has("\u{fffd}".as_bytes()) {
        tells_bytes(&format!("{words:?}"), &said);
    }
}

macro_rules! words {
    ($($word:expr),*) => { &[$(OsStr::new(&$word)),*] };
}

#[test]
fn files_of_every_tool() {
    let at = tempfile::tempdir().unwrap();
    let name = evil(at.path());
    let missing = at.path().join(OsStr::from_bytes(&[EVIL, b"none"].concat()));
    let text: Vec<u8> = (0..200_000_u32).flat_map(|number| number.to_le_bytes()).collect();
    fs::write(&name, &text).unwrap();
    let directory = tempfile::tempdir_in(at.path()).unwrap();
    let inside = evil(directory.path());
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("file"), "x").unwrap();
    // For arguments that must be text.
    let word = String::from_utf8_lossy(EVIL).into_owned();

    for tool in ["bench", "analyze"] {
        harmless(words![tool, missing]);
    }
    harmless(words!["du", missing, "--top", "1"]);
    harmless(words!["bench", "--passes", "1", "--codec", "lz4", name]);
    harmless(words!["bench", "--passes", "1", "--codec", "lz4", "--json", name]);
    harmless(words!["bench", inside]);
    harmless(words!["bench", "--codec", word, name]);
    harmless(words!["analyze", "--quiet", "--time", "0.1", name]);
    harmless(words!["analyze", "--quiet", "--time", "0.1", "--json", name]);
    harmless(words!["analyze", "--quiet", inside]);
    harmless(words!["du", directory.path(), "--depth", "2"]);
    harmless(words!["du", directory.path(), "--depth", "2", "--sort", "name"]);
    harmless(words!["du", inside, "--top", "2"]);
    harmless(words!["du", directory.path(), "--depth", "2", "--json"]);
    harmless(words!["du", "-f", name, "--top", "1"]);
    harmless(words!["du", "--limit", word, "--top", "1"]);
    harmless(words!["limit", word, "1G"]);
    harmless(words!["run", "--limit", word, "--", "true"]);
    harmless(words!["run", "--limit", "1G", "--", missing]);
    harmless(words!["run", "--limit", "1G", "--", name]);
    harmless(words!["run", "--limit", "1G", "--stats", missing.join("x"), "--", "true"]);
    harmless(words!["run", "--limit", "1G", "--spill", missing.join("none"), "--", "true"]);
    harmless(words!["disk", "--size", "64M", "--limit", "32M", "--mount", missing]);
    // Without the plugin there is no message about the socket.
    harmless(words!["disk", "--size", "64M", "--limit", word, "--socket", name]);
    harmless(words![
        "disk",
        "--size",
        "64M",
        "--limit",
        "32M",
        "--backing",
        missing.join("none"),
        "--mount",
        at.path()
    ]);
    harmless(words!["disk", "status", word]);
    harmless(words!["top", word]);
    harmless(words![word]);

    // Output to files.
    let out = |name: &str| at.path().join(name);
    let run = |words: &[&OsStr], file: &str| {
        let output = Command::new(MEMFOLD).args(words).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        let made = fs::read(out(file)).unwrap();
        is_harmless(file, &made);
        // An SVG contains replacement characters for characters that XML forbids.
        if file != "plot.svg" {
            tells_bytes(file, &made);
        }
    };
    run(words!["bench", "--passes", "1", "--codec", "lz4", "--plot", out("plot.svg"), name], "plot.svg");
    run(
        words!["analyze", "--quiet", "--time", "0.1", "--report", out("analysis.html"), name],
        "analysis.html",
    );
    let program = ["run", "--limit", "64M", "--stats"].map(OsString::from);
    let mut words: Vec<&OsStr> = program.iter().map(OsString::as_os_str).collect();
    let (stats, report) = (out("stats.json"), out("report.html"));
    words.extend(words!["--report", "to be replaced", "--", "sh", "-c", "exec true", name]);
    words.insert(4, stats.as_os_str());
    words[6] = report.as_os_str();
    run(&words, "stats.json");
    run(&words, "report.html");
}

/// nbdkit repeats names that it was given.
#[test]
fn messages_of_nbdkit_are_escaped() {
    let at = tempfile::tempdir().unwrap();
    let bin = at.path().join("nbdkit");
    fs::write(&bin, "#!/bin/sh\nprintf 'nbdkit: %b: odd gnp\\n' '\\033[2J\\0377' >&2\nexit 3\n").unwrap();
    fs::set_permissions(&bin, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut path = at.path().as_os_str().to_owned();
    path.push(":/bin:/usr/bin");
    let mut command = Command::new(MEMFOLD);
    command.args(["disk", "--size", "64M", "--limit", "32M", "--socket"]).arg(at.path().join("socket"));
    // This nbdkit accepts any file as a plugin.
    command.env("PATH", path).env("MEMFOLD_NBDKIT_PLUGIN", &bin).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stderr, b"nbdkit: \\u{1b}[2J\\xff: odd gnp\n", "{}", output.stderr.escape_ascii());
}

/// The columns of a table are aligned, whatever the names are.
#[test]
fn wide_names_in_tables() {
    let at = tempfile::tempdir().unwrap();
    let files = ["plain", "文件文件", "e\u{301}e\u{301}"].map(|name| at.path().join(name));
    let text: Vec<u8> = (0..20_000_u32).flat_map(|number| number.to_le_bytes()).collect();
    files.iter().for_each(|file| fs::write(file, &text).unwrap());
    let mut command = Command::new(MEMFOLD);
    command.args(["bench", "--passes", "1", "--codec", "lz4"]).args(&files).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let columns: Vec<usize> = text
        .lines()
        .filter_map(|line| Some(unicode_width::UnicodeWidthStr::width(line.split_once(" lz4")?.0)))
        .collect();
    assert!(columns.len() >= 3 && columns.iter().all(|column| *column == columns[0]), "{columns:?}: {text}");
}

/// A program with such a name and such arguments.
#[test]
fn names_of_processes() {
    let at = tempfile::tempdir().unwrap();
    let program = evil(at.path());
    fs::copy("/bin/sleep", &program).unwrap();
    let mut command = Command::new(MEMFOLD);
    command.args(["run", "--limit", "64M", "--quiet", "--"]).arg(&program).arg("60").stdin(Stdio::null());
    let child = Killed(command.spawn().unwrap());
    let supervisor = child.0.id().to_string();
    let begun = Instant::now();
    let looks = |words: &[&str]| {
        let output = Command::new(MEMFOLD).args(words).stdin(Stdio::null()).output().unwrap();
        [&output.stdout[..], &output.stderr].concat()
    };
    let json = || looks(&["top", "--json", "--count", "1", "--interval", "0.1", &supervisor]);
    while !String::from_utf8_lossy(&json()).contains("\"pid\"") {
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", String::from_utf8_lossy(&json()));
        std::thread::sleep(Duration::from_millis(20));
    }
    is_harmless("top --json", &json());
    tells_bytes("top --json", &json());
    let exposition = looks(&["top", "--prometheus", &supervisor]);
    is_harmless("top --prometheus", &exposition);
    assert!(String::from_utf8_lossy(&exposition).contains("\\\\xff"), "{}", exposition.escape_ascii());
    is_harmless("limit, changed", &looks(&["limit", &supervisor, "80M"]));
    let page: serde_json::Value = serde_json::from_slice(&json()).unwrap();
    let pid = page["trees"][0]["processes"][0]["pid"].to_string();
    for more in [&[][..], &["--json"]] {
        let words = [&["analyze", "--quiet", "--time", "0.1", "--idle", "0", &pid], more].concat();
        is_harmless("analyze PID", &looks(&words));
        tells_bytes("analyze PID", &looks(&words));
    }
}

/// A device that reports such a name.
#[test]
fn names_of_devices() {
    if !is_root() {
        return eprintln!("skipped: takes root");
    }
    let place = Path::new("/run/memfold/disk");
    fs::create_dir_all(place).unwrap();
    // A socket of this test process.
    let socket = place.join(format!("{}.sock", std::process::id()));
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    let name = String::from_utf8_lossy(EVIL).into_owned();
    let mut device = serde_json::json!({
        "name": name, "size_bytes": 1, "limit_bytes": 1, "fast_codec": name, "dense_codec": name, "door": name, "address": name,
        "refused_writes": 3,
    });
    let server = std::thread::spawn(move || {
        for time in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            if time == 2 {
                device["refused_writes"] = 0.into();
                device["nearly_full"] = true.into();
            }
            stream.write_all(device.to_string().as_bytes()).unwrap();
        }
    });
    let said = |words: &[&str]| Command::new(MEMFOLD).args(words).arg(&name).output().unwrap();
    let (text, json) = (said(&["disk", "status"]), said(&["disk", "status", "--json"]));
    let nearly = said(&["disk", "status"]);
    fs::remove_file(&socket).unwrap();
    server.join().unwrap();
    is_harmless("disk status", &text.stdout);
    is_harmless("disk status --json", &json.stdout);
    assert!(String::from_utf8_lossy(&text.stdout).contains("is full: 3 writes were refused"));
    assert!(String::from_utf8_lossy(&nearly.stdout).contains("is nearly full: 90 %"));
    let page: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(page[0]["name"], name.as_str());
}
