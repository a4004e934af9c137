//! One thread performs the same operations on a device and on an array.

use super::{P, Random, options};
use crate::{BackingTier, Disk, Error, PAGE};

struct Model {
    disk: Disk,
    bytes: Vec<u8>,
    random: Random,
    /// The directory of the backing file, if there is one.
    _place: Option<tempfile::TempDir>,
}

impl Model {
    fn new(size: usize, seed: u64, block_pages: usize, resident: u64, more: More) -> Self {
        let mut options = options(size as u64);
        options.share = more == More::Shared;
        let place = (more == More::Backed).then(|| tempfile::tempdir().unwrap());
        let file = |place: &tempfile::TempDir| BackingTier {
            target: memfold_spill::Target::File(place.path().join("backing")),
            size: None,
        };
        options.backing = place.as_ref().map(file);
        (options.block_pages, options.resident) = (block_pages, Some(resident));
        Model { disk: Disk::new(options).unwrap(), bytes: vec![0; size], random: Random(seed), _place: place }
    }

    /// A random range: mostly whole pages and blocks, and mostly close to each other.
    fn range(&mut self) -> std::ops::Range<usize> {
        let size = self.bytes.len() as u64;
        let random = &mut self.random;
        let begin = random.below(size);
        let begin = if random.below(3) == 0 { begin } else { begin / P * P };
        let begin = if random.below(2) == 0 { begin } else { begin % (64 * P) };
        let len = match random.below(6) {
            0 => random.below(600) + 1,
            1 => random.below(20 * P),
            2 => 4 * P,
            _ => P,
        };
        let end = (begin + len).min(size);
        begin as usize..end as usize
    }

    fn step(&mut self) {
        let range = self.range();
        let (offset, len) = (range.start as u64, range.len());
        match self.random.below(12) {
            0..5 => {
                let mut bytes = vec![0; len];
                for page in bytes.chunks_mut(PAGE) {
                    let from = self.random.below((self.bytes.len() / PAGE) as u64) as usize * PAGE;
                    match self.bytes.get(from..from + page.len()) {
                        // The content of another page, so that pages can be shared.
                        Some(there) if self.random.below(4) == 0 => page.copy_from_slice(there),
                        _ => self.random.fill(page),
                    }
                }
                self.disk.write(offset, &bytes).unwrap();
                self.bytes[range].copy_from_slice(&bytes);
            }
            5..8 => {
                let mut bytes = vec![0xa5; len];
                self.disk.read(offset, &mut bytes).unwrap();
                assert!(bytes == self.bytes[range.clone()], "{range:?}");
            }
            8 => {
                self.disk.trim(offset, len as u64).unwrap();
                self.bytes[range].fill(0);
            }
            9 => {
                // Merge a few blocks, as the background thread does.
                let number = self.random.below(self.bytes.len() as u64 / P / 544 + 1);
                let first = self.random.below(544) as usize & !7;
                let mut making = crate::locked(&self.disk.making);
                for first in (first..first + 8).step_by(self.disk.layout.pages()) {
                    self.disk.merge_block(number, first, self.random.below(2) == 0, making.work());
                    if self.random.below(2) == 0 {
                        self.disk.spill_block(number, first, self.random.below(2) == 0, making.work());
                    }
                }
            }
            10 => {
                self.disk.compact(1 << 16);
            }
            _ => self.check_extents(offset, len as u64),
        }
    }

    /// Checks that holes are zeros, and that every page of zeros is a hole.
    fn check_extents(&self, offset: u64, len: u64) {
        let (mut at, end) = (offset, offset + len);
        let mut before = None;
        while let Some(extent) = self.disk.extent(at, end) {
            assert!(extent.offset == at && extent.len > 0 && Some(extent.is_hole) != before, "{extent:?}");
            let bytes = &self.bytes[at as usize..][..extent.len as usize];
            for (page, part) in bytes.chunks(PAGE).enumerate() {
                let whole = part.len() == PAGE && at.is_multiple_of(P);
                let zeros = part.iter().all(|&byte| byte == 0);
                assert!(!extent.is_hole || zeros, "{extent:?}, page {page}");
                assert!(!(whole && zeros) || extent.is_hole, "{extent:?}, page {page}");
            }
            (at, before) = (at + extent.len, Some(extent.is_hole));
        }
        assert_eq!(at, end);
    }

