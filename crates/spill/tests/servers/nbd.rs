//! The NBD tier with nbdkit.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::common::*;
use super::started::*;
use memfold_spill::{Target, Terms, Tier, Trouble};

#[test]
fn batches_are_read_back_and_trimmed() {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    std::fs::File::create(&disk).unwrap().set_len(64 << 20).unwrap();
    let server = Nbdkit::start(directory.path(), &["file", disk.to_str().unwrap()]);
    let tier = open(&server.uri);
    assert_eq!(tier.room().most, (64 << 20) - 4096, "all but the claim");
    exercise(&*tier, 300);
    drop(tier);
    use std::os::unix::fs::MetadataExt;
    assert!(std::fs::metadata(&disk).unwrap().blocks() <= 8, "what was deleted is still there");
    assert!(std::fs::read(&disk).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn over_tcp_and_with_one_connection() {
    let port = port().to_string();
    let _server = Server::start(
        "nbdkit",
        &["--foreground", "-p", &port, "--filter=multi-conn", "memory", "64M", "multi-conn-mode=disable"],
    );
    let uri = format!("nbd://127.0.0.1:{port}");
    until("nbdkit", || uri.parse::<Target>().unwrap().open("test", terms(None, DEADLINE)).is_ok());
    exercise(&*open(&uri), 200);
}

#[test]
fn a_dead_server_is_away_and_may_restart() {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    std::fs::File::create(&disk).unwrap().set_len(8 << 20).unwrap();
    let mut server = Nbdkit::start(directory.path(), &["file", disk.to_str().unwrap()]);
    let tier = open(&server.uri);
    tier.put(1, &bytes(1, 100_000)).unwrap();
    server.kill();
    assert!(matches!(tier.put(2, &bytes(2, 100_000)), Err(Trouble::Away(_))));
    assert!(matches!(read(&*tier, 1, 0, 100), Err(Trouble::Away(_))));
    server.restart();
    assert!(read(&*tier, 1, 5000, 50_000).unwrap() == bytes(1, 100_000)[5000..55_000]);
    // A connection that was idle when the server restarted causes no failure.
    server.restart();
    tier.put(2, &bytes(2, 100_000)).unwrap();
    assert!(read(&*tier, 2, 0, 100_000).unwrap() == bytes(2, 100_000));
    // The unanswered requests were never sent, so their units are free.
    assert_eq!(tier.room().used, 2 * 102_400);
    // A server that returns with another disk is not accepted.
    server.kill();
    std::fs::File::options().write(true).open(&disk).unwrap().set_len(4 << 20).unwrap();
    server.restart();
    let Err(Trouble::Away(why)) = read(&*tier, 1, 0, 100) else { panic!("it was read") };
    assert!(why.contains("bytes now"), "{why}");
}

#[test]
fn an_answer_that_comes_late_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let server = Nbdkit::start(directory.path(), &["memory", "8M"]);
    let short = terms(None, Duration::from_millis(300));
    let tier = server.uri.parse::<Target>().unwrap().open("test", short).unwrap();
    (0..8).for_each(|batch| tier.put(batch, &bytes(batch, 10_000)).unwrap());
    server.stop_for_now(true);
    for call in [
        &(|| read(&*tier, 1, 0, 100).map(drop)) as &dyn Fn() -> Result<(), Trouble>,
        &|| tier.put(9, &bytes(9, 10_000)),
        // Several batches: the deadline is for all of them, not for each.
        &|| tier.delete(&[0, 2, 4, 6]),
        &|| tier.probe(),
    ] {
        let begin = Instant::now();
        assert!(matches!(call(), Err(Trouble::Away(_))));
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    }
    server.stop_for_now(false);
    // The old connections are dropped, new ones work.
    tier.put(10, &bytes(10, 10_000)).unwrap();
    tier.delete(&[0, 2, 4, 6]).unwrap();
    for batch in [1, 3, 5, 7, 10] {
        assert!(read(&*tier, batch, 0, 10_000).unwrap() == bytes(batch, 10_000));
    }
}

/// An unanswered request is executed a second later. Batches that were put meanwhile stay intact.
#[test]
fn a_late_request_damages_no_batch() {
    for is_trim in [false, true] {
        let port = port();
        let number = port.to_string();
        let _server = Server::start("nbdkit", &["--foreground", "-p", &number, "memory", "1M"]);
        let late = Late::before(port);
        let uri = format!("nbd://127.0.0.1:{}", late.port);
        let tier = open_when_up(&uri);
        if is_trim {
            tier.put(1, &[1; 4096]).unwrap();
            late.hold_back_one();
            let _ = tier.delete(&[1]);
        } else {
            late.hold_back_one();
            let _ = tier.put(1, &[1; 4096]);
        }
        let mut most = 2;
        while tier.put(most, &[most as u8; 4096]) == Ok(()) && most < 200 {
            most += 1;
        }
        late.wait_until_delivered();
        for batch in 2..most {
            assert!(read(&*tier, batch, 0, 4096).unwrap() == [batch as u8; 4096], "{batch} of {most}");
        }
    }
}

#[test]
fn refused_batches_take_no_room() {
    let directory = tempfile::tempdir().unwrap();
    let refuses = directory.path().join("refuses");
    let when = format!("error-file={}", refuses.display());
    let words = ["--filter=error", "memory", "1028K", "error=ENOMEM", "error-rate=100%", &when];
    let server = Nbdkit::start(directory.path(), &words);
    let tier = open(&server.uri);
    for _ in 0..3 {
        (0..4).for_each(|batch| tier.put(batch, &bytes(batch, 256 << 10)).unwrap());
        std::fs::write(&refuses, "").unwrap();
        // The server has answered, so the request will not be executed later.
        tier.delete(&[1, 2, 3]).unwrap();
        assert!(matches!(tier.put(5, &bytes(5, 1000)), Err(Trouble::Away(_))));
        assert!(matches!(read(&*tier, 0, 0, 1000), Err(Trouble::Away(_))));
        std::fs::remove_file(&refuses).unwrap();
        assert!(read(&*tier, 0, 0, 1000).unwrap() == bytes(0, 256 << 10)[..1000]);
        tier.delete(&[0]).unwrap();
        assert_eq!(tier.room().used, 0);
    }
}

/// Units on which the medium fails are not used again; all others are.
#[test]
fn a_place_that_fails_is_not_taken_again() {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    File::create(&disk).unwrap().set_len(1 << 20).unwrap();
    let dd =
        format!("dd if=/dev/stdin of={} bs=64K conv=notrunc oflag=seek_bytes status=none", disk.display());
    let read = format!("dd if={} iflag=skip_bytes,count_bytes status=none", disk.display());
    let words = [
        "eval".to_owned(),
        "get_size=echo 1M".into(),
        format!("pread={read} skip=$4 count=$3"),
        // The position of the first batch.
        format!("pwrite=if [ $4 -ge 4096 ] && [ $4 -lt 12288 ]; then echo EIO >&2; exit 1; fi; {dd} seek=$4"),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let server = Nbdkit::start(directory.path(), &words);
    let tier = open(&server.uri);
    assert!(matches!(tier.put(1, &[1; 8192]), Err(Trouble::Away(_))));
    (2..10).for_each(|batch| tier.put(batch, &[batch as u8; 8192]).unwrap());
    (2..10).for_each(|batch| {
        assert!(super::common::read(&*tier, batch, 0, 8192).unwrap() == [batch as u8; 8192]);
    });
}

#[test]
fn a_failed_deletion_can_be_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Nbdkit::start(directory.path(), &["memory", "4100K"]);
    let tier = open(&server.uri);
    (0..16).for_each(|batch| tier.put(batch, &bytes(batch, 256 << 10)).unwrap());
    server.kill();
    let all: Vec<u64> = (0..16).collect();
    assert!(matches!(tier.delete(&all), Err(Trouble::Away(_))));
    server.restart();
    tier.delete(&all).unwrap();
    assert_eq!(tier.room().used, 0);
    (0..16).for_each(|batch| tier.put(batch, &bytes(batch, 256 << 10)).unwrap());
}

/// The messages while exports were opened.
static WORDS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A server whose disk the test also reads and writes directly.
struct Beside {
    disk: PathBuf,
    server: Nbdkit,
}

impl Beside {
    fn start(directory: &Path) -> Self {
        let disk = directory.join("disk");
        File::create(&disk).unwrap().set_len(4 << 20).unwrap();
        let server = Nbdkit::start(directory, &["file", disk.to_str().unwrap()]);
        Beside { disk, server }
    }

    fn claim(&self) -> String {
        let mut unit = [0; 4096];
        File::open(&self.disk).unwrap().read_exact_at(&mut unit, 0).unwrap();
        String::from_utf8(unit.split(|byte| *byte == 0).next().unwrap().to_vec()).unwrap()
    }

    fn set_claim(&self, text: &str) {
        let mut unit = [0; 4096];
        unit[..text.len()].copy_from_slice(text.as_bytes());
        File::options().write(true).open(&self.disk).unwrap().write_all_at(&unit, 0).unwrap();
    }

    /// The messages since the last call.
    fn words(&self) -> Vec<String> {
        let mut words = WORDS.lock().unwrap();
        words.extract_if(.., |text| text.contains(&self.server.uri)).collect()
    }

    fn open(&self, run: &str) -> Result<Box<dyn Tier>, String> {
        let target: Target = self.server.uri.parse().unwrap();
        let told = |text: &str| WORDS.lock().unwrap().push(text.to_owned());
        target.open(run, Terms { told, ..terms(None, DEADLINE) }).map_err(|bad| bad.0)
    }
}

#[test]
fn an_export_is_one_runs_alone() {
    let directory = tempfile::tempdir().unwrap();
    let beside = Beside::start(directory.path());
    let first = beside.open("first").unwrap();
    let refused = |wait: Duration| {
        let begin = Instant::now();
        let why = beside.open("second").err().expect("it was taken");
        assert!(why.contains("another run") && begin.elapsed() < wait, "{why} {:?}", begin.elapsed());
    };
    // The holder lives, whether it renews the claim or not.
    std::thread::sleep(Duration::from_secs(5));
    refused(Duration::from_millis(200));
    // A claim that was passed on, or that is held on another machine, is waited for.
    first.pass_on();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                first.tend().unwrap();
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        refused(Duration::from_secs(4));
        is_over.store(true, SeqCst);
    });
    drop(first);
    assert_eq!(beside.claim(), "");
    let begin = Instant::now();
    drop(beside.open("third").unwrap());
    assert!(begin.elapsed() < Duration::from_secs(1));
}

