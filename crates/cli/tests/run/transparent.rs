//! The program finds its environment as memfold found it.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::signal::{SigHandler, Signal};

use crate::common::{MEMFOLD, compile, finish, run, run_with, shell};

#[test]
fn standard_output_byte_for_byte() {
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut child =
        run(&["cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut input, sent) = (child.stdin.take().unwrap(), bytes.clone());
    let writer = std::thread::spawn(move || input.write_all(&sent));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.stdout == bytes);
    assert!(output.stderr.starts_with(b"memfold: "));
}

#[test]
fn its_own_words_stay_apart_from_ours() {
    let said = finish(shell("echo out; echo err >&2; exit 7"));
    assert_eq!((said.status, said.out.as_str()), (7, "out\n"));
    let lines: Vec<&str> = said.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", said.err);
    assert!(lines[0] == "err" && lines[1].starts_with("memfold: "));
    let quiet = finish(run_with(&["-q", "--limit", "1G"], &["sh", "-c", "echo err >&2"]));
    assert_eq!(quiet.err, "err\n");
}

#[test]
fn arguments_and_directory() {
    let here = tempfile::tempdir().unwrap();
    let mut command = run_with(
        &["--limit", "1G"],
        &["sh", "-c", "pwd; printf '<%s>' \"$0\" \"$@\"", "--", "-x", "", "a b", "--limit"],
    );
    command.current_dir(here.path());
    let said = finish(command);
    let pwd = here.path().canonicalize().unwrap();
    assert_eq!(said.out, format!("{}\n<--><-x><><a b><--limit>", pwd.display()));
}

#[test]
fn environment() {
    let mut command = run(&["env"]);
    command.env_clear().env("A", "1 2\n3").env("PATH", "/usr/bin:/bin").env("MEMFOLD_SHARED", "/stale");
    let said = finish(command);
    assert!(said.out.contains("A=1 2\n3\n") && said.out.contains("PATH=/usr/bin:/bin\n"), "{}", said.out);
    let preload = said.out.lines().find_map(|line| line.strip_prefix("LD_PRELOAD=")).unwrap();
    assert!(preload.contains("libmemfold_preload") && !preload.contains(' '), "{preload}");
    assert!(said.out.contains("MEMFOLD_SHARED=/proc/"), "{}", said.out);
    assert!(said.out.contains("ASAN_OPTIONS=verify_asan_link_order=0\n"), "{}", said.out);
    // Nothing else was added.
    assert_eq!(said.out.lines().count(), 6, "{}", said.out);
}

#[test]
fn the_users_own_preload_library_stays() {
    let here = tempfile::tempdir().unwrap();
    let source = "#include <unistd.h>\n__attribute__((constructor)) static void f(void){(void)!write(1,\"mine\\n\",5);}\n";
    let Some(library) = compile(here.path(), "mine.so", source, &["-shared", "-fPIC"]) else { return };
    let mut command = run(&["true"]);
    command.env("LD_PRELOAD", &library);
    // The library prints once in memfold itself, and once in the program.
    assert_eq!(finish(command).out, "mine\nmine\n");
}

/// With `MREMAP_DONTUNMAP` the kernel also checks the fifth argument. A caller with four arguments leaves any
/// value there.
#[test]
fn mremap_without_a_fifth_argument() {
    let here = tempfile::tempdir().unwrap();
    let source = "#define _GNU_SOURCE\n#include <sys/mman.h>\n#include <string.h>\n\
        int main(void){char*at=mmap(0,8192,3,34,-1,0);memset(at,7,8192);\
        char*to=mremap(at,8192,8192,MREMAP_MAYMOVE|MREMAP_DONTUNMAP,at+1);\
        return to==MAP_FAILED||to[0]!=7||to[8191]!=7||at[0]!=0;}\n";
    let Some(program) = compile(here.path(), "moves", source, &[]) else { return };
    let said = finish(run(&[program.to_str().unwrap()]));
    assert_eq!(said.status, 0, "{}", said.err);
}

/// Memory right behind the zero-initialised data of memfold's library or the C library would merge with that
/// data into one mapping, for which faults cannot be served.
#[test]
fn memory_beside_the_data_of_libraries_takes_nothing_of_it_away() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
enum { FILLER = 96 << 20 };
/* Fills the hole behind the last mapping of a library, which is what follows its file's. Returns how large both are together. */
static size_t fill(const char *library) {
    char line[512];
    size_t from, to, start = 0, end = 0, next = 0;
    int is_in = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (next == 0 && fgets(line, sizeof line, maps)) {
        sscanf(line, "%zx-%zx", &from, &to);
        if (strstr(line, library) != NULL) is_in = 1, start = to;
        else if (is_in && end == 0 && from == start) end = to;
        else if (is_in) next = from;
    }
    fclose(maps);
    if (end == 0 || next <= end) return 0;
    size_t bytes = next - end < 4 << 20 ? next - end : 4 << 20;
    char *hole = mmap((void *)end, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (hole != (void *)end) return 0;
    memset(hole, 1, bytes);
    return end + bytes - start;
}
int main(int argc, char **argv) {
    /* Where the loader puts them is left to chance. */
    int tries = argc > 1 ? atoi(argv[1]) : 0;
    size_t beside = fill("libmemfold_preload"), libc = fill("libc.so.6");
    if (beside < 1 << 20 && libc < 1 << 20 && tries < 40) {
        char next[20];
        snprintf(next, sizeof next, "%d", tries + 1);
        execl("/proc/self/exe", argv[0], next, (char *)NULL);
    }
    unsigned char *filler = malloc(FILLER);
    for (int round = 0; round < 4; round++)
        for (int at = 0; at < FILLER; at += 64) filler[at] = at >> 12;
    for (int at = 0; at < FILLER; at += 64)
        if (filler[at] != (unsigned char)(at >> 12)) return 1;
    printf("%d\n", beside >= 1 << 20 || libc >= 1 << 20);
    return 0;
}
"#;
    let Some(program) = compile(here.path(), "beside", source, &[]) else { return };
    let said =
        finish(run_with(&["-q", "--limit", "16M", "--"], &["timeout", "60", program.to_str().unwrap()]));
    assert_eq!(said.status, 0, "{}", said.err);
    if said.out != "1\n" {
        eprintln!("nothing tested: no hole behind a library was large enough");
    }
}

/// jemalloc looks up `pthread_create` in the C library, so its threads bypass the preload library. The C
/// library itself starts the threads of timers. All are in lists that a forked child walks before any page
/// can be restored.
#[test]
fn children_live_whatever_has_started_the_threads() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { THREADS = 4, WORDS = (96 << 20) / 4 };
static volatile int done;
static void *stays(void *unused) { for (;;) pause(); return unused; }
static void *ends(void *unused) { return unused; }
static void ticks(union sigval unused) { (void)unused; done = 1; }
int main(void) {
    int (*start)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    pthread_t threads[2 * THREADS];
    timer_t timer;
    struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = ticks };
    struct itimerspec soon = { .it_value.tv_nsec = 1000000 };
    start = dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "pthread_create");
    for (int i = 0; i < 2 * THREADS; i++)
        if (start(threads + i, NULL, i % 2 ? stays : ends, NULL) != 0) return 2;
    for (int i = 0; i < 2 * THREADS; i += 2) pthread_join(threads[i], NULL);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &soon, NULL) != 0) return 3;
    while (!done) usleep(1000);
    unsigned *filler = malloc(4 * (size_t)WORDS);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < WORDS; i++) filler[i] = i / 16 * (round + 1);
    for (int i = 0; i < 3; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            pthread_t own;
            _exit(pthread_create(&own, NULL, ends, NULL) != 0 || pthread_join(own, NULL) != 0);
        }
        if (waitpid(child, &status, 0) != child || status != 0) return 4;
    }
    return 0;
}"#;
    let Some(program) = compile(here.path(), "strangers", source, &["-pthread"]) else { return };
    let json = here.path().join("s.json");
    let options = ["-q", "--limit", "16M", "--stats", json.to_str().unwrap(), "--"];
    let said = finish(run_with(&options, &[program.to_str().unwrap()]));
    assert_eq!(said.status, 0, "{}", said.err);
    assert!(crate::common::stats(&json)["pages_compressed"].as_u64() > Some(10_000));
}

