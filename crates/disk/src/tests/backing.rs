//! Tests of the backing device: what is spilled to it, and what happens when it fails.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use memfold_spill::Target;

use super::room::noise;
use super::{P, Random, kept, options};
use crate::{BackingTier, Disk, Error, Options, PAGE};

fn backed(target: &Path, size: Option<u64>, limit: u64) -> Options {
    let mut options = options(1 << 30);
    options.limit = limit;
    options.backing = Some(BackingTier { target: Target::File(target.to_owned()), size });
    options
}

/// Writes pages of noise until one is refused, or until there are this many.
fn fill(disk: &Disk, most: u64) -> u64 {
    let mut random = Random(1);
    (0..most).find(|&page| disk.write(page * P, &noise(&mut random)) == Err(Error::Full)).unwrap_or(most)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
        thread::sleep(Duration::from_millis(20));
    }
}

fn check(disk: &Disk, pages: u64) {
    let mut random = Random(1);
    for page in 0..pages {
        let mut back = [0; PAGE];
        disk.read(page * P, &mut back).unwrap();
        assert!(back == noise(&mut random), "{page}");
    }
}

#[test]
fn past_the_limit_blocks_go_to_the_backing_device() {
    let place = tempfile::tempdir().unwrap();
    let options = backed(place.path(), None, 16 << 20);
    let disk = Disk::new(options).unwrap();
    assert_eq!(fill(&disk, 16_000), 16_000);
    let stats = disk.stats();
    assert!(stats.peak_memory_bytes <= 16 << 20 && stats.spilled_bytes > 48 << 20, "{stats:?}");
    check(&disk, 16_000);
    assert!(disk.stats().spill_faults > 10_000);
    // The file has no name.
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    disk.trim(0, 16_000 * P).unwrap();
    assert_eq!(disk.stats().spilled_bytes, 0);
    until("what is trimmed is deleted", || disk.stats().backing_bytes < 1 << 20);
    assert_eq!(fill(&disk, 16_000), 16_000);
}

#[test]
fn a_full_backing_device_is_a_full_device() {
    let place = tempfile::tempdir().unwrap();
    let options = backed(place.path(), Some(8 << 20), 16 << 20);
    let disk = Disk::new(options).unwrap();
    let pages = fill(&disk, 16_000);
    assert!((16 << 20..24 << 20).contains(&(pages * P)), "{pages}");
    let used = disk.stats().backing_bytes;
    assert!((7 << 20..=8 << 20).contains(&used), "{used}");
    check(&disk, pages);
    disk.trim(0, 512 * P).unwrap();
    disk.write(5 * P, &noise(&mut Random(9))).unwrap();
    // No room is lost to batches of which little is still needed: most of the data are rewritten repeatedly.
    let mut random = Random(3);
    for _ in 0..20_000 {
        let page = 512 + random.below(pages - 512);
        let _ = disk.write(page * P, &noise(&mut random));
    }
    let mut buffer = [0; PAGE];
    (0..pages).for_each(|page| disk.read(page * P, &mut buffer).unwrap());
}

#[test]
fn cold_incompressible_blocks_go_to_the_backing_device() {
    let place = tempfile::tempdir().unwrap();
    let options = backed(place.path(), None, 1 << 30);
    let (disk, keeper) = kept(Disk::new(options).unwrap());
    fill(&disk, 100);
    disk.write(200 * P, &[b"some text of which there is more than once. ".as_slice(); 1000].concat())
        .unwrap();
    until("it is cold", || disk.stats().spilled_bytes >= 100 * P);
    assert_eq!(disk.stats().spilled_bytes, 100 * P);
    // Pages that are read often stay in memory.
    (0..3).for_each(|_| check(&disk, 100));
    assert!(disk.stats().spilled_bytes < 100 * P);
    drop(keeper);
}

/// The unnamed file of a device.
fn file_of(place: &Path) -> std::fs::File {
    let place = fs::canonicalize(place).unwrap();
    let own = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let mut found = own.filter(|fd| fs::read_link(fd).is_ok_and(|target| target.starts_with(&place)));
    OpenOptions::new().read(true).write(true).open(found.next().expect("no file is open there")).unwrap()
}

#[test]
fn a_backing_device_that_lies_or_is_gone_is_an_error_and_never_data() {
    let place = tempfile::tempdir().unwrap();
    let disk = Disk::new(backed(place.path(), None, 16 << 20)).unwrap();
    fill(&disk, 8000);
    // Data in flight are still in memory, and can be read even after the file is damaged.
    until("all that was sent is there", || {
        disk.stats().backing_bytes + (1 << 20) > disk.stats().spilled_bytes
    });
    let file = file_of(place.path());
    let count = file.metadata().unwrap().len() / P;
    // A flipped bit, the content of another page, no data.
    let mut page = [0; PAGE];
    file.read_exact_at(&mut page, 10 * P).unwrap();
    page[100] ^= 1;
    file.write_all_at(&page, 10 * P).unwrap();
    file.read_exact_at(&mut page, 12 * P).unwrap();
    file.write_all_at(&page, 11 * P).unwrap();
    file.set_len((count - 100) * P).unwrap();
    let mut random = Random(1);
    let (mut good, mut lost) = (0, 0);
    for page in 0..8000 {
        let mut back = [0; PAGE];
        let wanted = noise(&mut random);
        match disk.read(page * P, &mut back) {
            Ok(()) => {
                assert!(back == wanted, "{page}");
                good += 1;
            }
            Err(Error::Backing { offset, is_lost: true }) if offset == page * P => lost += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(good > 7000 && lost >= 2, "{good} {lost}");
    fill(&disk, 8000);
    check(&disk, 8000);
}

#[test]
fn a_backing_file_must_not_exist_yet() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a letter");
    fs::write(&path, "dear").unwrap();
    let refused = |path: &Path| Disk::new(backed(path, None, 1 << 30)).err().unwrap().to_string();
    assert!(refused(&path).contains("already exists"));
    assert_eq!(fs::read(&path).unwrap(), b"dear");
    assert!(refused(&place.path().join("no/such/place")).contains("cannot be the backing device"));
}
