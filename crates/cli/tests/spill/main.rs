//! `--spill`: spilled data are restored, also in forked children and in processes that outlive the program.
//! Tiers that are full, gone, or have lost data are tested, too.

#[path = "../common/mod.rs"]
mod common;
mod file;
mod processes;
#[cfg(feature = "servers")]
mod servers;
#[cfg(feature = "servers")]
#[path = "../../../spill/tests/servers/started.rs"]
mod started;
mod table;

use std::path::Path;
use std::process::Command;
#[cfg(feature = "servers")]
use std::sync::RwLockReadGuard;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use common::{MEMFOLD, Medium, finish, stats};
use file::has_direct;
use table::Table;

const MIB: u64 = 1 << 20;

static ONE: RwLock<()> = RwLock::new(());

/// A lock for tests that run alone, because they measure memory or time, or load two CPUs.
fn alone() -> RwLockWriteGuard<'static, ()> {
    ONE.write().unwrap_or_else(PoisonError::into_inner)
}

/// A lock for tests that mostly wait, and may run beside each other.
#[cfg(feature = "servers")]
fn beside_others() -> RwLockReadGuard<'static, ()> {
    ONE.read().unwrap_or_else(PoisonError::into_inner)
}

/// A directory on a disk.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn number(value: &serde_json::Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

const LIMIT: [&str; 2] = ["--limit", "64M"];

/// Starts the program with a spill file beside it.
fn on_file(at: &Path, options: &[&str], mib: &str, noise: &str) -> Option<Table> {
    Table::start(at, at.to_str().unwrap(), options, mib, noise)
}

/// Checks that the limit was held, and that enough was spilled and fetched.
fn check(at: &Path, limit: u64, spilled: u64) {
    let stats = stats(&at.join("stats.json"));
    assert!(number(&stats["peak_resident_bytes"]) < limit + limit / 20 + 8 * MIB, "{stats:#}");
    assert!(
        number(&stats["pages_spilled"]) * 4096 > spilled && number(&stats["pages_fetched"]) > 1000,
        "{stats:#}"
    );
    assert!(
        number(&stats["spill"]["bytes_put"]) > 0 && number(&stats["spill"]["troubles"]) == 0,
        "{stats:#}"
    );
}

/// Checks that the process is terminated with this word in the message, and without the answer "right".
#[track_caller]
#[cfg(feature = "servers")]
fn is_ended(table: Table, word: &str) {
    is_ended_with(table, &[word]);
}

/// Like `is_ended`, but any one of these words suffices.
#[track_caller]
fn is_ended_with(mut table: Table, words: &[&str]) {
    table.tell("look");
    assert_eq!(table.answer(), None);
    let ended = table.end();
    let is_said = words.iter().any(|word| ended.err.contains(word));
    assert!(ended.status == 128 + 6 && is_said, "{}: {}", ended.status, ended.err);
}

#[test]
fn incompressible_pages_are_spilled_to_a_file_and_restored() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "200", "64") else { return };
    table.asked("look");
    table.asked("touch 20000");
    table.asked("free");
    table.asked("look");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
    check(at.path(), 64 * MIB, 100 * MIB);
    let stats = stats(&at.path().join("stats.json"));
    assert!(number(&stats["spill"]["batches_deleted"]) > 100, "{stats:#}");
    if has_direct(at.path()) {
        // The process has read its pages directly, except those that moved from sparse batches.
        let [all, direct] = ["reads", "direct_reads"].map(|name| number(&stats["spill"][name]));
        assert!(direct > 1000 && direct > all / 2, "{stats:#}");
    }
    let fetched = &stats["spill"]["fault_us"];
    assert!(fetched["p50"].as_f64() > Some(1.0) && fetched["p50"].as_f64() <= fetched["max"].as_f64());
    assert_eq!(
        std::fs::read_dir(at.path()).unwrap().count(),
        3,
        "the program, its source and the statistics"
    );
}

#[test]
fn pages_that_compress_too_little_are_spilled_too() {
    let _alone = alone();
    let at = directory();
    let options = ["--limit", "48M", "--spill-unencrypted"];
    let Some(mut table) = on_file(at.path(), &options, "300", "20") else {
        return;
    };
    table.asked("touch 30000");
    // Even idle fetchers must adopt a changed identity (`setgid`) immediately.
    let begin = std::time::Instant::now();
    (0..5).for_each(|_| table.asked("identity"));
    assert!(begin.elapsed().as_millis() < 1000, "{:?}", begin.elapsed());
    table.asked("look");
    let ended = table.end();
    assert!(ended.status == 0 && !ended.err.contains("is late"), "{}: {}", ended.status, ended.err);
    check(at.path(), 48 * MIB, 50 * MIB);
}

/// Pages are restored one at a time from all over the tier, and spilled again. The pages of sparse batches
/// must move, or the tier would soon be full.
#[test]
fn sparse_batches_do_not_fill_the_tier() {
    let _alone = alone();
    let at = directory();
    let options = ["--limit", "64M", "--spill-limit", "240M"];
    let Some(mut table) = on_file(at.path(), &options, "200", "64") else { return };
    table.asked("touch 40000");
    table.asked("look");
    let ended = table.end();
    assert!(ended.status == 0 && !ended.err.contains("is full"), "{}: {}", ended.status, ended.err);
    check(at.path(), 64 * MIB, 140 * MIB);
}

