//! `memfold analyze`: processes, cores, files, and refusals.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{Killed, MEMFOLD, finish};

fn analyze(words: &[&str]) -> Command {
    let mut command = Command::new(MEMFOLD);
    command.arg("analyze").arg("--quiet").args(words).stdin(Stdio::null());
    command
}

fn json(words: &[&str]) -> Value {
    let said = finish(analyze(words));
    assert_eq!(said.status, 0, "{}", said.err);
    serde_json::from_str(&said.out).unwrap()
}

/// A program that fills 48 MiB (a third each with text, numbers and noise), uses 4 MiB of it, and prints when
/// it is ready.
const PROGRAM: &str = "\
import os,sys,time
third=16<<20
# In place, page by page: what larger objects leave behind in the heap would be sampled too, noise above all.
words=b'the quick brown fox jumps over the lazy dog; '*200
text,numbers,noise=bytearray(third),bytearray(third),bytearray(third)
for at in range(0,third,4096):
    text[at:at+4096]=words[at%45:at%45+4096]
    numbers[at:at+4096]=b''.join((i*i%100000).to_bytes(8,'little') for i in range(at//8,at//8+512))
    noise[at:at+4096]=os.urandom(4096)
print('ready',flush=True)
while True:
    for i in range(0,4<<20,4096): text[i]=116
    time.sleep(0.002)
";

struct Program(Killed);

impl Program {
    fn start() -> Self {
        let mut child =
            Command::new("python3").args(["-c", PROGRAM]).stdout(Stdio::piped()).spawn().expect("python3");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Program(Killed(child))
    }

    fn pid(&self) -> String {
        self.0.0.id().to_string()
    }
}

#[test]
fn a_process_is_sampled_and_gets_a_limit() {
    let program = Program::start();
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    let page_name = page.to_str().unwrap();
    let found = json(&["--json", "--idle", "1", "--time", "3", "--report", page_name, &program.pid()]);
    let number = |name: &str| found[name].as_f64().unwrap();
    assert!((48e6..120e6).contains(&number("bytes")), "{found:#}");
    assert_eq!(found["kind"], "process");
    // A third does not compress and the rest compresses well, so the whole compresses to somewhat more than a
    // third.
    let ratio = found["ratios"][0]["ratio"].as_f64().unwrap();
    assert!((2.0..3.5).contains(&ratio), "{ratio}");
    let used = found["working_set"]["points"].as_array().unwrap().last().unwrap()[1].as_f64().unwrap();
    assert!((4e6..25e6).contains(&used), "{used}");
    let limit = found["recommended"]["limit_bytes"].as_f64().unwrap();
    assert!(limit < 0.8 * number("bytes") && limit > used, "{limit}");
    // Some pages compress to almost nothing, and others not at all: each kind is a third of the arrays.
    let sizes: Vec<f64> =
        found["size_histogram"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    let (small, whole) = (sizes[..8].iter().sum::<f64>(), sizes[60..].iter().sum::<f64>());
    assert!(small > 20.0 && whole > 20.0 && (sizes.iter().sum::<f64>() - 100.0).abs() < 1e-6, "{sizes:?}");

    // The page contains the same figures.
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(
        text.contains(&format!("{} MiB", limit as u64 >> 20)) && text.contains(&format!("{ratio:.2} : 1"))
    );
    for picture in text.split("<svg ").skip(1) {
        let picture = format!("<svg {}</svg>", picture.split_once("</svg>").unwrap().0);
        roxmltree::Document::parse(&picture).unwrap();
    }

    // The output as text, with a limit of the user's.
    let said = finish(analyze(&["--idle", "0.2", "--time", "1", "--limit", "40M", &program.pid()]));
    assert_eq!(said.status, 0, "{}", said.err);
    assert!(
        said.out.contains("recommended: memfold run --limit") && said.out.contains("\n? 40 MiB"),
        "{}",
        said.out
    );
}

/// Several ids, as from 'memfold analyze $(pidof PROGRAM)'.
#[test]
fn several_processes_are_analysed_as_one() {
    let programs = [Program::start(), Program::start()];
    let [one, other] = programs.each_ref().map(Program::pid);
    let single = json(&["--json", "--idle", "0", "--time", "1", &one]);
    let both = json(&["--json", "--idle", "1", "--time", "2", &one, &other, &one]);
    let bytes = |found: &Value| found["bytes"].as_f64().unwrap();
    assert!((1.8..2.2).contains(&(bytes(&both) / bytes(&single))), "{both:#}");
    assert_eq!(both["kind"], "process");
    for pid in [&one, &other] {
        assert!(both["what"].as_str().unwrap().contains(&format!("{pid} (python3")), "{both:#}");
        let largest = both["mappings"].as_array().unwrap().iter();
        let mut own = largest.filter(|part| part["name"].as_str().unwrap().starts_with(&format!("{pid} ")));
        // Each part has its address in the process, and its idle share is known.
        assert!(
            own.any(|part| part["start"].as_u64().unwrap() < 1 << 47 && part["idle_share"].is_f64()),
            "{both:#}"
        );
    }
    let used = both["working_set"]["points"].as_array().unwrap().last().unwrap()[1].as_f64().unwrap();
    assert!((8e6..50e6).contains(&used), "{used}");
    finish(analyze(&[&one, "/etc/passwd"])).is_refusal(125, &["is a process", "./"]);
    finish(analyze(&[&one, "99999999999"])).is_refusal(125, &["99999999999 is not a process ID"]);
}

/// As with `ps` and `du`, a missing process does not prevent the others.
#[test]
fn processes_that_cannot_be_analysed_are_left_out() {
    let program = Program::start();
    let pid = program.pid();
    let zombie = Killed(Command::new("true").spawn().unwrap());
    let ended = zombie.0.id().to_string();
    while !std::fs::read_to_string(format!("/proc/{ended}/stat")).unwrap().contains(") Z") {
        std::thread::yield_now();
    }
    let single = json(&["--json", "--idle", "0.2", "--time", "1", &pid]);
    for idle in ["0", "0.2"] {
        let said = finish(analyze(&["--json", "--idle", idle, "--time", "1", "999999999", &pid, &ended]));
        assert_eq!(said.status, 1, "{}", said.err);
        said.only_ours_on_stderr();
        assert!(said.err.contains("there is no process 999999999"), "{}", said.err);
        assert!(said.err.contains(&format!("process {ended} ")), "{}", said.err);
        let found: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(found["what"], single["what"]);
        let bytes = |found: &Value| found["bytes"].as_f64().unwrap();
        assert!((0.8..1.2).contains(&(bytes(&found) / bytes(&single))), "{found:#}");
        assert_eq!(found["recommended"].is_object(), idle != "0", "{found:#}");
    }
    // A process that ends while it is watched.
    let other = Program::start();
    let child = analyze(&["--idle", "6", "--time", "1", "--json", &other.pid(), &pid])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2000));
    drop(other);
    let said = crate::common::said(child.wait_with_output().unwrap());
    assert_eq!(said.status, 1, "{}", said.err);
    assert!(said.err.contains("ended while it was analysed"), "{}", said.err);
    let found: Value = serde_json::from_str(&said.out).unwrap();
    let resident = found["working_set"]["resident_bytes"].as_f64().unwrap();
    assert!((0.8..1.2).contains(&(resident / found["bytes"].as_f64().unwrap())), "{found:#}");

    // Nothing is left.
    let said = finish(analyze(&["--idle", "0.2", "999999999", &ended]));
    assert_eq!((said.status, said.out.as_str(), said.err.lines().count()), (125, "", 2), "{}", said.err);

    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("short"), [0; 100]).unwrap();
    std::fs::write(path("pages"), text(50)).unwrap();
    std::fs::write(path("gzip"), [&[0x1f, 0x8b, 8][..], &[7; 9000]].concat()).unwrap();
    let (short, pages, gzip, none) = (path("short"), path("pages"), path("gzip"), path("none"));
    let here = directory.path().to_str().unwrap();
    let said = finish(analyze(&["--json", "--time", "1", &short, here, &pages, &gzip, &none]));
    assert_eq!(said.status, 1, "{}", said.err);
    for words in ["has no whole page", "a directory", "decompress it first", "/none'"] {
        assert!(said.err.contains(words), "{}", said.err);
    }
    let found: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&found["what"], &found["pages"]), (&pages.as_str().into(), &50.into()));
    let said = finish(analyze(&[&short, &none]));
    assert_eq!((said.status, said.out.as_str(), said.err.lines().count()), (125, "", 2), "{}", said.err);
}