/// A killed run delays the next one until none of its requests can be executed any more. A run on another
/// machine may just be slow.
#[test]
fn the_claim_of_an_ended_process_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let beside = Beside::start(directory.path());
    drop(beside.open("first").unwrap());
    let kept = beside.open("second").unwrap();
    let claim = beside.claim();
    drop(kept);
    let ours = format!(" {} ", std::process::id());
    assert!(claim.contains(&ours), "{claim}");
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    beside.set_claim(&claim.replace("second", "killed").replace(&ours, &format!(" {} ", child.id())));
    let begin = Instant::now();
    drop(beside.open("third").unwrap());
    assert!((10..13).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    let is_said = |words: &[&str]| {
        let said = beside.words();
        assert!(said.len() == 1 && words.iter().all(|word| said[0].contains(word)), "{said:?}");
    };
    is_said(&["was killed", "10 seconds"]);
    // Whether a run on another machine lives is unknown, and a few seconds do not decide it.
    beside.set_claim("memfold spills here\nrun far\n7\nelsewhere 1 2 3\n");
    let begin = Instant::now();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(6));
            assert!(!done.load(SeqCst), "it was taken");
            beside.set_claim("memfold spills here\nrun far\n8\nelsewhere 1 2 3\n");
        });
        assert!(beside.open("fourth").err().is_some_and(|why| why.contains("another run")));
        done.store(true, SeqCst);
    });
    is_said(&["another machine", "30 seconds"]);
    assert!(begin.elapsed() < Duration::from_secs(10));
}