    fn check(&self) {
        let mut bytes = vec![0xa5; self.bytes.len()];
        self.disk.read(0, &mut bytes).unwrap();
        assert!(bytes == self.bytes);
        for (page, part) in bytes.chunks_mut(PAGE).enumerate() {
            part.fill(0xa5);
            self.disk.read(page as u64 * P, part).unwrap();
            assert!(*part == self.bytes[page * PAGE..][..part.len()], "page {page}");
        }
        self.check_extents(0, self.bytes.len() as u64);
        let used = self.bytes.chunks(PAGE).filter(|page| page.iter().any(|&byte| byte != 0)).count();
        let stats = self.disk.stats();
        assert_eq!(stats.logical_bytes, used as u64 * P);
        assert_eq!(stats.memory_bytes, stats.payload_bytes + stats.resident_bytes + stats.overhead_bytes);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum More {
    Nothing,
    Backed,
    Shared,
}

fn play(size: usize, seed: u64, block_pages: usize, resident: u64, more: More, steps: usize) {
    let mut model = Model::new(size, seed, block_pages, resident, more);
    for step in 0..steps {
        model.step();
        if step % (steps / 4) == 0 {
            model.check();
        }
    }
    model.check();
    let shared = model.disk.stats().shared_bytes;
    assert!(more != More::Shared || shared > 0, "{shared}");
    model.disk.condense().unwrap();
    assert!(model.disk.stats().dense_bytes > 0);
    model.check();
    let size = model.bytes.len() as u64;
    model.disk.trim(0, size).unwrap();
    model.bytes.fill(0);
    model.check();
    // Wait until data that are no longer needed are deleted from the backing device.
    let begin = std::time::Instant::now();
    while model.disk.stats().backing_bytes > 0 && begin.elapsed().as_secs() < 10 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let stats = model.disk.stats();
    assert_eq!((stats.index_bytes, stats.dense_bytes, stats.blobs), (0, 0, 0));
    assert_eq!((stats.spilled_bytes, stats.backing_bytes, stats.shared_bytes), (0, 0, 0));
    assert!(more != More::Backed || stats.spills > 10 && stats.spill_faults > 10, "{stats:?}");
}

#[test]
fn a_device_behaves_like_an_array() {
    for seed in 0..6 {
        play(700 * PAGE, seed, [2, 4, 8][seed as usize % 3], 1 << 20, More::Nothing, 3000);
    }
}

#[test]
fn a_device_that_shares_pages_behaves_like_an_array() {
    for seed in 0..3 {
        play(700 * PAGE, seed, [2, 4, 8][seed as usize % 3], 1 << 20, More::Shared, 3000);
    }
}

#[test]
fn a_device_with_a_backing_device_behaves_like_an_array() {
    for seed in 0..3 {
        play(700 * PAGE, seed, [2, 4, 8][seed as usize % 3], 1 << 20, More::Backed, 3000);
    }
}

#[test]
fn a_device_need_not_end_with_a_page() {
    play(544 * PAGE + 1, 7, 4, 0, More::Nothing, 1500);
    play(5 * PAGE - 100, 8, 8, 1 << 20, More::Nothing, 1500);
}

#[test]
fn the_largest_device_works_at_its_ends() {
    let size = i64::MAX as u64;
    let disk = Disk::new(options(size)).unwrap();
    let mut random = Random(1);
    let mut written = Vec::new();
    // Pages whose numbers agree in the bits that the store keeps.
    let near = |exponent: u32| (0..7).map(move |i| (i << exponent) + 4096);
    for offset in near(60).chain(near(52).skip(1)).chain([1 << 40, size - 10_000]) {
        let mut bytes = vec![0; 9000];
        bytes.chunks_mut(PAGE).for_each(|page| random.fill(page));
        disk.write(offset, &bytes).unwrap();
        written.push((offset, bytes));
    }
    let check = || {
        for (offset, bytes) in &written {
            let mut back = vec![0; bytes.len()];
            disk.read(*offset, &mut back).unwrap();
            assert!(back == *bytes, "{offset:#x}");
        }
    };
    check();
    disk.condense().unwrap();
    check();
    assert_eq!(disk.read(size - 10, &mut [0; 11]), Err(Error::Range));
    assert_eq!(disk.write(u64::MAX, &[0; 11]), Err(Error::Range));
    assert_eq!(disk.trim(1, u64::MAX), Err(Error::Range));
    assert!(disk.extent(1 << 59, size).unwrap().len > 1 << 58);
    disk.trim(0, size).unwrap();
    assert_eq!(disk.extent(0, size), Some(crate::Extent { offset: 0, len: size, is_hole: true }));
    assert_eq!(disk.stats().blobs, 0);
}
