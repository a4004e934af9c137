//! `memfold bench`: the numbers of its rows, its errors, and its plot.

use std::path::{Path, PathBuf};
use std::process::Command;

use memfold_codec::{Compressed, ScratchBuf, codec};
use serde_json::Value;

use crate::common::{MEMFOLD, file, finish};

const BLOCK: usize = 4096;

/// Lines with different numbers, which compress well with every codec.
fn text(blocks: usize) -> Vec<u8> {
    let lines = (0..).flat_map(|i: u32| {
        format!("line {i} of {} has {} words\n", i / 7, i.wrapping_mul(37) % 91).into_bytes()
    });
    lines.take(blocks * BLOCK).collect()
}

/// Bytes that do not compress.
fn noise(blocks: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let words = (0..blocks * BLOCK / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect()
}

fn bench(options: &[&str], files: &[&Path]) -> Command {
    let mut command = Command::new(MEMFOLD);
    command.arg("bench").args(options).args(files).env_remove("MEMFOLD_CPU");
    command
}

#[track_caller]
fn rows(options: &[&str], files: &[&Path]) -> (Vec<Value>, Value) {
    let said = finish(bench(&[&["--json"], options].concat(), files));
    assert_eq!(said.status, 0, "{}", said.err);
    said.only_ours_on_stderr();
    let all: Value = serde_json::from_str(&said.out).unwrap();
    (all["rows"].as_array().unwrap().clone(), all)
}

/// The compressed sizes of a file's blocks, computed without the command.
fn sizes(name: &str, bytes: &[u8], threshold: usize) -> Vec<usize> {
    let codec = codec(name).unwrap();
    let mut memory = ScratchBuf::for_codecs([codec], BLOCK);
    let mut scratch = memory.scratch();
    let mut to = vec![0; codec.bound(BLOCK)];
    let size = |block: &[u8]| match codec.compress(block, &mut to, threshold, &mut scratch) {
        Compressed::Fits(size) => size,
        Compressed::Incompressible => block.len(),
    };
    bytes.chunks(BLOCK).map(size).collect()
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field}: {row}"))
}

fn close_to(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// A directory and a file in it: text, noise, zeros, one repeated word, and a copy of the first block.
fn mixture() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let here = tempfile::tempdir().unwrap();
    let (some, other) = (text(20), noise(5));
    let word = b"8 bytes.".repeat(BLOCK / 8);
    let worth = [&some[..], &other, &some[..BLOCK]].concat();
    let all = [&some[..], &other, &vec![0; 3 * BLOCK], &word, &some[..BLOCK]].concat();
    let path = file(here.path(), "mixture", all, 0o644);
    (here, path, worth)
}

