//! Tests of limits: what is refused, and what is released.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{P, Random, about, kept, options};
use crate::{Disk, Error, Maintenance, PAGE};

pub fn noise(random: &mut Random) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()));
    page
}

/// Text that shrinks to about two fifths with lz4, and to less with zstd.
fn text(random: &mut Random) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    page.iter_mut().for_each(|byte| *byte = b'a' + (random.below(4) * random.below(4)) as u8);
    page
}

#[test]
fn at_the_limit_writes_are_refused_and_nothing_is_lost() {
    let mut options = options(256 << 20);
    options.limit = 32 << 20;
    let disk = Disk::new(options).unwrap();
    let mut random = Random(1);
    let mut written = 0;
    let refused = loop {
        match disk.write(written * P, &noise(&mut random)) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(disk.stats().memory_bytes <= 32 << 20);
    };
    assert_eq!(refused, Error::Full);
    assert!(written * P > 20 << 20, "{written}");
    // Existing data can still be read, and rewritten in place.
    let mut random = Random(1);
    for page in 0..written {
        let mut back = [0; PAGE];
        disk.read(page * P, &mut back).unwrap();
        assert!(back == noise(&mut random), "{page}");
    }
    for page in 0..written {
        disk.write(page * P, &noise(&mut random)).unwrap();
    }
    assert!(disk.stats().peak_memory_bytes <= 32 << 20);
    // After a trim there is room again.
    disk.trim(0, 64 * P).unwrap();
    for page in 0..60 {
        disk.write((written + page) * P, &noise(&mut random)).unwrap();
    }
}

#[test]
fn before_anything_is_refused_all_is_made_denser() {
    let written = |dense: bool| {
        let mut options = options(1 << 30);
        options.limit = 24 << 20;
        options.dense = options.dense.filter(|_| dense);
        let disk = Disk::new(options).unwrap();
        let mut random = Random(2);
        let count = (0..).find(|&page| disk.write(page * P, &text(&mut random)).is_err()).unwrap();
        let mut random = Random(2);
        for page in 0..count {
            let mut back = [0; PAGE];
            disk.read(page * P, &mut back).unwrap();
            assert!(back == text(&mut random), "{page}");
        }
        count
    };
    let (fast, dense) = (written(false), written(true));
    assert!(dense > fast * 6 / 5, "{fast} {dense}");
}

/// Lines of words that shrink little by pages, and more by blocks.
fn lines(random: &mut Random) -> [u8; PAGE] {
    let mut text = String::new();
    while text.len() < PAGE {
        let word = random.below(3000) * 7919;
        text += &format!("{:x}{} ", word, ["alpha", "beta", "gamma"][word as usize % 3]);
        if random.below(9) == 0 {
            text += &format!("\n2026-11-{:02} INFO worker-{}: ", random.below(30), random.below(64));
        }
    }
    text.as_bytes()[..PAGE].try_into().unwrap()
}

/// The data that could be made denser are old, and what is written does not compress.
#[test]
fn a_write_is_refused_only_when_old_data_are_dense() {
    let mut options = options(1 << 30);
    options.limit = 48 << 20;
    (options.fast, options.dense) =
        (memfold_codec::codec("auto:fast").unwrap(), memfold_codec::codec("auto:dense").ok());
    let disk = Disk::new(options).unwrap();
    let (mut random, mut count) = (Random(5), 0);
    while disk.stats().memory_bytes < 40 << 20 {
        disk.write(count * P, &lines(&mut random)).unwrap();
        count += 1;
    }
    let mut next = count;
    while disk.write(next * P, &noise(&mut random)).is_ok() {
        next += 1;
    }
    let dense = disk.stats().dense_bytes;
    assert!(dense > count * P / 10 * 9, "{dense} of {}, with {} pages of noise", count * P, next - count);
}

