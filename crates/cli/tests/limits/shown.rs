//! What programs are shown of the machine's memory (`--show`): by the C library's functions, in files, and by the
//! options of language runtimes, of which real ones are asked.

use std::process::Command;

use crate::common::group::Group;
use crate::common::{MEMFOLD, Said, compile, finish, python, run_with};
use crate::container::group;

/// Whether there is this program, which prints its version.
fn is_there(program: &str, version: &str) -> bool {
    let there = Command::new(program).arg(version).output().is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("skipped: there is no {program}");
    }
    there
}

fn inside(group: &Group, words: &[&str]) -> Said {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    finish(group.enter(&command))
}

/// Asks in every way, and prints MiB.
const ASKS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>
static long total_in(FILE *file) {
    char line[200];
    long kib = -1;
    while (fgets(line, sizeof line, file)) sscanf(line, "MemTotal: %ld kB", &kib);
    fclose(file);
    return kib >> 10;
}
int main(int argc, char **argv) {
    struct sysinfo info;
    if (sysinfo(&info)) return 1;
    printf("%ld %ld ", (long)(info.totalram * info.mem_unit >> 20), sysconf(_SC_PHYS_PAGES) >> 8);
    printf("%ld %ld ", get_phys_pages() >> 8, total_in(fopen("/proc/meminfo", "r")));
    printf("%ld ", total_in(fdopen(open("/proc/meminfo", O_RDONLY), "r")));
    int proc = open("/proc", O_RDONLY | O_DIRECTORY);
    printf("%ld\n", total_in(fdopen(openat(proc, "meminfo", O_RDONLY), "r")));
    /* Free memory is a part of it; each way says nearly the same. */
    long free = sysconf(_SC_AVPHYS_PAGES) >> 8, of = sysconf(_SC_PHYS_PAGES) >> 8;
    if (free > of || labs(free - (get_avphys_pages() >> 8)) > 8) return 2;
    /* The file is one like any other: seekable, read again, closed at exec as asked for, the lowest descriptor. */
    int file = open("/proc/meminfo", O_RDONLY | O_CLOEXEC), other = open("/proc/meminfo", O_RDONLY);
    char one[100], two[100];
    if (other != file + 1) return 3;
    if (read(file, one, 100) != 100 || lseek(file, 0, SEEK_SET) || read(file, two, 100) != 100) return 4;
    if (memcmp(one, two, 100)) return 5;
    if (fcntl(file, F_GETFD) != FD_CLOEXEC || fcntl(other, F_GETFD) != 0) return 6;
    int kept = fileno(fopen("/proc/meminfo", "r")), closed = fileno(fopen("/proc/meminfo", "re"));
    if (fcntl(kept, F_GETFD) != 0 || fcntl(closed, F_GETFD) != FD_CLOEXEC) return 9;
    /* What is not such a file stays what it is. */
    if (open("/nowhere/meminfo", O_RDONLY) != -1) return 7;
    FILE *own = fopen(argv[1], "w");
    fputs("MemTotal: 5 kB\n", own);
    fclose(own);
    own = fopen(argv[1], "r");
    if (!fgets(one, 100, own) || strcmp(one, "MemTotal: 5 kB\n")) return 8;
    return 0;
}
"#;

#[test]
fn every_way_to_ask_gets_the_same_answer() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compile(directory.path(), "asks", ASKS, &[]) else { return };
    let own = directory.path().join("meminfo");
    let words = [program.as_os_str(), own.as_os_str()];
    let ask = |options: &[&str]| finish(run_with(options, &words));
    let real = ask(&["--limit", "1G", "--"]);
    assert_eq!(real.status, 0, "{}", real.err);
    let shown = ask(&["--limit", "1G", "--show", "3G", "--"]);
    assert_eq!((shown.status, shown.out.as_str()), (0, "3072 3072 3072 3072 3072 3072\n"), "{}", shown.err);
    let shown = ask(&["--limit", "100M", "--show", "auto", "--"]);
    assert_eq!((shown.status, shown.out.as_str()), (0, "200 200 200 200 200 200\n"), "{}", shown.err);
    let off = ask(&["--limit", "auto", "--show", "off", "--"]);
    assert_eq!((off.status, off.out), (0, real.out));
}

/// Memory of a memory cgroup, in which memfold runs without options.
#[test]
fn below_a_cgroups_limit_programs_see_what_fits_in_compressed() {
    let (Some(python), Some(group)) = (python(), group("shown", 256)) else { return };
    let version_1 = group.0.join("memory.limit_in_bytes").exists();
    let (limit, usage) = if version_1 {
        ("memory.limit_in_bytes", "memory.usage_in_bytes")
    } else {
        ("memory.max", "memory.current")
    };
    let program = format!(
        "import os;d='{}/';r=lambda n:int(open(d+n).read())>>20;print(os.sysconf('SC_PHYS_PAGES')>>8,r('{limit}'));print(r('{usage}'))",
        group.0.display()
    );
    let said = inside(&group, &[MEMFOLD, "run", "--", python, "-c", &program]);
    let numbers: Vec<u64> = said.out.split_whitespace().map(|number| number.parse().unwrap()).collect();
    // Twice what is free, less a reserve of 1/16, below the limit. A limit that follows goes up by a step
    // beyond that, 1/16 of the reserve, to see whether there is more (`follow.rs`).
    assert!((300..=482).contains(&numbers[0]) && numbers[1] == numbers[0], "{}{}", said.out, said.err);
    assert!(numbers[2] < 100, "{}", said.out);
    let said = inside(&group, &[MEMFOLD, "run", "--show", "off", "--", python, "-c", &program]);
    assert!(said.out.contains(" 256\n"), "{}{}", said.out, said.err);
    // A file that is opened for writing, too, is the real one. (Python opens files by `open`.)
    let rewrite = format!(
        "import ctypes;c=ctypes.CDLL(None);c.fopen.restype=ctypes.c_void_p;f=c.fopen(b'{}/{limit}',b'r+');c.fputs(b'260000000',ctypes.c_void_p(f));c.fclose(ctypes.c_void_p(f))",
        group.0.display()
    );
    let said = inside(&group, &[MEMFOLD, "run", "--", python, "-c", &rewrite]);
    assert_eq!(said.status, 0, "{}", said.err);
    let now: u64 = std::fs::read_to_string(group.0.join(limit)).unwrap().trim().parse().unwrap();
    assert!(now < 260_000_001 && now > 259_000_000, "{now}");
    std::fs::write(group.0.join(limit), (256 << 20).to_string()).unwrap();
    // memfold itself, started by such a program, goes by the real numbers: a limit above the group's is noticed.
    let said = inside(&group, &[MEMFOLD, "run", "--", MEMFOLD, "run", "--limit", "300M", "--", "true"]);
    assert!(said.err.contains("exceeds the 256 MiB"), "{}", said.err);
}