/// A server may execute a request after the end of its sender; the request must not affect the next run.
#[test]
fn unanswered_requests_are_executed_before_the_next_run() {
    std::thread::scope(|scope| {
        for is_trim in [false, true] {
            scope.spawn(move || {
                let port = port();
                let number = port.to_string();
                let _server = Server::start("nbdkit", &["--foreground", "-p", &number, "memory", "1M"]);
                let late = Late::before(port);
                let open = |port: u16, run: &str| {
                    let target: Target = format!("nbd://127.0.0.1:{port}").parse().unwrap();
                    target.open(run, terms(None, DEADLINE))
                };
                until("nbdkit", || open(port, &format!("asks-{is_trim}")).is_ok());
                let first = open(late.port, &format!("sends-{is_trim}")).unwrap();
                first.put(1, &[1; 4096]).unwrap();
                late.hold_back_one();
                let answer = if is_trim { first.delete(&[1]) } else { first.put(2, &[2; 4096]) };
                // A put is retried on other units.
                assert!(answer.is_ok() != is_trim, "{answer:?}");
                drop(first);
                let second = open(port, &format!("comes-after-{is_trim}")).unwrap();
                (0..20).for_each(|batch| second.put(batch, &[100 + batch as u8; 4096]).unwrap());
                late.wait_until_delivered();
                std::thread::sleep(Duration::from_millis(500));
                let is_right = |batch| read(&*second, batch, 0, 4096) == Ok(vec![100 + batch as u8; 4096]);
                assert!((0..20).all(is_right));
            });
        }
    });
}