/// In a forked child, the C library clears the values that other threads keep under more than 32 keys, before
/// any page can be restored. The other data on those pages must survive.
#[test]
fn data_beside_the_values_of_many_keys_survive_a_fork() {
    let here = tempfile::tempdir().unwrap();
    let source = r#"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
enum { KEYS = 100, BESIDE = 200, SIZE = 512, FILLER = 96 << 20 };
static pthread_key_t keys[KEYS];
static unsigned char *beside[BESIDE];
static pthread_barrier_t ready;
static void *keeps(void *unused) {
    for (int i = 0; i < BESIDE; i++) {
        if (i == BESIDE / 2)
            for (int key = 0; key < KEYS; key++) pthread_setspecific(keys[key], keys + key);
        memset(beside[i] = malloc(SIZE), 0xa5, SIZE);
    }
    pthread_barrier_wait(&ready);
    pause();
    return unused;
}
static int is_wrong(void) {
    for (int i = 0; i < BESIDE; i++)
        for (int at = 0; at < SIZE; at++)
            if (beside[i][at] != 0xa5) return 1;
    return 0;
}
int main(void) {
    pthread_t thread;
    for (int key = 0; key < KEYS; key++) pthread_key_create(keys + key, NULL);
    pthread_barrier_init(&ready, NULL, 2);
    pthread_create(&thread, NULL, keeps, NULL);
    pthread_barrier_wait(&ready);
    unsigned char *filler = malloc(FILLER);
    for (int round = 0; round < 3; round++)
        for (int at = 0; at < FILLER; at += 64) filler[at] = at >> 12;
    int status;
    if (fork() == 0) _exit(is_wrong());
    wait(&status);
    return status != 0 ? 3 : is_wrong();
}
"#;
    let Some(program) = compile(here.path(), "keys", source, &["-pthread"]) else { return };
    let json = here.path().join("s.json");
    let options = ["-q", "--limit", "16M", "--stats", json.to_str().unwrap(), "--"];
    let said = finish(run_with(&options, &[program.to_str().unwrap()]));
    assert_eq!(said.status, 0, "{}", said.err);
    assert!(crate::common::stats(&json)["pages_compressed"].as_u64() > Some(10_000));
}