#[test]
fn compressed_cores_are_distinguished_from_pages() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, begins: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, [begins, &[7; 9000]].concat()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (begins, by) in [
        (&[0x28, 0xb5, 0x2f, 0xfd][..], "zstd"),
        (&[0x1f, 0x8b, 8], "gzip"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"),
        (&[4, 0x22, 0x4d, 0x18], "lz4"),
        (b"BZh", "bzip2"),
        // The data follow skippable frames.
        (b"\x50\x2a\x4d\x18\x03\0\0\0abc\x5f\x2a\x4d\x18\0\0\0\0\x28\xb5\x2f\xfd", "zstd"),
        (b"\x50\x2a\x4d\x18\x03\0\0\0abc\x04\x22\x4d\x18", "lz4"),
        (&[2, 0x21, 0x4c, 0x18], "lz4"),
        (b"\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0", "lzma"),
        (b"PK\x03\x04", "zip"),
        (b"LZIP\x01", "lzip"),
        (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    ] {
        let name = file(by, begins);
        finish(analyze(&[&name])).is_refusal(125, &[by, "decompress it first"]);
    }
}

#[test]
fn a_core_holds_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("core");
    let name = path.to_str().unwrap();
    write_core(&path, &[(0x10000, &text(64)), (0x800000, &vec![7; 4096 * 16])]);
    let found = json(&["--json", "--time", "1", name]);
    assert_eq!((&found["kind"], &found["pages"]), (&"core".into(), &80.into()));
    assert_eq!(found["sampled_pages"], 80);
    assert!((found["same_filled_share"].as_f64().unwrap() - 0.2).abs() < 1e-9);
    assert_eq!(found["working_set"], Value::Null);
    assert!(found["needs"].as_array().unwrap().len() > 1);

    // A truncated core.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(100_000).unwrap();
    finish(analyze(&[name])).is_refusal(125, &["was cut off", "ulimit -c"]);
    file.set_len(70).unwrap();
    finish(analyze(&[name])).is_refusal(125, &["is not a readable core"]);
    // A core among other files.
    write_core(&path, &[(0x10000, &text(1))]);
    let said = finish(analyze(&[name, name]));
    assert!(said.status == 125 && said.err.contains("only be analysed by itself"), "{}", said.err);
}

