//! The backing device: what goes there, and what happens when it fails.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::room::noise;
use super::{P, Random, kept, options};
use crate::{BackingFile, BadOption, Disk, Error, Options, PAGE};

fn backed(place: &Path, size: Option<u64>, limit: u64) -> (Options, PathBuf) {
    let path = place.join("backing");
    let mut options = options(1 << 30);
    options.limit = limit;
    options.backing = Some(BackingFile { path: path.clone(), size });
    (options, path)
}

/// Writes pages of noise until one is refused, or there are so many.
fn fill(disk: &Disk, most: u64) -> u64 {
    let mut random = Random(1);
    (0..most).find(|&page| disk.write(page * P, &noise(&mut random)) == Err(Error::Full)).unwrap_or(most)
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
    let (options, path) = backed(place.path(), None, 16 << 20);
    let disk = Disk::new(options).unwrap();
    assert_eq!(fill(&disk, 16_000), 16_000);
    let stats = disk.stats();
    assert!(stats.peak_memory_bytes <= 16 << 20 && stats.spilled_bytes > 48 << 20, "{stats:?}");
    check(&disk, 16_000);
    assert!(disk.stats().spill_faults > 10_000);
    // Without its name it is still there.
    fs::remove_file(&path).unwrap();
    check(&disk, 16_000);
    disk.trim(0, 16_000 * P).unwrap();
    assert_eq!((disk.stats().backing_bytes, disk.stats().spilled_bytes), (0, 0));
    assert_eq!(fill(&disk, 16_000), 16_000);
}

#[test]
fn a_full_backing_device_is_a_full_device() {
    let place = tempfile::tempdir().unwrap();
    let (options, _) = backed(place.path(), Some(8 << 20), 16 << 20);
    let disk = Disk::new(options).unwrap();
    let pages = fill(&disk, 16_000);
    assert!((16 << 20..24 << 20).contains(&(pages * P)), "{pages}");
    assert_eq!(disk.stats().backing_bytes, 8 << 20);
    check(&disk, pages);
    disk.trim(0, 512 * P).unwrap();
    disk.write(5 * P, &noise(&mut Random(9))).unwrap();
}

#[test]
fn what_does_not_compress_goes_there_when_it_is_cold() {
    let place = tempfile::tempdir().unwrap();
    let (options, path) = backed(place.path(), None, 1 << 30);
    let (disk, keeper) = kept(Disk::new(options).unwrap());
    fill(&disk, 100);
    disk.write(200 * P, &[b"some text of which there is more than once. ".as_slice(); 1000].concat())
        .unwrap();
    let begun = Instant::now();
    while disk.stats().spilled_bytes < 100 * P {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", disk.stats());
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(disk.stats().spilled_bytes, 100 * P);
    // What is read often comes back to stay.
    (0..3).for_each(|_| check(&disk, 100));
    assert!(disk.stats().spilled_bytes < 100 * P);
    drop(keeper);
    drop(disk);
    assert!(!path.exists());
}

#[test]
fn a_backing_device_that_lies_or_is_gone_is_an_error_and_never_data() {
    let place = tempfile::tempdir().unwrap();
    let (options, path) = backed(place.path(), None, 16 << 20);
    let disk = Disk::new(options).unwrap();
    fill(&disk, 8000);
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let count = file.metadata().unwrap().len() / P;
    // A bit, another page, nothing at all.
    let mut page = [0; PAGE];
    file.read_exact_at(&mut page, 10 * P).unwrap();
    page[100] ^= 1;
    file.write_all_at(&page, 10 * P).unwrap();
    file.read_exact_at(&mut page, 12 * P).unwrap();
    file.write_all_at(&page, 11 * P).unwrap();
    file.set_len((count - 100) * P).unwrap();
    let mut random = Random(1);
    let (mut good, mut damaged, mut gone) = (0, 0, 0);
    for page in 0..8000 {
        let mut back = [0; PAGE];
        let wanted = noise(&mut random);
        match disk.read(page * P, &mut back) {
            Ok(()) => {
                assert!(back == wanted, "{page}");
                good += 1;
            }
            Err(Error::Damaged { offset }) if offset == page * P => damaged += 1,
            Err(Error::Backing { offset, .. }) if offset == page * P => gone += 1,
            Err(error) => panic!("{error}"),
        }
    }
    // In the part that was cut off there is what was given back meanwhile, too.
    assert!(good > 7000 && damaged >= 2 && gone > 0, "{good} {damaged} {gone}");
    fill(&disk, 8000);
    check(&disk, 8000);
}

#[test]
fn only_what_is_empty_is_taken() {
    let place = tempfile::tempdir().unwrap();
    let (options, path) = backed(place.path(), None, 1 << 30);
    fs::write(&path, "a letter").unwrap();
    assert!(matches!(Disk::new(options.clone()), Err(BadOption::Backing(..))));
    assert_eq!(fs::read(&path).unwrap(), b"a letter");
    fs::write(&path, "").unwrap();
    drop(Disk::new(options.clone()).unwrap());
    // It was there before.
    assert!(path.exists());
    let mut nowhere = options;
    nowhere.backing = Some(BackingFile { path: place.path().join("no/such/place"), size: None });
    assert!(matches!(Disk::new(nowhere), Err(BadOption::Backing(..))));
}

#[test]
fn two_devices_cannot_have_one_file_and_only_ones_own_is_removed() {
    let place = tempfile::tempdir().unwrap();
    let (options, path) = backed(place.path(), None, 64 << 20);
    std::fs::write(&path, b"").unwrap();
    let first = Disk::new(options.clone()).unwrap();
    let second = Disk::new(options.clone()).err().unwrap().to_string();
    assert!(second.contains("another device uses it"), "{second}");
    drop(first);
    assert!(path.exists(), "it was there before");
    std::fs::remove_file(&path).unwrap();
    let first = Disk::new(options.clone()).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, b"somebody else's").unwrap();
    drop(first);
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody else's");
    std::fs::remove_file(&path).unwrap();
    let first = Disk::new(options).unwrap();
    first.end();
    assert!(!path.exists());
    std::fs::write(&path, b"of the next").unwrap();
    drop(first);
    assert!(path.exists());
}