/// 1.9 million objects: more than V8 allows itself in a container of 512 MiB, which has room for them.
const ROWS: &str = "
const rows = [];
for (let i = 0; i < 1900000; i++) rows.push({number: i, name: 'customer ' + (i * 7919 % 1000003), city: [i % 97]});
let sum = 0;
for (const row of rows) if (row.city[0] === 5) sum += row.number;
console.log(sum, rows[rows.length - 1].name);
";

#[test]
fn node_that_ends_at_its_own_cap_completes() {
    if !is_there("node", "--version") {
        return;
    }
    let Some(group) = group("node", 512) else { return };
    let right = finish(run_with(&["--limit", "4G", "--"], &["node", "-e", ROWS]));
    assert_eq!(right.status, 0, "{}", right.err);
    let plainly = inside(&group, &["node", "-e", ROWS]);
    assert!(plainly.err.contains("JavaScript heap out of memory"), "{}{}", plainly.out, plainly.err);
    let said = inside(&group, &[MEMFOLD, "run", "--", "node", "-e", ROWS]);
    assert_eq!((said.status, said.out), (0, right.out), "{}", said.err);
    // An option of the user's counts.
    let own = ["env", "NODE_OPTIONS=--max-old-space-size=100", MEMFOLD, "run", "--", "node", "-e", ROWS];
    let said = inside(&group, &own);
    assert!(said.err.contains("JavaScript heap out of memory"), "{}{}", said.out, said.err);
}

/// 130 MiB that stay in use: in a container of 512 MiB the JVM allows itself 128.
const HEAP: &str = "
import java.util.*;
class Heap {
    public static void main(String[] words) {
        List<long[]> all = new ArrayList<>();
        for (int i = 0; i < 130; i++) { long[] one = new long[131072]; Arrays.fill(one, i); all.add(one); }
        long sum = 0;
        for (long[] one : all) sum += one[77];
        System.out.println(sum);
    }
}
";

#[test]
fn java_takes_the_heap_that_is_shown() {
    if !is_there("javac", "-version") {
        return;
    }
    let Some(group) = group("java", 512) else { return };
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("Heap.java");
    std::fs::write(&source, HEAP).unwrap();
    let made = Command::new("javac").arg("-d").arg(directory.path()).arg(&source).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let words = ["java", "-cp", directory.path().to_str().unwrap(), "Heap"];
    let plainly = inside(&group, &words);
    assert!(plainly.err.contains("OutOfMemoryError"), "{}{}", plainly.out, plainly.err);
    let said = inside(&group, &[&[MEMFOLD, "run", "--"][..], &words].concat());
    assert_eq!((said.status, said.out.as_str()), (0, "8385\n"), "{}", said.err);
    said.only_ours_on_stderr();
}

/// Keeps 70 MiB, and makes and drops ten times as much.
const GARBAGE: &str = "
package main

// int answer(void) { return 42; }
import \"C\"
import (
	\"fmt\"
	\"runtime/debug\"
)

var kept, dropped []byte

func main() {
	kept = make([]byte, 0)
	rows := make([][]byte, 0)
	sum := 0
	for i := 0; i < 70*1024; i++ {
		row := make([]byte, 1024)
		for at := range row {
			row[at] = byte(i)
		}
		rows = append(rows, row)
		for n := 0; n < 10; n++ {
			dropped = make([]byte, 1024)
			dropped[i&1023] = 1
		}
	}
	for _, row := range rows {
		sum += int(row[5])
	}
	fmt.Println(sum, C.answer(), debug.SetMemoryLimit(-1)>>20 < 1024)
}
";

#[test]
fn a_go_program_with_c_gets_its_limit() {
    if !is_there("go", "version") {
        return;
    }
    let Some(group) = group("go", 128) else { return };
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("main.go"), GARBAGE).unwrap();
    std::fs::write(directory.path().join("go.mod"), "module garbage\n").unwrap();
    let mut build = Command::new("go");
    build.args(["build", "-o", "garbage", "."]).current_dir(directory.path());
    let made = build
        .envs([("CGO_ENABLED", "1"), ("GOFLAGS", "-mod=mod"), ("GOTOOLCHAIN", "local")])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let program = directory.path().join("garbage");
    let program = program.to_str().unwrap();
    let plainly = inside(&group, &[program]);
    let said = inside(&group, &[MEMFOLD, "run", "--", program]);
    assert_eq!((said.status, said.out.as_str()), (0, "9139200 42 true\n"), "{}", said.err);
    // Without memfold it goes to twice what it keeps, or is told nothing.
    assert!(plainly.status == -1 || plainly.out.ends_with("false\n"), "{}{}", plainly.out, plainly.err);
}
