//! Slab lists against the standard library's collections: sorted and ordered ones, of numbers and of strings,
//! with frames for three short blocks. An order that lies is tried, too: then the list must only keep its
//! elements, and it must be possible to drop it.
//!
//! ```text
//! | which list, 1 byte | operation, 1 byte, and what it needs | .. |
//! ```
#![no_main]

#[path = "heap/input.rs"]
mod input;

use std::collections::BTreeSet;

use input::Input;
use libfuzzer_sys::fuzz_target;
use memfold::collections::{Natural, SlabList};
use memfold::heap::{Heap, Limit, Options, Session};

/// The most elements.
const MOST: usize = 20_000;

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let heap = Heap::new(Options::new().limit(Limit::Blocks(3)).block_size(4 << 10)).unwrap();
    let session = heap.session().unwrap();
    match input.byte() % 4 {
        0 => numbers(&session, &mut input),
        1 => strings(&session, &mut input),
        2 => ordered(&session, &mut input),
        _ => lies(&session, &mut input),
    }
    drop(session);
    assert_eq!(heap.stats().nodes, 0);
});

fn numbers(session: &Session<'_>, input: &mut Input<'_>) {
    let mut list = SlabList::new(session).per_slab(2 + usize::from(input.byte()));
    let mut model = BTreeSet::new();
    let is_far = input.byte() % 2 == 1;
    // Numbers far from each other: leaves are stored as ascending numbers, and searched in that form.
    let put = |x: u64| if is_far { x << 40 | x.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24 } else { x };
    while !input.0.is_empty() && model.len() < MOST {
        let (what, x) = (input.byte(), u64::from(input.short()));
        match what % 8 {
            0..3 => assert_eq!(list.insert(&put(x)).unwrap(), model.insert(put(x))),
            3 => assert_eq!(list.remove(&put(x)).unwrap().is_some(), model.remove(&put(x))),
            4 => {
                // Many at once, in order, at one of several distances.
                let step = 1 + u64::from(what / 8);
                for x in (0..u64::from(input.byte())).map(|i| put(x + i * step)) {
                    assert_eq!(list.insert(&x).unwrap(), model.insert(x));
                }
            }
            5 => {
                let (x, to) = (put(x), put(x + u64::from(input.byte())));
                let inside: Vec<u64> = model.range(x..to).copied().collect();
                let seen: Vec<u64> = list.range(x..to).unwrap().map(Result::unwrap).collect();
                assert_eq!(seen, inside);
                if what & 8 != 0 {
                    assert_eq!(list.remove_range(x..to).unwrap(), inside.len() as u64);
                    model.retain(|other| !(x..to).contains(other));
                }
            }
            6 => {
                let number = usize::from(input.short()) % (model.len() + 1);
                assert_eq!(list.at(number as u64).unwrap(), model.iter().nth(number).copied());
                assert_eq!(list.contains(&put(x)).unwrap(), model.contains(&put(x)));
                let here = model.contains(&put(x)).then(|| model.range(..put(x)).count() as u64);
                assert_eq!(list.find(&put(x)).unwrap(), here);
            }
            _ => {
                list.reap().unwrap();
                assert_eq!(list.check(), Ok(()));
            }
        }
    }
    assert_eq!(list.check(), Ok(()));
    assert!(list.iter().map(Result::unwrap).eq(model.iter().copied()));
}

fn text(input: &mut Input<'_>) -> Vec<u8> {
    let (prefix, len) = (usize::from(input.byte()), usize::from(input.byte()));
    let mut text = vec![b'p'; prefix % 60];
    text.extend((0..len % 16).map(|_| input.byte()));
    if len == 255 {
        text.resize(usize::from(input.short()), 1);
    }
    text
}

fn strings(session: &Session<'_>, input: &mut Input<'_>) {
    let mut list = SlabList::<[u8]>::new(session);
    let mut model = BTreeSet::new();
    while !input.0.is_empty() && model.len() < MOST {
        let (what, x) = (input.byte(), text(input));
        match what % 8 {
            0..4 => assert_eq!(list.insert(&x).unwrap(), model.insert(x)),
            4 => assert_eq!(list.remove(&x).unwrap(), model.take(&x)),
            5 => assert_eq!(list.contains(&x).unwrap(), model.contains(&x)),
            6 => assert_eq!(list.replace(&x).unwrap(), model.replace(x)),
            _ => assert_eq!(list.check(), Ok(())),
        }
    }
    assert_eq!(list.check(), Ok(()));
    assert!(list.iter().map(Result::unwrap).eq(model.iter().cloned()));
}

fn ordered(session: &Session<'_>, input: &mut Input<'_>) {
    let mut list = SlabList::<[u8], _>::ordered(session);
    let mut model: Vec<Vec<u8>> = Vec::new();
    while !input.0.is_empty() && model.len() < MOST {
        let (what, x) = (input.byte(), text(input));
        let number = usize::from(input.short()) % (model.len() + 1);
        let to = (number + usize::from(input.byte())).min(model.len());
        match what % 16 {
            0..4 => {
                assert!(list.insert_at(number as u64, &x).unwrap());
                model.insert(number, x);
            }
            4..8 => {
                list.push(&x).unwrap();
                model.push(x);
            }
            8 | 9 => {
                let gone = (number < model.len()).then(|| model.remove(number));
                assert_eq!(list.remove_at(number as u64).unwrap(), gone);
            }
            10 | 11 => {
                let old = model.get_mut(number).map(|slot| std::mem::replace(slot, x.clone()));
                assert_eq!(list.set_at(number as u64, &x).unwrap(), old);
            }
            12 => {
                list.remove_slice(number as u64..to as u64).unwrap();
                model.drain(number..to);
            }
            13 => {
                let part = list.extract_slice(number as u64..to as u64).unwrap();
                assert!(part.iter().map(Result::unwrap).eq(model.drain(number..to)));
            }
            14 => {
                list.reverse().unwrap();
                model.reverse();
            }
            _ => {
                list.sort().unwrap();
                model.sort();
            }
        }
    }
    assert!(list.iter().rev().map(Result::unwrap).eq(model.iter().rev().cloned()));
    assert_eq!(list.into_sorted(Natural).unwrap().check(), Ok(()));
}

fn lies(session: &Session<'_>, input: &mut Input<'_>) {
    let (noise, lie) = (std::cell::Cell::new(u64::from(input.short())), input.byte());
    let mut list = SlabList::by(session, |a: &u32, b: &u32| {
        noise.set(noise.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        if (noise.get() >> 56) as u8 <= lie { b.cmp(a) } else { a.cmp(b) }
    });
    let mut model: Vec<u32> = Vec::new();
    while !input.0.is_empty() && model.len() < MOST {
        let (what, x) = (input.byte(), u32::from(input.short()));
        if what % 4 == 0 {
            if let Some(gone) = list.remove(&x).unwrap() {
                let at = model.iter().position(|other| *other == gone).expect("what is taken out was there");
                model.swap_remove(at);
            }
        } else if list.insert(&x).unwrap() {
            model.push(x);
        }
    }
    let mut all: Vec<u32> = list.iter().map(Result::unwrap).collect();
    all.sort_unstable();
    model.sort_unstable();
    assert_eq!(all, model);
}