#[test]
fn trimmed_memory_is_given_back_within_a_second() {
    let (disk, _keeper) = kept(Disk::new(options(1 << 30)).unwrap());
    let empty = disk.stats().memory_bytes;
    let mut random = Random(3);
    for page in 0..20_000 {
        disk.write(page * P, &text(&mut random)).unwrap();
    }
    let full = disk.stats().memory_bytes - empty;
    // Trim all but every hundredth page; the remaining ones are scattered over all of the memory.
    for page in (0..20_000).filter(|page| page % 100 != 0) {
        disk.trim(page * P, P).unwrap();
    }
    let begun = Instant::now();
    let left = loop {
        let left = disk.stats().memory_bytes.saturating_sub(empty);
        if left < full / 20 || begun.elapsed() > Duration::from_secs(1) {
            break left;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(left < full / 20, "{left} of {full}");
}

#[test]
fn an_idle_device_gives_working_memory_back() {
    let mut options = options(1 << 30);
    // This codec needs more working memory than others.
    options.fast = memfold_codec::codec("zstd:3").unwrap();
    let (disk, _keeper) = kept(Disk::new(options).unwrap());
    // Memory that is not for codecs stays, and so do the partial pages at the ends of the codecs' memory.
    let works = std::thread::available_parallelism().map_or(1, usize::from) + 1;
    let rested = (works * (PAGE + 2 * disk.layout.bytes() + 2 * PAGE)) as u64;
    let mut random = Random(13);
    let pages: Vec<_> = (0..2000).map(|_| text(&mut random)).collect();
    for turn in 0..3 {
        // Other tests may stop this thread for so long that the device becomes idle.
        let write = || {
            for (page, content) in (0..).zip(&pages) {
                disk.write(page * P, content).unwrap();
            }
            disk.works.bytes()
        };
        assert!((0..20).any(|_| write() > rested + (32 << 10)), "{turn}: no more than {rested}");
        let begun = Instant::now();
        while disk.works.bytes() > rested {
            assert!(begun.elapsed() < Duration::from_secs(5), "{turn}: {}, not {rested}", disk.works.bytes());
            std::thread::sleep(Duration::from_millis(20));
        }
        for (page, content) in (0..).zip(&pages) {
            let mut back = [0; PAGE];
            disk.read(page * P, &mut back).unwrap();
            assert!(back == *content, "{page}");
        }
    }
}

#[test]
fn the_index_takes_less_than_eight_bytes_for_a_page() {
    let disk = Disk::new(options(1 << 30)).unwrap();
    let mut random = Random(4);
    for page in 0..20_000 {
        disk.write(page * P, &text(&mut random)).unwrap();
    }
    let stats = disk.stats();
    assert!(stats.index_bytes < 20_000 * 8, "{}", stats.index_bytes);
}

#[test]
fn cold_pages_become_dense_and_pages_read_again_stay_as_they_are() {
    let (disk, _keeper) = kept(Disk::new(options(1 << 30)).unwrap());
    let mut random = Random(5);
    for page in 0..4000 {
        disk.write(page * P, &text(&mut random)).unwrap();
    }
    let mut page = [0; PAGE];
    let begun = Instant::now();
    while disk.stats().dense_bytes < 3900 * P {
        // These are in use all the time.
        for hot in 0..16 {
            disk.read(hot * P, &mut page).unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", disk.stats());
        std::thread::sleep(Duration::from_millis(50));
    }
    // Pages in use are decompressed once, whether they stay in the fast tier or are in the image of a dense
    // block: on a busy machine they may have become dense between two rounds.
    let before = disk.stats().faults;
    for hot in (0..50).flat_map(|_| 0..16) {
        disk.read(hot * P, &mut page).unwrap();
    }
    let stats = disk.stats();
    assert!(stats.faults - before < 80, "{before}: {stats:?}");
}

#[test]
fn copies_are_kept_once_also_of_what_is_cold() {
    let mut options = options(1 << 30);
    options.share = true;
    let disk = Disk::new(options).unwrap();
    let pages: Vec<[u8; PAGE]> = (0..1000).map(|seed| text(&mut Random(seed))).collect();
    let write = |begin: u64| {
        (begin..).zip(&pages).for_each(|(page, content)| disk.write(page * P, content).unwrap());
    };
    let check = |begin: u64| {
        for (page, content) in (begin..).zip(&pages) {
            let mut back = [0; PAGE];
            disk.read(page * P, &mut back).unwrap();
            assert!(back == *content, "{page}");
        }
    };
    write(0);
    disk.condense().unwrap();
    let one = disk.stats().payload_bytes;
    write(2000);
    write(4000);
    let stats = disk.stats();
    // Some hints overwrite others.
    assert!(stats.shared_bytes > 1900 * P, "{stats:?}");
    // The joined pages are now in the fast tier.
    assert!(stats.payload_bytes < one * 5 / 2, "{one} {stats:?}");
    disk.trim(0, 500 * P).unwrap();
    write(2500);
    check(4000);
    disk.trim(4000 * P, 1000 * P).unwrap();
    disk.condense().unwrap();
    check(2500);
    let stats = disk.stats();
    assert!(stats.dense_bytes > 0, "what only one page has is made denser: {stats:?}");
    disk.trim(0, 1 << 30).unwrap();
    assert_eq!((disk.stats().blobs, disk.stats().shared_bytes), (0, 0));
}

#[test]
fn blocks_that_are_read_twice_are_promoted_and_a_scan_promotes_none() {
    let disk = Disk::new(options(1 << 30)).unwrap();
    let mut random = Random(6);
    let pages: Vec<_> = (0..400).map(|_| text(&mut random)).collect();
    for (page, content) in (0..).zip(&pages) {
        disk.write(page * P, content).unwrap();
    }
    disk.condense().unwrap();
    let check = |page: u64| {
        let mut back = [0; PAGE];
        disk.read(page * P, &mut back).unwrap();
        assert!(back == pages[page as usize], "{page}");
    };
    let cool = || {
        for leaf in 0..2 {
            if let Some(leaf) = disk.stripes.lock(leaf).get_mut(leaf) {
                (0..crate::index::leaf::PAGES)
                    .step_by(disk.layout.pages())
                    .for_each(|first| _ = leaf.cool(disk.layout, first));
            }
        }
    };
    cool();
    let dense = disk.stats().dense_bytes;
    assert!(dense > 350 * P, "{dense}");
    (0..400).for_each(check);
    assert_eq!(disk.stats().promotions, 0, "a scan");
    // Read one page of every second block.
    (0..400).step_by(2 * disk.layout.pages()).for_each(check);
    let stats = disk.stats();
    assert!((180..=200).contains(&stats.promotions), "{stats:?}");
    assert!(stats.dense_bytes < dense * 6 / 10, "{stats:?}");
    (0..400).for_each(check);
    // The same with reads of whole blocks.
    disk.condense().unwrap();
    cool();
    let before = disk.stats().promotions;
    let mut all = vec![0; 400 * PAGE];
    for times in 1..=2 {
        all.fill(0);
        disk.read(0, &mut all).unwrap();
        assert!(all.chunks(PAGE).zip(&pages).all(|(back, page)| back == page));
        assert_eq!(disk.stats().promotions > before, times == 2);
    }
    (0..400).for_each(check);
}

#[test]
fn at_the_limit_what_is_dense_can_be_written_again_and_parts_can_be_trimmed() {
    let mut options = options(1 << 30);
    options.limit = 24 << 20;
    // A fixed number, independent of the CPUs: working memory is a part of this limit.
    options.works = Some(2);
    let disk = Disk::new(options).unwrap();
    let mut random = Random(2);
    let mut pages = Vec::new();
    loop {
        let page = text(&mut random);
        if disk.write(pages.len() as u64 * P, &page).is_err() {
            break;
        }
        pages.push(page);
    }
    assert!(disk.stats().dense_bytes > disk.stats().logical_bytes / 2);
    for turn in 0..2 {
        for (page, content) in (0..).zip(&pages) {
            disk.write(page * P, content).unwrap_or_else(|error| panic!("{turn} {page}: {error}"));
            disk.write(page * P + 100, &content[100..200])
                .unwrap_or_else(|error| panic!("{turn} {page}: {error}"));
        }
    }
    assert!(disk.stats().peak_memory_bytes <= 24 << 20);
    for (page, content) in (0..).zip(&pages) {
        let mut back = [0; PAGE];
        disk.read(page * P, &mut back).unwrap();
        assert!(back == *content, "{page}");
    }
    disk.zero(P + 512, 512).unwrap();
    disk.trim(3 * P + 512, (pages.len() as u64 - 4) * P).unwrap();
    assert!(disk.stats().logical_bytes <= 6 * P, "{:?}", disk.stats());
    let mut back = [0; PAGE];
    disk.read(3 * P, &mut back).unwrap();
    assert!(back[..512] == pages[3][..512] && back[512..].iter().all(|&byte| byte == 0));
}

#[test]
fn reads_do_not_make_refused_writes_search_again() {
    let mut options = options(1 << 30);
    options.limit = 24 << 20;
    let disk = Disk::new(options).unwrap();
    let mut random = Random(2);
    let count = (0..).find(|&page| disk.write(page * P, &noise(&mut random)).is_err()).unwrap();
    let begun = Instant::now();
    for page in 0..2000 {
        disk.read(page % count * P, &mut [0; PAGE]).unwrap();
        assert!(disk.write((count + 9) * P, &noise(&mut random)).is_err());
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn pages_that_are_resident_are_given_back_with_a_trim() {
    let mut options = options(1 << 30);
    options.limit = 256 << 20;
    let disk = Disk::new(options).unwrap();
    let mut random = Random(2);
    for page in 0..20_000 {
        disk.write(page * P, &text(&mut random)).unwrap();
    }
    for _ in 0..3 {
        (0..2000).for_each(|page| disk.read(page * P, &mut [0; PAGE]).unwrap());
    }
    assert!(disk.stats().resident_bytes > 0);
    disk.trim(0, 1 << 30).unwrap();
    assert_eq!(disk.stats().resident_bytes, 0);
}

/// When the write-back of a file system fails, only the kernel's log reports it.
#[test]
fn a_full_device_reports_it_once() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut options = options(1 << 30);
    options.limit = 24 << 20;
    options.told = |text| SAID.lock().unwrap().push(text.to_owned());
    let disk = Arc::new(Disk::new(options).unwrap());
    let keeper = Maintenance::start(&disk, &about()).unwrap();
    let mut random = Random(2);
    let full = (0..).find(|&page| disk.write(page * P, &noise(&mut random)).is_err()).unwrap();
    let begun = Instant::now();
    while !SAID.lock().unwrap().iter().any(|text| text.contains("is reached")) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    for page in full..full + 9 {
        assert!(disk.write(page * P, &noise(&mut random)).is_err());
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(keeper);
    let said = SAID.lock().unwrap();
    let of = |words: &str| said.iter().filter(|text| text.contains(words)).collect::<Vec<_>>();
    let full = of("24 MiB is reached");
    assert!(
        full.len() == 1 && full[0].contains("fstrim") && full[0].contains("tested (/a/disk): "),
        "{said:?}"
    );
}

/// However small the limit is, the device is reported as nearly full before it refuses a write, and shows the
/// room that there is.
#[test]
fn small_devices_report_that_they_are_nearly_full() {
    for mib in [8, 16, 32, 48] {
        let mut options = options(1 << 30);
        options.limit = mib << 20;
        let disk = Disk::new(options).unwrap();
        assert!(!disk.is_nearly_full() && disk.held() <= disk.room() / 8, "{mib} MiB: {}", disk.held());
        let mut random = Random(9);
        let (mut page, mut warned) = (0, None);
        while disk.write(page * P, &noise(&mut random)).is_ok() {
            page += 1;
            if warned.is_none() && disk.is_nearly_full() {
                warned = Some(page);
            }
        }
        let warned = warned.unwrap_or_else(|| panic!("{mib} MiB, {} of {}", disk.held(), disk.room()));
        assert!(warned >= page * 3 / 4 && warned < page, "{mib} MiB: after {warned} of {page} pages");
    }
}

/// The device is reported as nearly full while the user can still do something about it.
#[test]
fn a_nearly_full_device_reports_it_once() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut options = options(1 << 30);
    options.limit = 24 << 20;
    options.told = |text| SAID.lock().unwrap().push(text.to_owned());
    let disk = Arc::new(Disk::new(options).unwrap());
    let keeper = Maintenance::start(&disk, &about()).unwrap();
    let mut random = Random(2);
    let half = 12 << 20;
    (0..half / P).for_each(|page| disk.write(page * P, &noise(&mut random)).unwrap());
    std::thread::sleep(Duration::from_secs(1));
    assert!(SAID.lock().unwrap().is_empty() && !disk.stats().nearly_full);
    let mut page = half / P;
    while !disk.stats().nearly_full {
        disk.write(page * P, &noise(&mut random)).unwrap();
        page += 1;
    }
    std::thread::sleep(Duration::from_secs(2));
    drop(keeper);
    let said = SAID.lock().unwrap();
    assert!(
        said.len() == 1 && said[0].starts_with("tested (/a/disk): 90 % of the limit of 24 MiB"),
        "{said:?}"
    );
    assert_eq!(disk.stats().refused_writes, 0);
}