/// A core that the kernel itself writes, on machines where it writes cores to the current directory.
#[test]
fn a_core_of_the_kernels_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -c unlimited; exec python3 -c \"import os; x=bytearray(b'text ' * 1000000); os.abort()\"",
    ]);
    command.current_dir(directory.path()).stderr(Stdio::null());
    command.status().unwrap();
    let core = std::fs::read_dir(directory.path()).unwrap().filter_map(Result::ok).next();
    let Some(core) = core else {
        eprintln!("no core was written here (core_pattern {pattern}): left out");
        return;
    };
    let found = json(&["--json", "--time", "1", core.path().to_str().unwrap()]);
    assert_eq!(found["kind"], "core");
    assert!(found["bytes"].as_u64().unwrap() > 5_000_000, "{found:#}");
    let names: Vec<&str> =
        found["mappings"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert!(names.contains(&"[anonymous]"), "{names:?}");
}

#[test]
fn files_of_pages_are_taken_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("a"), text(300)).unwrap();
    std::fs::write(path("b"), vec![0; 4096 * 100 + 17]).unwrap();
    std::fs::write(path("short"), vec![0; 4095]).unwrap();
    let (a, b, short) = (path("a"), path("b"), path("short"));
    let [a, b, short] = [&a, &b, &short].map(|path| path.to_str().unwrap());
    let found = json(&["--json", "--time", "2", "--codec", "lz4", a, b]);
    assert_eq!((&found["kind"], &found["pages"]), (&"pages".into(), &400.into()));
    assert_eq!(found["ratios"][0]["codec"], "lz4");
    assert!((found["zero_share"].as_f64().unwrap() - 0.25).abs() < 1e-9);
    // `memfold bench` must agree on the same pages with the same codec.
    let measured = Command::new(MEMFOLD)
        .args(["bench", "--json", "--codec", "lz4", "--threshold", "3840", a])
        .output()
        .unwrap();
    let measured: Value = serde_json::from_slice(&measured.stdout).unwrap();
    let row = &measured["rows"][0];
    let bytes = |name: &str| row[name].as_f64().unwrap();
    let mine = found["mappings"].as_array().unwrap().iter().find(|it| it["name"] == a).unwrap();
    let expected = bytes("original_bytes") / bytes("compressed_bytes");
    assert!((mine["ratio"].as_f64().unwrap() / expected - 1.0).abs() < 0.01, "{mine} and {row}");

    finish(analyze(&[short])).is_refusal(125, &["has no whole page"]);
    finish(analyze(&["/nowhere"])).is_refusal(125, &["cannot read '/nowhere'"]);
    finish(analyze(&["/dev/zero"])).is_refusal(125, &["not a file that can be read twice"]);
    finish(analyze(&[directory.path().to_str().unwrap()])).is_refusal(125, &["a directory"]);
}