#[test]
fn rows_have_the_fields_of_the_contract_and_add_up() {
    let (_here, path, worth) = mixture();
    let (rows, all) = rows(&["--codec", "lz4,zstd,stride:2,shuffle:8+zstd", "--passes=5"], &[&path]);
    assert_eq!(all["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(rows.len(), 4);
    for (row, name) in rows.iter().zip(["lz4", "zstd:1", "stride:2", "shuffle:8+zstd:1"]) {
        assert_eq!(row["file"], path.to_str().unwrap());
        assert_eq!(row["codec"], name);
        assert_eq!(row["block_bytes"], BLOCK);
        assert_eq!(row["blocks"], 30);
        assert_eq!(row["same_filled"], 4);
        assert_eq!(row["duplicates"], 1);
        assert_eq!(row["stored_raw"], 5);
        assert_eq!(row["round_trip"], true);
        assert_eq!(row["original_bytes"], worth.len());
        let compressed: usize = sizes(name, &worth, 3264).iter().sum();
        assert_eq!(row["compressed_bytes"], compressed);
        assert!(close_to(number(row, "ratio"), worth.len() as f64 / compressed as f64));
        for speed in ["compress_mb_s", "decompress_mb_s", "effective_mb_s", "effective_read_mb_s"] {
            assert!(number(row, speed) > 0.0, "{speed}");
        }
        let codec = codec(name).unwrap();
        assert_eq!(row["compress_scratch_bytes"], codec.compress_scratch(BLOCK));
        assert_eq!(row["decompress_scratch_bytes"], codec.decompress_scratch(BLOCK));
        assert_eq!(row["passes"], 5);
    }
}

#[test]
fn totals_are_over_all_files() {
    let here = tempfile::tempdir().unwrap();
    let one = file(here.path(), "one", text(10), 0o644);
    let two = file(here.path(), "two", [text(3), noise(6)].concat(), 0o644);
    let zero = file(here.path(), "zero", vec![0; 2 * BLOCK], 0o644);
    let (rows, all) = rows(&["--codec=lz4", "--passes=3"], &[&one, &two, &zero]);
    // No block was given to a codec, so there is no ratio and no speed.
    assert_eq!((&rows[2]["ratio"], &rows[2]["compress_mb_s"]), (&Value::Null, &Value::Null));
    assert_eq!((&rows[2]["original_bytes"], &rows[2]["same_filled"]), (&Value::from(0), &Value::from(2)));
    let total = &all["totals"][0];
    assert_eq!((&total["codec"], &total["files"], &total["blocks"]), (&"lz4".into(), &2.into(), &21.into()));
    let [a, b] = [number(&rows[0], "ratio"), number(&rows[1], "ratio")];
    assert!(close_to(number(total, "ratio"), 2.0 / (1.0 / a + 1.0 / b)));
    let seconds = |row: &Value| number(row, "original_bytes") / number(row, "compress_mb_s");
    let speed = number(total, "original_bytes") / (seconds(&rows[0]) + seconds(&rows[1]));
    assert!(close_to(number(total, "compress_mb_s"), speed));
}

#[test]
fn block_size_and_threshold_decide_what_is_raw() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "some", [text(8), vec![7; 100], noise(2)].concat(), 0o644);
    let (larger, _) = rows(&["--codec=zstd", "--block=16K"], &[&path]);
    // Two blocks of text, and one that begins with 100 equal bytes and then is noise.
    assert_eq!((&larger[0]["blocks"], &larger[0]["stored_raw"]), (&3.into(), &1.into()));
    assert_eq!(larger[0]["original_bytes"], 10 * BLOCK + 100);
    let sizes = sizes("lz4", &text(8), BLOCK);
    let (least, most) = (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap());
    assert!(least < most);
    let path = file(here.path(), "text", text(8), 0o644);
    let raw = |threshold: usize| {
        rows(&["--codec=lz4", "--threshold", &threshold.to_string()], &[&path]).0[0]["stored_raw"].clone()
    };
    assert_eq!(raw(most), 0);
    assert_eq!(raw(most - 1), sizes.iter().filter(|size| **size == most).count());
    assert_eq!(raw(least - 1), 8);
    let (all_raw, _) = rows(&["--codec=copy"], &[&path]);
    assert_eq!((&all_raw[0]["ratio"], &all_raw[0]["decompress_mb_s"]), (&1.0.into(), &Value::Null));
}

#[test]
fn zeros_and_copies_are_left_out_on_request() {
    let (_here, path, worth) = mixture();
    let (rows, _) = rows(&["--codec=lz4", "--drop-zero", "--drop-duplicates"], &[&path]);
    let row = &rows[0];
    assert_eq!((&row["blocks"], &row["same_filled"], &row["dropped"]), (&26.into(), &1.into(), &4.into()));
    assert_eq!(row["original_bytes"], worth.len() - BLOCK);
}