/// Of three neighbours, one compresses well and is not spilled, so sequences have gaps in their batches.
#[test]
fn sequences_with_gaps_are_restored() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "250", "64/3") else { return };
    for _ in 0..2 {
        table.asked("look");
        table.asked("touch 10000");
    }
    assert_eq!(table.end().status, 0);
    let stats = stats(&at.path().join("stats.json"));
    let (fetched, reads) = (number(&stats["pages_fetched"]), number(&stats["spill"]["reads"]));
    assert!(fetched > reads * 3 / 2, "{stats:#}");
}

/// The program locks all memory, so spilled pages must be restored, and the memory is not managed from then
/// on.
#[test]
fn spilled_pages_are_restored_before_the_runtime_stops() {
    let _alone = alone();
    let at = directory();
    let Some(mut table) = on_file(at.path(), &LIMIT, "100", "64") else { return };
    table.asked("lock");
    table.asked("look");
    // The supervisor deletes batches at intervals. Deletions after the program's end would not be in the
    // statistics.
    std::thread::sleep(Duration::from_millis(1500));
    let ended = table.end();
    assert!(ended.status == 0 && ended.err.contains("is restored"), "{}: {}", ended.status, ended.err);
    let stats = stats(&at.path().join("stats.json"));
    assert!(number(&stats["pages_fetched"]) > 5_000, "{stats:#}");
    assert_eq!(stats["spill"]["batches_put"], stats["spill"]["batches_deleted"], "{stats:#}");
    // Restored pages do not count twice. (Resident memory exceeds the program's, because all of memfold's
    // memory is locked, too.)
    let [logical, resident] = ["peak_logical_bytes", "peak_resident_bytes"].map(|name| number(&stats[name]));
    assert!(logical < resident + 8 * MIB, "{stats:#}");
}

#[test]
fn a_full_tier_is_reported_and_nothing_is_lost() {
    let _alone = alone();
    let at = directory();
    let options = ["--limit", "64M", "--spill-limit", "30M"];
    let Some(mut table) = on_file(at.path(), &options, "150", "64") else {
        return;
    };
    table.asked("touch 5000");
    table.asked("look");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert!(ended.err.contains("is full"), "{}", ended.err);
}

/// The number of faults of a supervisor's programs so far.
fn faults(supervisor: u32) -> u64 {
    let told = Command::new(MEMFOLD).args(["top", "--prometheus", &supervisor.to_string()]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let line = told.lines().find(|line| line.starts_with("memfold_tree_faults_total{")).expect(&told);
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn everything_is_spilled_all_the_time() {
    let _alone = alone();
    let at = directory();
    let options = ["--limit", "1G", "--paranoid"];
    let Some(mut table) = on_file(at.path(), &options, "30", "32") else {
        return;
    };
    // On a busy machine little is evicted in a given time, so continue until there were enough faults.
    let begin = Instant::now();
    while faults(table.child.id()) < 20_000 {
        assert!(begin.elapsed() < Duration::from_secs(120), "{} faults", faults(table.child.id()));
        table.asked("touch 5000");
    }
    table.asked("fork 2");
    table.asked("look");
    let ended = table.end();
    assert_eq!(ended.status, 0, "{}", ended.err);
    let stats = stats(&at.path().join("stats.json"));
    assert!(number(&stats["pages_spilled"]) > 10_000 && number(&stats["pages_fetched"]) > 5_000, "{stats:#}");
}

/// When a program begins, it waits for an answer of the supervisor's threads, but must not do so if they
/// could not be started.
#[test]
fn the_program_runs_without_spilling_if_no_threads_can_be_started() {
    if !common::is_root() {
        return eprintln!("skipped: takes root");
    }
    let at = directory();
    std::os::unix::fs::chown(at.path(), Some(65534), Some(65534)).unwrap();
    let mut command = Command::new("timeout");
    // The limit (`--nproc`) allows fewer threads than the service needs. It does not apply to root, so
    // another user runs this. The capability (CAP_SYS_PTRACE) is for userfaultfd.
    command.args(["20", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args(["--inh-caps=+sys_ptrace", "--ambient-caps=+sys_ptrace"]);
    command.args(["prlimit", "--nproc=6", common::MEMFOLD, "run", "--limit", "64M", "--spill"]);
    command.arg(at.path()).args(["--", "echo", "here"]);
    let said = finish(command);
    assert_eq!((said.status, said.out.as_str()), (0, "here\n"), "{}", said.err);
    assert!(said.err.contains("nothing is spilled"), "{}", said.err);
}

/// The tier stops for more than a second at a time. Threads that need more memory wait until it accepts data
/// again.
#[test]
fn a_tier_that_stops_again_and_again_lets_the_limit_be_held() {
    let _alone = alone();
    let at = directory();
    let Some(medium) = Medium::new(at.path(), 600 << 20) else { return };
    let is_over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(200));
                assert!(medium.freeze());
                std::thread::sleep(Duration::from_millis(1300));
                assert!(medium.thaw());
            }
        });
        let table = Table::start(at.path(), medium.path.to_str().unwrap(), &LIMIT, "160", "64");
        let ended = table.map(|mut table| {
            table.asked("touch 500");
            table.end()
        });
        is_over.store(true, Relaxed);
        ended
    });
    let Some(ended) = ended else { return };
    assert_eq!(ended.status, 0, "{}", ended.err);
    let stats = stats(&at.path().join("stats.json"));
    let peak = number(&stats["peak_resident_bytes"]);
    assert!(peak < 64 * MIB + 64 * MIB / 20 + 8 * MIB, "{}\n{stats:#}", ended.err);
    assert!(number(&stats["pages_spilled"]) > 20_000, "{}\n{stats:#}", ended.err);
}