#[test]
fn impossible_arguments_are_refused() {
    finish(analyze(&["999999999"])).is_refusal(125, &["there is no process 999999999", "ps -e"]);
    finish(analyze(&["0"])).is_refusal(125, &["not a process ID", "./0"]);
    finish(analyze(&["17", "file"])).is_refusal(125, &["cannot be analysed together"]);
    finish(analyze(&["--codec", "lz5", "/bin/sh"])).is_refusal(125, &["--codec 'lz5'"]);
    finish(analyze(&["--limit", "much", "/bin/sh"])).is_refusal(125, &["the limit 'much'"]);
    finish(analyze(&["--time=-3", "/bin/sh"])).is_refusal(125, &["--time"]);
    // A kernel thread.
    if Path::new("/proc/2/exe").read_link().is_err() && Path::new("/proc/2/comm").exists() {
        let said = finish(analyze(&["2"]));
        assert_eq!(said.status, 125, "{}", said.out);
        assert!(
            said.err.contains("no private memory")
                || said.err.contains("may not read")
                || said.err.contains("no memory of its own")
                || said.err.contains("ended"),
            "{}",
            said.err
        );
    }
}

#[test]
fn a_process_under_memfold_is_noted() {
    let mut child = Command::new(MEMFOLD)
        .args(["run", "-q", "--limit=1G", "--", "sh", "-c", "echo $$; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut pid).unwrap();
    let said = finish(analyze(&["--idle", "0", pid.trim()]));
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(said.err.contains("runs under memfold: only what is resident is analysed"), "{}", said.err);
}

#[test]
fn a_process_that_ends_meanwhile_is_reported() {
    let program = Program::start();
    let child = analyze(&["--idle", "30", &program.pid()])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(program);
    // The command notices this at its next reading, the first of which comes after 1/32 of the time.
    let output = child.wait_with_output().unwrap();
    crate::common::said(output).is_refusal(125, &["ended while it was analysed"]);
}

#[test]
fn other_users_processes_are_refused_with_a_remedy() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    // Run a copy of the command as `nobody`, in a directory that this user can reach.
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    let copy = directory.path().join("memfold");
    std::fs::copy(MEMFOLD, &copy).unwrap();
    for path in [directory.path(), &copy] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
    command.args(["analyze", "--quiet", &std::process::id().to_string()]);
    let said = finish(command);
    said.is_refusal(125, &["belongs to user 0"]);
    crate::offers_to_root(&said, "memfold analyze");
}

/// Pages of words.
fn text(pages: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut bytes = Vec::new();
    while bytes.len() < pages * 4096 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend_from_slice(["alpha ", "beta ", "gamma\n", "delta_"][(state >> 62) as usize].as_bytes());
        if state >> 33 & 15 == 0 {
            bytes.extend_from_slice(&state.to_le_bytes());
        }
    }
    bytes.truncate(pages * 4096);
    bytes
}

/// An ELF core with these segments.
fn write_core(path: &Path, segments: &[(u64, &[u8])]) {
    let mut file = std::fs::File::create(path).unwrap();
    let mut head = vec![0_u8; 64 + 56 * segments.len()];
    head[..16].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(16, &4_u16.to_le_bytes());
    put(18, &62_u16.to_le_bytes());
    put(20, &1_u32.to_le_bytes());
    put(32, &64_u64.to_le_bytes());
    put(52, &64_u16.to_le_bytes());
    put(54, &56_u16.to_le_bytes());
    put(56, &(segments.len() as u16).to_le_bytes());
    let mut offset = 4096;
    for (at, (address, bytes)) in segments.iter().enumerate() {
        let at = 64 + 56 * at;
        let len = bytes.len() as u64;
        put(at, &1_u32.to_le_bytes());
        put(at + 4, &6_u32.to_le_bytes());
        for (field, value) in [(8, offset), (16, *address), (32, len), (40, len), (48, 4096)] {
            put(at + field, &u64::to_le_bytes(value));
        }
        offset += len;
    }
    head.resize(4096, 0);
    file.write_all(&head).unwrap();
    for (_, bytes) in segments {
        file.write_all(bytes).unwrap();
    }
}
