//! A bit of a blob flips: its readers get an error, and everything else is unaffected.

use super::{P, Random, options};
use crate::index::leaf::{Entry, Held};
use crate::index::owner::owner_of;
use crate::{Disk, Error, PAGE};

fn damage(disk: &Disk, page: u64) {
    let (stripe, number, place) = disk.lock(page);
    let leaf = stripe.get(number).unwrap();
    let (holder, held) = match leaf.entry(place).unwrap() {
        Entry::Page(held) => (place, held),
        _ => leaf.joined(disk.layout, disk.layout.first(place)).unwrap(),
    };
    let owner = owner_of(page - place as u64 + holder as u64);
    let Held::Blob(r) = held else { panic!("{held:?}") };
    // SAFETY: no other thread uses the device; the test is about bytes of the store that change unnoticed.
    unsafe {
        let (_, payload) = disk.store.get(r, owner).unwrap();
        payload.as_ptr().add(payload.len() / 2).cast_mut().write_volatile(payload[payload.len() / 2] ^ 4);
    }
}

#[test]
fn a_damaged_page_is_an_error_and_never_data() {
    for condensed in [false, true] {
        let disk = Disk::new(options(1 << 20)).unwrap();
        let block = disk.layout.pages();
        let mut random = Random(6);
        let mut pages = vec![[0; PAGE]; 32];
        for (page, bytes) in pages.iter_mut().enumerate() {
            bytes.iter_mut().for_each(|byte| *byte = random.below(20) as u8);
            disk.write(page as u64 * P, bytes).unwrap();
        }
        if condensed {
            disk.condense().unwrap();
        }
        damage(&disk, 9);
        let mut back = [0; PAGE];
        assert_eq!(disk.read(9 * P, &mut back), Err(Error::Damaged { offset: 9 * P }));
        assert!(disk.read(0, &mut vec![0; 32 * PAGE]).is_err());
        assert_eq!(disk.write(9 * P + 1, &[1]), Err(Error::Damaged { offset: 9 * P }));
        disk.condense().unwrap();
        for (page, bytes) in pages.iter().enumerate() {
            // All pages of a damaged block are damaged.
            if page / block == 9 / block && (condensed || page == 9) {
                continue;
            }
            disk.read(page as u64 * P, &mut back).unwrap();
            assert!(back == *bytes, "{page}");
        }
        // Rewritten pages are intact again.
        disk.write((9 / block * block * PAGE) as u64, &vec![7; block * PAGE]).unwrap();
        disk.read(9 * P, &mut back).unwrap();
        assert_eq!(back, [7; PAGE]);
    }
}
