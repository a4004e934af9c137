//! Tests of the file tier on a new file.

use super::*;
use std::os::unix::fs::MetadataExt;

fn terms(most: u64) -> Terms {
    Terms { most: Some(most), ..Terms::default() }
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| ((at * 31 + seed * 7919) >> 3) as u8).collect()
}

fn on_disk(tier: &FileTier) -> u64 {
    tier.file.metadata().unwrap().blocks() * 512
}

#[test]
fn a_file_keeps_what_it_is_given_and_nothing_else() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("spilled");
    for path in [directory.path(), &path] {
        let tier = FileTier::open(path, terms(1 << 20)).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "it has a name");
        assert_eq!(tier.file.metadata().unwrap().mode() & 0o777, 0o600);
        let sizes = [1, 4095, 4096, 4097, 65536, 200_000];
        for (number, size) in (0..).zip(sizes) {
            tier.put(number, &bytes(number, size)).unwrap();
        }
        for (number, size) in (0..).zip(sizes) {
            let all = bytes(number, size);
            for from in [0, 1, 4095, 4096, size / 2].into_iter().filter(|from| *from < size) {
                for len in [0, 1, 4096, size - from].into_iter().filter(|len| from + len <= size) {
                    let mut into = vec![0; len];
                    tier.get(number, from as u32, &mut into).unwrap();
                    assert!(into == all[from..from + len]);
                }
            }
            let mut into = vec![0; size];
            assert_eq!(tier.get(number, 1, &mut into), Err(Trouble::Lost));
            assert_eq!(tier.get(99, 0, &mut into), Err(Trouble::Lost));
        }
        // A second put replaces the first.
        tier.put(3, &bytes(33, 5000)).unwrap();
        let mut into = vec![0; 5000];
        tier.get(3, 0, &mut into).unwrap();
        assert!(into == bytes(33, 5000));
        assert!(on_disk(&tier) >= 270_000);
        tier.delete(&[0, 1, 2, 3, 4, 5, 77]).unwrap();
        assert_eq!((tier.room().used, on_disk(&tier)), (0, 0));
    }
}

#[test]
fn places_are_used_again_and_little_is_kept_for_that() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let tier = FileTier::open(directory.path(), terms(1 << 20)).unwrap();
    let mut there: Vec<(u64, usize)> = Vec::new();
    let mut seed = 7_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % below
    };
    let (mut puts, mut full) = (0, 0);
    for number in 0..2000 {
        let size = [1 + random(60_000), 60_000, 64_000][random(3)];
        if random(5) < 3 {
            match tier.put(number, &bytes(number, size)) {
                Ok(()) => there.push((number, size)),
                Err(trouble) => {
                    assert_eq!(trouble, Trouble::Full);
                    full += 1;
                }
            }
            puts += 1;
        } else if !there.is_empty() {
            tier.delete(&[there.swap_remove(random(there.len())).0]).unwrap();
        }
        let used: u64 = there.iter().map(|(_, size)| (*size as u64).div_ceil(4096) * 4096).sum();
        assert_eq!(tier.room().used, used);
        assert!(on_disk(&tier) <= used + used / SPARE + 4096, "{} of {used}", on_disk(&tier));
        if let Some(at) = there.len().checked_sub(1) {
            let (number, size) = there[random(at + 1)];
            let mut into = vec![0; size];
            tier.get(number, 0, &mut into).unwrap();
            assert!(into == bytes(number, size));
            // Reads the file as another process does.
            let mut begins = vec![0; 4096.min(size)];
            let at = tier.place(number).unwrap() * 4096;
            tier.with_buffer(4096, |buffer| {
                tier.file.read_exact_at(buffer, at).unwrap();
                begins.copy_from_slice(&buffer[..4096.min(size)]);
            });
            assert!(begins == into[..4096.min(size)]);
        }
    }
    assert!(full > 50 && puts > full * 2, "{full} of {puts}");
    tier.delete(&there.iter().map(|(number, _)| *number).collect::<Vec<_>>()).unwrap();
    assert_eq!((tier.room().used, on_disk(&tier)), (0, 0));
}

#[test]
fn full_is_full_until_something_is_deleted() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let tier = FileTier::open(directory.path(), terms(1 << 20)).unwrap();
    for number in 0..4 {
        tier.put(number, &bytes(number, 256 << 10)).unwrap();
    }
    assert_eq!(tier.put(4, &[0]), Err(Trouble::Full));
    tier.delete(&[2]).unwrap();
    tier.put(4, &bytes(4, 256 << 10)).unwrap();
    for number in [0, 1, 3, 4] {
        let mut into = vec![0; 256 << 10];
        tier.get(number, 0, &mut into).unwrap();
        assert!(into == bytes(number, 256 << 10));
    }
    assert_eq!(tier.room(), Room { used: 1 << 20, most: 1 << 20 });
}

/// A tier on another file, through the page cache.
fn with(file: File) -> FileTier {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let tier = FileTier::open(directory.path(), terms(1 << 20)).unwrap();
    FileTier { file, is_direct: AtomicBool::new(false), ..tier }
}

#[test]
fn a_batch_that_did_not_reach_the_medium_was_not_put() {
    // `/dev/null` accepts everything, and cannot be synchronised.
    let tier = with(OpenOptions::new().read(true).write(true).open("/dev/null").unwrap());
    assert!(matches!(tier.put(1, &bytes(1, 5000)), Err(Trouble::Away(_))));
    assert_eq!(tier.get(1, 0, &mut [0]), Err(Trouble::Lost));
    // It cannot make holes, either.
    assert!(!tier.makes_holes.load(Relaxed));
}

#[test]
fn a_hole_that_could_not_be_made_once_may_be_later() {
    let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    let tier = with(File::open(file.path()).unwrap());
    assert!(matches!(tier.put(1, &bytes(1, 5000)), Err(Trouble::Away(_))));
    assert_eq!((tier.room().used, tier.makes_holes.load(Relaxed)), (0, true));
}

#[test]
fn unsuitable_places_are_refused() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let there = directory.path().join("there");
    fs::write(&there, "mine").unwrap();
    let refused = |path: &Path| FileTier::open(path, terms(1 << 20)).err().map(|bad| bad.0);
    assert!(refused(&there).unwrap().contains("already exists"));
    assert_eq!(fs::read_to_string(&there).unwrap(), "mine");
    assert!(refused(Path::new("/dev/shm")).unwrap().contains("/var/tmp"));
    assert!(refused(&directory.path().join("no/such")).is_some());
    assert!(refused(Path::new("/dev/null")).is_some());
    let none = FileTier::open(directory.path(), terms(4095)).err().unwrap();
    assert!(none.0.contains("no room"));
}
