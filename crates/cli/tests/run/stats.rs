//! `--stats`, `--report` and the closing line.

use serde_json::Value;

use crate::common::{finish, python, run_with, stats};

const FIELDS: [&str; 13] = [
    "version",
    "exit_status",
    "wall_seconds",
    "limit_bytes",
    "peak_resident_bytes",
    "peak_logical_bytes",
    "peak_payload_bytes",
    "peak_overhead_bytes",
    "compression_ratio",
    "pages_compressed",
    "pages_faulted",
    "fault_us",
    "processes",
];

#[test]
fn fields_of_the_contract() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("stats.json");
    let options = ["--limit", "1G", "--stats", path.to_str().unwrap()];
    let said = finish(run_with(&options, &["sh", "-c", "sleep 0.2; exit 3"]));
    assert_eq!(said.status, 3, "{}", said.err);
    let stats = stats(&path);
    for field in FIELDS {
        assert!(stats.get(field).is_some(), "{field} is missing");
    }
    assert_eq!(stats["exit_status"], 3);
    assert_eq!(stats["limit_bytes"], 1 << 30);
    assert_eq!(stats["pages_compressed"], 0);
    assert!(stats["wall_seconds"].as_f64().unwrap() >= 0.2);
    assert!(stats["fault_us"].get("p50").is_some() && stats["fault_us"].get("p99").is_some());
    assert!(stats["fault_us"].get("max").is_some());
    // The shell, and the `sleep` that it starts.
    assert!((1..=2).contains(&stats["processes"].as_u64().unwrap()), "{stats}");
    let resident = stats["peak_resident_bytes"].as_u64().unwrap();
    assert!((100 << 10..16 << 20).contains(&resident), "{resident}");
    assert!(said.err.starts_with("memfold: nothing had to be compressed"), "{}", said.err);
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 1);
}

#[test]
fn written_when_a_signal_ends_the_program() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("stats.json");
    let options = ["-q", "--limit", "1G", "--stats", path.to_str().unwrap()];
    assert_eq!(finish(run_with(&options, &["sh", "-c", "kill -9 $$"])).status, 137);
    let stats = stats(&path);
    assert_eq!((&stats["exit_status"], &stats["signal"]), (&Value::from(137), &Value::from(9)));
}

#[test]
fn on_standard_output_if_asked_for() {
    let options = ["-q", "--limit", "1G", "--stats", "/dev/stdout"];
    let said = finish(run_with(&options, &["echo", "first"]));
    let json = said.out.strip_prefix("first\n").unwrap();
    let stats: Value = serde_json::from_str(json).unwrap();
    assert_eq!(stats["exit_status"], 0);
}

#[test]
fn a_relative_name_means_the_directory_of_the_start() {
    let here = tempfile::tempdir().unwrap();
    let mut command = run_with(&["-q", "--limit", "1G", "--stats", "s.json"], &["sh", "-c", "cd /; exit 0"]);
    command.current_dir(here.path());
    assert_eq!(finish(command).status, 0);
    assert_eq!(stats(&here.path().join("s.json"))["exit_status"], 0);
}

/// A program that writes 40 MiB of text-like data and touches all of it twice more, with a limit of 20 MiB.
const LOAD: &str = r#"
import hashlib, sys
blocks = []
for i in range(640):
    blocks.append(bytearray(b"".join(b"line %08d of block %06d: %s\n" % (j, i, hashlib.md5(b"%d" % (i * 1000 + j)).hexdigest()[:8].encode()) for j in range(1560))))
total = hashlib.sha256()
for _ in range(2):
    for block in blocks:
        total.update(block)
print(total.hexdigest())
"#;

#[test]
fn a_program_under_pressure() {
    let Some(python) = python() else { return };
    let here = tempfile::tempdir().unwrap();
    let (json, html) = (here.path().join("s.json"), here.path().join("r.html"));
    let plain = std::process::Command::new(python).args(["-c", LOAD]).output().unwrap();
    assert!(plain.status.success());
    let options = ["--limit", "32M", "--stats", json.to_str().unwrap(), "--report", html.to_str().unwrap()];
    let said = finish(run_with(&options, &[python, "-c", LOAD]));
    assert_eq!(said.status, 0, "{}", said.err);
    assert_eq!(said.out.as_bytes(), plain.stdout);
    let stats = stats(&json);
    let number = |name: &str| stats[name].as_u64().unwrap();
    assert!(number("pages_compressed") > 4000, "{stats}");
    assert!(number("pages_faulted") > 1000, "{stats}");
    assert!(number("peak_logical_bytes") > 42 << 20, "{stats}");
    assert!(number("peak_resident_bytes") <= (32 << 20) * 105 / 100 + (8 << 20), "{stats}");
    assert!(number("peak_resident_bytes") > 16 << 20, "{stats}");
    assert!(stats["compression_ratio"].as_f64().unwrap() > 1.5, "{stats}");
    let times = &stats["fault_us"];
    let (half, most, max) = (times["p50"].as_f64(), times["p99"].as_f64(), times["max"].as_f64());
    assert!(half > Some(0.0) && half <= most && most <= max, "{stats}");
    assert!(said.err.contains("pages compressed to 1/") && said.err.contains("limit 32 MiB"), "{}", said.err);

    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("id=\"memory\"") && page.contains("id=\"numbers\""));
}