#[test]
fn the_virtual_best_takes_the_best_of_each_block() {
    let here = tempfile::tempdir().unwrap();
    let numbers: Vec<u8> =
        (0..8 * BLOCK as u64 / 8).flat_map(|i| (i * i * 1_000_003).to_le_bytes()).collect();
    let both = [text(6), numbers].concat();
    let path = file(here.path(), "both", &both, 0o644);
    let names = ["zstd:1", "delta:8x3+shuffle:8+lz4"];
    let (found, all) = rows(&["--virtual-best", "--codec", &names.join(",")], &[&path]);
    let (a, b) = (sizes(names[0], &both, 3264), sizes(names[1], &both, 3264));
    let best: usize = a.iter().zip(&b).map(|(a, b)| a.min(b)).sum();
    assert!(best < a.iter().sum() && best < b.iter().sum(), "each must be the best somewhere");
    let last = &found[2];
    assert_eq!((&last["codec"], &last["compressed_bytes"]), (&"virtual-best".into(), &best.into()));
    assert_eq!(last["members"], serde_json::json!(names));
    assert!(close_to(number(&found[0], "of_virtual_best"), best as f64 / a.iter().sum::<usize>() as f64));
    assert_eq!(all["totals"].as_array().unwrap().len(), 3);
    // No codec is that fast.
    let (none, _) = rows(&["--virtual-best", "--floor=100000000", "--codec=zstd:1"], &[&path]);
    assert_eq!((&none[1]["members"], &none[1]["ratio"]), (&serde_json::json!([]), &1.0.into()));
}

#[test]
fn effective_speed_is_that_of_the_formula() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "some", [text(30), noise(10)].concat(), 0o644);
    let (rows, all) = rows(&["--codec=lz4,zstd:1", "--device-speed=50,200"], &[&path]);
    assert_eq!((number(&all, "device_write_mb_s"), number(&all, "device_read_mb_s")), (50.0, 200.0));
    let packed = |row: &Value| number(row, "compressed_bytes") - number(row, "stored_raw") * BLOCK as f64;
    let room = rows
        .iter()
        .min_by(|a, b| number(a, "compressed_bytes").total_cmp(&number(b, "compressed_bytes")))
        .map(packed);
    for row in &rows {
        let (original, raw) = (number(row, "original_bytes"), number(row, "stored_raw") * BLOCK as f64);
        let ratio = (original - raw) / packed(row);
        let device = raw + (packed(row) - room.unwrap()) * ratio;
        let write = original / (original / number(row, "compress_mb_s") + device / 50.0);
        let read = original / ((original - raw) / number(row, "decompress_mb_s") + device / 200.0);
        assert!(close_to(number(row, "effective_mb_s"), write), "{row}");
        assert!(close_to(number(row, "effective_read_mb_s"), read), "{row}");
    }
}

#[test]
fn a_row_for_each_kind_of_instructions() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "text", text(8), 0o644);
    let best = memfold_codec::cpu::best().name();
    let list = format!("--cpu=scalar,{best}");
    let (found, _) = rows(&[&list, "--codec=stride:2,bitshuffle:8+lz4"], &[&path]);
    let paths: Vec<_> = found.iter().map(|row| row["path"].as_str().unwrap()).collect();
    if best == "scalar" {
        assert_eq!(paths, ["scalar"; 2]);
        return;
    }
    assert_eq!(paths, ["scalar", best, "scalar", best]);
    assert_eq!(found[0]["compressed_bytes"], found[1]["compressed_bytes"]);
    assert_eq!(found[2]["compressed_bytes"], found[3]["compressed_bytes"]);
    let mut command = bench(&["--json", "--codec=stride:2"], &[&path]);
    command.env("MEMFOLD_CPU", "scalar");
    let all: Value = serde_json::from_str(&finish(command).out).unwrap();
    assert_eq!(all["rows"][0]["path"], "scalar");
}

#[test]
fn a_wrong_memfold_cpu_is_refused_everywhere() {
    let here = tempfile::tempdir().unwrap();
    let path = file(here.path(), "text", text(1), 0o644);
    let refused = |word: &str, words: &[&str]| {
        for mut command in [bench(&[], &[&path]), crate::common::run(&["echo", "started"]), {
            let mut doctor = Command::new(MEMFOLD);
            doctor.arg("doctor");
            doctor
        }] {
            command.env("MEMFOLD_CPU", word);
            finish(command).is_refusal(125, words);
        }
    };
    refused("sse9", &["MEMFOLD_CPU", "'sse9'", "scalar, sse4, avx2, avx512"]);
    if memfold_codec::cpu::best() < memfold_codec::cpu::Path::Avx512 {
        refused("avx512", &["MEMFOLD_CPU", "does not support avx512", "scalar"]);
    }
}