#[test]
fn a_run_inside_of_a_run() {
    let said = finish(run(&[MEMFOLD, "run", "--limit", "512M", "--", "sh", "-c", "echo inner; exit 9"]));
    assert_eq!((said.status, said.out.as_str()), (9, "inner\n"), "{}", said.err);
    said.only_ours_on_stderr();
}

#[test]
fn no_descriptor_more_than_before() {
    let plain = finish({
        let mut command = Command::new("sh");
        command.args(["-c", "ls /proc/$$/fd"]).stdin(Stdio::null());
        command
    });
    assert_eq!(finish(shell("ls /proc/$$/fd")).out, plain.out);
}

#[test]
fn closed_descriptors_stay_closed() {
    for closed in ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"] {
        let here = tempfile::tempdir().unwrap();
        let list = here.path().join("list");
        let list = list.to_str().unwrap();
        // `ls` itself opens a descriptor.
        let script = format!("ls -l /proc/self/fd {closed} 2>{list}.err 1>{list}");
        let script = if closed.contains('1') || closed.contains('2') {
            format!("readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2 >{list}")
        } else {
            script
        };
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec {MEMFOLD} run -q --limit 1G -- sh -c '{script}; exit 0' {closed}")]);
        assert_eq!(finish(command).status, 0, "{closed}");
        let text = std::fs::read_to_string(list).unwrap();
        assert!(!text.contains("memfold"), "{closed}: {text}");
    }
}

/// No file of memfold's takes the place of a closed standard error, because memfold's messages would go
/// there.
#[test]
fn words_go_nowhere_where_standard_error_is_closed() {
    for closed in ["2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"] {
        for option in ["", "--spill ."] {
            let here = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let program = "sh -c 'readlink /proc/$PPID/fd/2 > said'";
            let mut command = Command::new("sh");
            command.current_dir(&here);
            command.args(["-c", &format!("exec {MEMFOLD} run --limit 1G {option} -- {program} {closed}")]);
            assert_eq!(finish(command).status, 0, "{closed} {option}");
            let said = std::fs::read_to_string(here.path().join("said")).unwrap();
            assert_eq!(said, "/dev/null\n", "{closed} {option}");
        }
    }
}

/// A reader of the program's output sees its end when the program closes it, although the supervisor still
/// runs.
#[test]
fn the_supervisor_holds_no_pipe() {
    let mut child =
        shell("echo said; exec 1>&-; sleep 60").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut text = String::new();
    let mut out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || out.read_to_string(&mut text).map(|_| text));
    crate::common::until("end of file", || reader.is_finished());
    assert_eq!(reader.join().unwrap().unwrap(), "said\n");
    assert!(child.try_wait().unwrap().is_none());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    child.wait().unwrap();
}

#[test]
fn signals_that_were_ignored_or_blocked_still_are() {
    // Use no shell, because a shell changes some of these settings.
    let words = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"];
    let set = |command: &mut Command| {
        let prepare = || {
            for signal in [Signal::SIGHUP, Signal::SIGPIPE, Signal::SIGCHLD] {
                // SAFETY: ignoring a signal runs no code.
                unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) }?;
            }
            let mut blocked = nix::sys::signal::SigSet::empty();
            blocked.add(Signal::SIGUSR2);
            blocked.thread_block()?;
            Ok(())
        };
        // SAFETY: makes only system calls between fork and exec.
        unsafe { command.pre_exec(prepare) };
    };
    let mut plain = Command::new(words[0]);
    plain.args(&words[1..]);
    let mut under = run(&words);
    set(&mut plain);
    set(&mut under);
    let (plain, under) = (finish(plain), finish(under));
    let bits = |name: &str| {
        let line = plain.out.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    // Bit 0 is signal 1: SIGHUP, SIGPIPE, SIGCHLD; SIGUSR2.
    assert_eq!(bits("SigIgn:") & 0x1_1001, 0x1_1001, "{}", plain.out);
    assert_eq!(bits("SigBlk:"), 0x800, "{}", plain.out);
    assert_eq!((under.out, under.status), (plain.out, 0));
}

#[test]
fn without_any_of_that_signals_are_the_default() {
    let words = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"];
    let mut plain = Command::new(words[0]);
    plain.args(&words[1..]);
    assert_eq!(finish(run(&words)).out, finish(plain).out);
}
