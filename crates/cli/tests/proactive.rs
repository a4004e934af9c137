//! `--limit auto` and `--proactive`: idle memory is evicted although there is room, memory in use stays
//! resident, and every byte is restored.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::{MEMFOLD, compile, finish, run_with, stats};

const MIB: u64 = 1 << 20;

/// Holds `argv[1]` MiB, of which 1/8 of each page is random. Obeys lines of input: `touch N MS` touches the
/// first N MiB at random for MS milliseconds and prints how often, `check` reads all memory and prints
/// whether it is right, and `resident` prints the resident MiB.
const HOLDER: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
static uint64_t word(size_t i)
{
    uint64_t z = i + 0x9e3779b97f4a7c15;
    if (i % 64 >= 8)
        return i / 512;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
int main(int argc, char **argv)
{
    size_t bytes = strtoull(argv[1], NULL, 0) << 20, words = bytes / 8, mib, ms;
    uint64_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static unsigned char there[1 << 20];
    char line[100];
    for (size_t i = 0; i < words; i++)
        memory[i] = word(i);
    while (puts("ready"), fflush(stdout), fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "touch %zu %zu", &mib, &ms) == 2) {
            uint64_t seed = 88172645463325252u, done = 0;
            for (double end = now() + ms / 1e3; now() < end;) {
                for (int i = 0; i < 1000; i++) {
                    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
                    size_t at = seed % (mib << 17);
                    if (memory[at] != word(at))
                        puts("wrong"), exit(1);
                }
                done += 1000;
            }
            printf("%llu\n", (unsigned long long)done);
        } else if (!strcmp(line, "check\n")) {
            for (size_t i = 0; i < words; i++)
                if (memory[i] != word(i))
                    printf("wrong at word %zu\n", i), exit(1);
            puts("right");
        } else if (!strcmp(line, "resident\n")) {
            size_t count = 0;
            if (mincore(memory, bytes, there))
                exit(2);
            for (size_t i = 0; i < bytes / 4096; i++)
                count += there[i] & 1;
            printf("%zu\n", count / 256);
        }
    }
    return 0;
}
"#;

/// A running holder.
struct Holder {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Holder {
    fn start(program: &Path, mib: u64, options: &[&str]) -> Self {
        let mut command = run_with(options, &["--", program.to_str().unwrap(), &mib.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut holder = Holder { child, to, from };
        assert_eq!(holder.line(), "ready");
        holder
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, what: &str) -> String {
        writeln!(self.to, "{what}").unwrap();
        let answer = self.line();
        assert_eq!(self.line(), "ready", "{what}: {answer}");
        answer
    }

    fn resident(&mut self) -> u64 {
        self.ask("resident").parse().unwrap()
    }

    /// Waits until at most this many MiB are resident.
    fn shrinks_to(&mut self, mib: u64) {
        let begin = Instant::now();
        loop {
            let resident = self.resident();
            if resident <= mib {
                return;
            }
            // Other load on the machine makes this slower.
            assert!(begin.elapsed() < Duration::from_secs(240), "{resident} MiB stay resident");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn ends_well(mut self) {
        assert_eq!(self.ask("check"), "right");
        drop(self.to);
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn idle_memory_is_evicted_and_restored() {
    let place = tempfile::tempdir().unwrap();
    let Some(program) = compile(place.path(), "holder", HOLDER, &["-O2"]) else { return };
    let file = place.path().join("stats.json");
    for options in [["--limit", "auto"], ["--limit=2G", "--proactive=0.5"]] {
        let words = ["--quiet", options[0], options[1], "--stats", file.to_str().unwrap()];
        let mut holder = Holder::start(&program, 160, &words);
        holder.shrinks_to(8);
        holder.ends_well();
        let stats = stats(&file);
        assert_eq!(stats["stall_target"], 0.01);
        assert_eq!(stats["idle_seconds"].as_f64(), options[1].strip_prefix("--proactive=").map(|_| 0.5));
        assert_eq!(stats["over_limit_bytes"], 0);
        let [mean, peak] =
            ["mean_resident_bytes", "peak_resident_bytes"].map(|name| stats[name].as_u64().unwrap());
        // On a busy machine some memory is evicted before all of it is filled.
        assert!(mean < peak && peak > 100 * MIB, "{mean} {peak}");
    }
}

#[test]
fn memory_in_use_stays_resident() {
    let place = tempfile::tempdir().unwrap();
    let Some(program) = compile(place.path(), "holder", HOLDER, &["-O2"]) else { return };
    let file = place.path().join("stats.json");
    let words = ["--quiet", "--limit", "auto", "--stats", file.to_str().unwrap()];
    let mut holder = Holder::start(&program, 128, &words);
    // Wait until the rest is evicted. A busy machine takes longer.
    let begin = Instant::now();
    loop {
        holder.ask("touch 16 1000");
        let resident = holder.resident();
        assert!(resident >= 12, "only {resident} of 16 MiB in use are resident");
        if resident < 64 {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(90), "{resident} MiB stay resident, 16 are in use");
    }
    holder.ends_well();
    let stats = stats(&file);
    let [stalled, wall] = ["stalled_seconds", "wall_seconds"].map(|name| stats[name].as_f64().unwrap());
    // The check at the end restores evicted memory.
    assert!(stalled < wall * 0.015 + 1.0, "{stalled} s of {wall}");
}

#[test]
fn a_running_tree_becomes_adaptive_and_fixed_again() {
    let place = tempfile::tempdir().unwrap();
    let Some(program) = compile(place.path(), "holder", HOLDER, &["-O2"]) else { return };
    let mut holder = Holder::start(&program, 100, &["--quiet", "--limit=512M"]);
    let pid = holder.child.id().to_string();
    let limit = |words: &[&str]| {
        let mut command = Command::new(MEMFOLD);
        command.arg("limit").arg(&pid).args(words);
        let said = finish(command);
        assert_eq!(said.status, 0, "{}", said.err);
        said.out
    };
    assert_eq!(limit(&[]), "512 MiB\n");
    let said = limit(&["auto"]);
    assert!(said.contains("now follows what is free (auto), previously 512 MiB;"), "{said}");
    assert!(limit(&[]).ends_with(", auto\n"));
    holder.shrinks_to(8);
    let said = limit(&["512M"]);
    assert!(said.contains("is now 512 MiB, previously ") && said.contains(" (auto);"), "{said}");
    assert_eq!(limit(&[]), "512 MiB\n");
    assert_eq!(holder.ask("check"), "right");
    let resident = holder.resident();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(holder.resident(), resident);
    assert!(resident >= 99, "{resident}");
    // A size that was set does not follow.
    assert_eq!(limit(&[]), "512 MiB\n");
    holder.ends_well();
}

#[test]
fn refusals() {
    let refused = |options: &[&str], words: &[&str]| {
        finish(run_with(options, &["--", "true"])).is_refusal(125, words);
    };
    refused(&["--limit", "auto", "--proactive"], &["--limit auto", "--proactive", "cannot be combined"]);
    refused(&["--proactive=0"], &["0.1", "--proactive=30"]);
    refused(&["--proactive=-1"], &["0.1", "--proactive=30"]);
    refused(&["--proactive=soon"], &["soon", "--proactive=30"]);
    refused(&["--limit", "auto", "--stall", "0"], &["0.01%", "--stall 1%"]);
    refused(&["--limit", "automatic"], &["not a size", "--limit auto"]);
    for options in [&["--proactive"][..], &["--limit=auto"], &["--limit=64M", "--proactive=2", "--stall=5%"]]
    {
        assert_eq!(finish(run_with(options, &["--", "true"])).status, 0);
    }
}