#[test]
fn the_table_is_for_people() {
    let (here, path, _) = mixture();
    let other = file(here.path(), "other", text(4), 0o644);
    let said = finish(bench(&["--codec=lz4,zstd:1", "--virtual-best"], &[&path, &other]));
    assert_eq!(said.status, 0, "{}", said.err);
    assert_eq!(said.err, "");
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with("file") && lines[0].contains("ratio") && lines[0].contains("scratch"));
    for name in ["mixture", "other", "all files"] {
        let at = lines
            .iter()
            .position(|line| line.starts_with(&format!("{name} ")))
            .unwrap_or_else(|| panic!("{name}: {}", said.out));
        assert!(
            lines[at].contains(" lz4 ")
                && lines[at + 1].contains(" zstd:1 ")
                && lines[at + 2].contains("virtual-best")
        );
    }
}

#[test]
fn mistakes_are_reported_before_anything_is_measured() {
    let here = tempfile::tempdir().unwrap();
    let good = file(here.path(), "good", text(2), 0o644);
    let empty = file(here.path(), "empty", "", 0o644);
    let short = file(here.path(), "short", [1; 4095], 0o644);
    let (none, directory) = (here.path().join("none"), here.path().to_owned());
    let dangling = here.path().join("dangling");
    std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
    for (bad, words) in [
        (&none, &["none", "cannot read"][..]),
        (&dangling, &["dangling", "cannot read"]),
        (&empty, &["empty", "nothing to compress"]),
        (&short, &["4095 bytes", "4096", "--block"]),
        (&directory, &["is a directory"]),
        (&PathBuf::from("/dev/zero"), &["/dev/zero", "head -c"]),
    ] {
        finish(bench(&["--json"], &[bad])).is_refusal(125, words);
        let said = finish(bench(&["--json", "--passes=1", "--codec=lz4"], &[&good, bad]));
        if bad == &none {
            // A mistyped name.
            said.is_refusal(125, words);
            continue;
        }
        // 'bench *' includes such files.
        assert_eq!(said.status, 0, "{}", said.err);
        assert!(
            said.err.starts_with("memfold: left out: ") && words.iter().all(|word| said.err.contains(word)),
            "{}",
            said.err
        );
        let page: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        assert!(
            page["rows"]
                .as_array()
                .unwrap()
                .iter()
                .all(|row| row["file"].as_str().unwrap().ends_with("good")),
            "{page:#}"
        );
    }
    let mut stdin = bench(&["--passes=1", "--codec=lz4"], &[&PathBuf::from("-")]);
    stdin.stdin(std::fs::File::open(&good).unwrap());
    let said = finish(stdin);
    assert!(said.status == 0 && said.out.contains("lz4"), "{}{}", said.out, said.err);
    if !crate::common::is_root() {
        let secret = file(here.path(), "secret", text(2), 0o000);
        finish(bench(&[], &[&secret])).is_refusal(125, &["secret", "ermission"]);
    }
    let svg = here.path().join("no/such/plot.svg");
    for (options, words) in [
        (&["--codec=lz5"][..], &["'lz5'", "lz4", "zstd:LEVEL", "'all'"][..]),
        (&["--codec=lz4,,zstd"], &["lz4"]),
        (&["--block=0"], &["zero", "64 bytes to 512K"]),
        (&["--block=1M"], &["64 bytes to 512K"]),
        (&["--block=50%"], &["64 bytes to 512K"]),
        (&["--block=lots"], &["not a size"]),
        (&["--threshold=5000"], &["4096"]),
        (&["--passes=0"], &["1 to 1000"]),
        (&["--device-speed=fast"], &["--device-speed", "megabytes"]),
        (&["--device-speed=1e308"], &["--device-speed", "thousand million"]),
        (&["--virtual-best", "--floor=-1"], &["--floor"]),
        (&["--cpu=sse9"], &["--cpu", "avx2"]),
        (&["--plot", svg.to_str().unwrap()], &["--plot", "plot.svg"]),
    ] {
        finish(bench(options, &[&good])).is_refusal(125, words);
    }
    finish(bench(&[], &[])).is_refusal(125, &["FILE"]);
    // The plot must not replace a file to be measured, or a file that the shell's pattern named.
    let other = file(here.path(), "other", text(2), 0o644);
    for measured in [&good, &other] {
        let options = ["--codec=lz4", "--plot", good.to_str().unwrap()];
        finish(bench(&options, &[measured])).is_refusal(125, &["not a plot", "chart.svg"]);
    }
    assert!(std::fs::read(&good).unwrap() == text(2), "the file is as it was");
}

