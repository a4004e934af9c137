//! The NBD tier with nbdkit.

use std::time::{Duration, Instant};

use super::common::*;
use super::started::*;
use memfold_spill::{Target, Trouble};

#[test]
fn batches_come_back_and_are_trimmed() {
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
fn a_server_that_dies_is_away_and_may_come_back() {
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
    // One that was idle when the server died, and starts anew, is no trouble.
    server.restart();
    tier.put(2, &bytes(2, 100_000)).unwrap();
    assert!(read(&*tier, 2, 0, 100_000).unwrap() == bytes(2, 100_000));
    // Of what was never sent nothing is to be feared.
    assert_eq!(tier.room().used, 2 * 102_400);
    // What comes back with another disk is not taken for the same.
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
        // All of them: it is not waited for each.
        &|| tier.delete(&[0, 2, 4, 6]),
        &|| tier.probe(),
    ] {
        let begin = Instant::now();
        assert!(matches!(call(), Err(Trouble::Away(_))));
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    }
    server.stop_for_now(false);
    // Its connections are given up, others work.
    tier.put(10, &bytes(10, 10_000)).unwrap();
    tier.delete(&[0, 2, 4, 6]).unwrap();
    for batch in [1, 3, 5, 7, 10] {
        assert!(read(&*tier, batch, 0, 10_000).unwrap() == bytes(batch, 10_000));
    }
}

/// A request that was not answered is done a second later. What was put meanwhile stays what it is.
#[test]
fn a_late_request_hits_nobody() {
    for is_trim in [false, true] {
        let port = port();
        let number = port.to_string();
        let _server = Server::start("nbdkit", &["--foreground", "-p", &number, "memory", "1M"]);
        let late = Late::before(port);
        let uri = format!("nbd://127.0.0.1:{}", late.port);
        until("nbdkit", || uri.parse::<Target>().unwrap().open("test", terms(None, DEADLINE)).is_ok());
        let tier = open(&uri);
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
fn what_a_server_refuses_costs_no_room() {
    let directory = tempfile::tempdir().unwrap();
    let refuses = directory.path().join("refuses");
    let when = format!("error-file={}", refuses.display());
    let words = ["--filter=error", "memory", "1028K", "error=EIO", "error-rate=100%", &when];
    let server = Nbdkit::start(directory.path(), &words);
    let tier = open(&server.uri);
    for _ in 0..3 {
        (0..4).for_each(|batch| tier.put(batch, &bytes(batch, 256 << 10)).unwrap());
        std::fs::write(&refuses, "").unwrap();
        // It has answered: nothing of it comes later.
        tier.delete(&[1, 2, 3]).unwrap();
        assert!(matches!(tier.put(5, &bytes(5, 1000)), Err(Trouble::Away(_))));
        assert!(matches!(read(&*tier, 0, 0, 1000), Err(Trouble::Away(_))));
        std::fs::remove_file(&refuses).unwrap();
        assert!(read(&*tier, 0, 0, 1000).unwrap() == bytes(0, 256 << 10)[..1000]);
        tier.delete(&[0]).unwrap();
        assert_eq!(tier.room().used, 0);
    }
}

#[test]
fn what_could_not_be_deleted_can_be_later() {
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

#[test]
fn an_export_is_one_runs_alone() {
    let directory = tempfile::tempdir().unwrap();
    let server = Nbdkit::start(directory.path(), &["memory", "4M"]);
    let target: Target = server.uri.parse().unwrap();
    let first = target.open("first", terms(None, DEADLINE)).unwrap();
    let (is_over, begin) = (std::sync::atomic::AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                first.tend().unwrap();
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let refused = target.open("second", terms(None, DEADLINE)).err().expect("it was taken");
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(refused.to_string().contains("another run"), "{refused}");
    });
    assert!(begin.elapsed() < Duration::from_secs(4));
    // One that nobody renews is left to the next; the first finds out, and writes nothing more.
    let second = target.open("second", terms(None, DEADLINE)).unwrap();
    assert!(matches!(first.tend(), Err(Trouble::Unfit(_))));
    assert!(matches!(first.put(1, &[1; 100]), Err(Trouble::Unfit(_))));
    second.put(1, &bytes(1, 100)).unwrap();
    // Its end takes nothing away, and after the other's nobody waits.
    drop(first);
    second.tend().unwrap();
    drop(second);
    let begin = Instant::now();
    drop(target.open("third", terms(None, DEADLINE)).unwrap());
    assert!(begin.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_connection_that_is_cut_is_made_anew() {
    let port = port();
    let number = port.to_string();
    let _server = Server::start("nbdkit", &["--foreground", "-p", &number, "memory", "8M"]);
    let cut = Cut::before(port);
    let uri = format!("nbd://127.0.0.1:{}", cut.port);
    until("nbdkit", || uri.parse::<Target>().unwrap().open("test", terms(None, DEADLINE)).is_ok());
    let tier = open(&uri);
    tier.put(1, &bytes(1, 100_000)).unwrap();
    for bytes_more in [1000, 60_000] {
        // All connections together get no further.
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
    // And one whose disk has no room says so itself.
    let is_full = directory.path().join("is_full");
    let when = format!("error-pwrite-file={}", is_full.display());
    let words = ["--filter=error", "memory", "1M", "error-pwrite=ENOSPC", "error-pwrite-rate=100%", &when];
    let server = Nbdkit::start(directory.path(), &words);
    let tier = open(&server.uri);
    std::fs::write(&is_full, "").unwrap();
    assert_eq!(tier.put(1, &[1]), Err(Trouble::Full));
    assert!(refusal(&server.uri).contains("full"));
}

#[test]
fn what_can_not_be_used_is_refused_with_what_to_do() {
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
    // Not without.
    assert!(!refusal(&server.uri).is_empty());
}