/// A run that has lost its export to another neither writes nor trims there, whether it has noticed the loss
/// or not.
#[test]
fn an_export_that_another_run_has_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let beside = Beside::start(directory.path());
    for notices in [true, false] {
        let first = beside.open("first").unwrap();
        (0..8).for_each(|batch| first.put(batch, &bytes(batch, 100_000)).unwrap());
        // As if the first run had been away for long.
        beside.set_claim("");
        let second = beside.open("second").unwrap();
        (0..8).for_each(|batch| second.put(batch, &bytes(100 + batch, 100_000)).unwrap());
        std::thread::sleep(Duration::from_millis(if notices { 1100 } else { 3100 }));
        if notices {
            assert!(matches!(first.tend(), Err(Trouble::Unfit(_))));
        }
        // The first run has nothing on the export any more.
        assert_eq!(first.delete(&[0, 1, 2, 3]), Ok(()));
        assert!(matches!(first.put(9, &[1; 100]), Err(Trouble::Unfit(_))));
        assert!(matches!(first.probe(), Err(Trouble::Unfit(_))));
        first.delete(&[4, 5, 6, 7]).unwrap();
        drop(first);
        second.tend().unwrap();
        for batch in 0..8 {
            assert!(read(&*second, batch, 0, 100_000).unwrap() == bytes(100 + batch, 100_000));
        }
    }
}

/// A run whose tier is away renews its claim with each probe.
#[test]
fn a_probe_keeps_the_claim() {
    let directory = tempfile::tempdir().unwrap();
    let beside = Beside::start(directory.path());
    let tier = beside.open("first").unwrap();
    let before = beside.claim();
    tier.probe().unwrap();
    assert_ne!(beside.claim(), before);
}

#[test]
fn a_connection_that_is_cut_is_made_anew() {
    let port = port();
    let number = port.to_string();
    let _server = Server::start("nbdkit", &["--foreground", "-p", &number, "memory", "8M"]);
    let cut = Cut::before(port);
    let uri = format!("nbd://127.0.0.1:{}", cut.port);
    let tier = open_when_up(&uri);
    tier.put(1, &bytes(1, 100_000)).unwrap();
    for bytes_more in [1000, 60_000] {
        // The limit is for all connections together.
        cut.after(bytes_more);
        assert!(matches!(tier.put(2, &bytes(2, 100_000)), Err(Trouble::Away(_))));
        cut.after(usize::MAX);
        assert!(read(&*tier, 1, 0, 100_000).unwrap() == bytes(1, 100_000));
        cut.after(bytes_more);
        assert!(matches!(read(&*tier, 1, 0, 100_000), Err(Trouble::Away(_))));
        cut.after(usize::MAX);
        tier.put(2, &bytes(2, 100_000)).unwrap();
        assert!(read(&*tier, 2, 0, 100_000).unwrap() == bytes(2, 100_000));
    }
}

#[test]
fn a_full_export_is_full_until_something_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let server = Nbdkit::start(directory.path(), &["memory", "1028K"]);
    let tier = open(&server.uri);
    (0..4).for_each(|batch| tier.put(batch, &bytes(batch, 256 << 10)).unwrap());
    assert_eq!(tier.put(4, &[1]), Err(Trouble::Full));
    tier.delete(&[1]).unwrap();
    tier.put(4, &bytes(4, 1000)).unwrap();
    assert!(read(&*tier, 3, 0, 256 << 10).unwrap() == bytes(3, 256 << 10));
    // A server whose disk is full reports that itself.
    let is_full = directory.path().join("is_full");
    let when = format!("error-pwrite-file={}", is_full.display());
    let words = ["--filter=error", "memory", "1M", "error-pwrite=ENOSPC", "error-pwrite-rate=100%", &when];
    let server = Nbdkit::start(directory.path(), &words);
    let tier = open(&server.uri);
    std::fs::write(&is_full, "").unwrap();
    assert_eq!(tier.put(1, &[1]), Err(Trouble::Full));
    // The claim cannot be removed, but its run has ended.
    drop(tier);
    assert!(refusal(&server.uri).contains("full"));
}

#[test]
fn unusable_exports_are_refused_with_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let server = Nbdkit::start(directory.path(), &["-r", "memory", "1M"]);
    assert!(refusal(&server.uri).contains("-r"));
    assert!(refusal("nbd+unix:///?socket=/no/such").contains("/no/such"));
    assert!(refusal(&format!("nbd://127.0.0.1:{}", port())).contains("refused"));
}

#[test]
fn with_tls() {
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("keys.psk");
    let key = "memfold:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n";
    std::fs::write(&keys, key).unwrap();
    let psk = format!("--tls-psk={}", keys.display());
    let server = Nbdkit::start(directory.path(), &["--tls=require", &psk, "memory", "64M"]);
    let uri =
        format!("nbds+unix://memfold@/?socket={}&tls-psk-file={}", server.socket.display(), keys.display());
    exercise(&*open(&uri), 50);
    // Without TLS it is refused.
    assert!(!refusal(&server.uri).is_empty());
}