#[test]
fn a_pipe_is_read_as_a_file() {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "printf 'some words %05d ' $(seq 2000) | \"$0\" bench --codec=lz4 --json /dev/stdin",
        MEMFOLD,
    ]);
    let said = finish(command);
    assert_eq!(said.status, 0, "{}", said.err);
    let all: Value = serde_json::from_str(&said.out).unwrap();
    assert!(number(&all["rows"][0], "ratio") > 2.0);
}

#[test]
fn the_plot_is_xml_and_names_every_codec() {
    let here = tempfile::tempdir().unwrap();
    let odd = file(here.path(), "a<b>&\"c\u{1}", text(4), 0o644);
    let other = file(here.path(), "noise", noise(4), 0o644);
    let svg = here.path().join("plot.svg");
    let names = ["lz4", "zstd:1", "stride:1", "wkdm", "lzo", "copy"];
    let list = names.join(",");
    let said = finish(bench(
        &["--virtual-best", "--codec", &list, "--plot", svg.to_str().unwrap()],
        &[&odd, &other],
    ));
    assert_eq!(said.status, 0, "{}", said.err);
    // A plot may replace an older plot.
    assert_eq!(
        finish(bench(
            &["--codec", &list, "--virtual-best", "--plot", svg.to_str().unwrap()],
            &[&odd, &other]
        ))
        .status,
        0
    );
    let drawn = std::fs::read_to_string(&svg).unwrap();
    let document = roxmltree::Document::parse(&drawn).unwrap();
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "svg");
    let texts: Vec<_> =
        root.descendants().filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "text"))).collect();
    let words: Vec<&str> = texts.iter().filter_map(|node| node.text()).map(str::trim).collect();
    for name in &names[..5] {
        assert!(words.contains(name), "{name}: {words:?}");
    }
    // A codec that compressed nothing has no mark. A panel without marks says so.
    assert!(!words.contains(&"copy") && words.contains(&"no block was compressed"));
    assert!(words.contains(&"a<b>&\"c\\u{1}") && words.iter().any(|text| text.contains("MB/s")));
    let bounds: Vec<f64> =
        root.attribute("viewBox").unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
    for node in root.descendants() {
        for (name, most) in [("x", bounds[2]), ("cx", bounds[2]), ("y", bounds[3]), ("cy", bounds[3])] {
            if let Some(value) = node.attribute(name) {
                assert!((0.0..=most).contains(&value.parse().unwrap()), "{node:?}");
            }
        }
    }
    // Each codec has a mark in the overall panel and one in the panel of the text, each with its description.
    let marks: Vec<_> = root.descendants().filter(|node| node.attribute("class") == Some("mark")).collect();
    assert_eq!(marks.len(), 10);
    assert!(
        marks.iter().all(|mark| mark
            .first_element_child()
            .and_then(|t| t.text())
            .is_some_and(|t| t.contains("ratio")))
    );
}
