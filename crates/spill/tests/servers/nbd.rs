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
    assert_eq!(tier.room().most, 64 << 20);
    exercise(&*tier, 300);
    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(&disk).unwrap().blocks(), 0, "what was deleted is still there");
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
    // Where the first 2 was to be written, a late request may still do so.
    assert_eq!(tier.room().used, 3 * 102_400);
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
    let server = Nbdkit::start(directory.path(), &["--filter=delay", "memory", "8M", "rdelay=3"]);
    let short = terms(None, Duration::from_millis(300));
    let tier = server.uri.parse::<Target>().unwrap().open("test", short).unwrap();
    tier.put(1, &bytes(1, 10_000)).unwrap();
    let begin = Instant::now();
    assert!(matches!(read(&*tier, 1, 0, 100), Err(Trouble::Away(_))));
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    // Its connection is given up, others work.
    tier.put(2, &bytes(2, 10_000)).unwrap();
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
    let server = Nbdkit::start(directory.path(), &["memory", "1M"]);
    let tier = open(&server.uri);
    (0..4).for_each(|batch| tier.put(batch, &bytes(batch, 256 << 10)).unwrap());
    assert_eq!(tier.put(4, &[1]), Err(Trouble::Full));
    tier.delete(&[1]).unwrap();
    tier.put(4, &bytes(4, 1000)).unwrap();
    assert!(read(&*tier, 3, 0, 256 << 10).unwrap() == bytes(3, 256 << 10));
    // And one whose disk has no room says so itself.
    let server = Nbdkit::start(
        directory.path(),
        &["--filter=error", "memory", "1M", "error-pwrite=ENOSPC", "error-pwrite-rate=100%"],
    );
    assert_eq!(open(&server.uri).put(1, &[1]), Err(Trouble::Full));
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
