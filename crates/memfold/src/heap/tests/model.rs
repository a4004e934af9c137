//! The heap against a model: a map from handles to bytes.

use std::collections::HashMap;
use std::vec;
use std::vec::Vec;

use super::small;
use crate::heap::*;
use crate::random::Random;

/// Random operations, everything checked against the model. Stale handles are tried too, and must be refused.
pub fn against_model(options: Options, steps: usize, sizes: &[usize], seed: u64) {
    let mut heap = Heap::new(options).unwrap();
    let mut session = heap.session().unwrap();
    let mut random = Random(seed);
    let mut model: HashMap<Handle, Vec<u8>> = HashMap::new();
    let (mut live, mut stale): (Vec<Handle>, Vec<Handle>) = (vec![], vec![]);
    for step in 0..steps {
        let growing = step / 500 % 3 != 2;
        let some = (!live.is_empty()).then(|| random.index(live.len()));
        match (random.index(10), some) {
            (0..=3, _) | (_, None) if growing || live.is_empty() => {
                let len = match sizes {
                    [most] => 1 + random.index(*most),
                    sizes => sizes[random.index(sizes.len())],
                };
                let handle = session.alloc(len).unwrap();
                assert!(session.read(handle).unwrap().iter().all(|&byte| byte == 0), "new nodes are zero");
                let bytes = random.bytes(len);
                session.write(handle).unwrap().copy_from_slice(&bytes);
                assert!(model.insert(handle, bytes).is_none(), "{handle:?} was given out twice");
                live.push(handle);
            }
            (0..=5, Some(at)) => {
                let handle = live.swap_remove(at);
                assert_eq!(session.read(handle), Ok(model.remove(&handle).unwrap()));
                session.free(handle).unwrap();
                assert_eq!(session.read(handle), Err(Error::Stale));
                assert_eq!(session.free(handle), Err(Error::Stale));
                stale.push(handle);
            }
            (6, Some(at)) => {
                let (old, len) = (live[at], 1 + random.index(*sizes.iter().max().unwrap()));
                let new = session.resize(old, len).unwrap();
                let mut bytes = model.remove(&old).unwrap();
                bytes.resize(len, 0);
                assert_eq!(session.read(new).as_ref(), Ok(&bytes));
                assert!(model.insert(new, bytes).is_none());
                if old != new {
                    stale.push(old);
                }
                live[at] = new;
            }
            (7, Some(at)) => {
                let (handle, bytes) = (live[at], model.get_mut(&live[at]).unwrap());
                let byte = random.index(bytes.len());
                bytes[byte] ^= 1;
                session.write(handle).unwrap()[byte] ^= 1;
            }
            (_, Some(at)) => {
                let handle = live[at];
                assert_eq!(session.size(handle), Ok(model[&handle].len()));
                assert_eq!(session.read(handle), Ok(model[&handle].clone()));
                if !stale.is_empty() {
                    let old = stale[random.index(stale.len())];
                    assert!(model.contains_key(&old) || session.read(old) == Err(Error::Stale));
                    assert!(model.contains_key(&old) || session.write(old).is_err());
                }
            }
            _ => {}
        }
    }
    assert_eq!(heap.stats().nodes, live.len() as u64);
    assert_eq!(heap.stats().node_bytes, model.values().map(|bytes| bytes.len() as u64).sum::<u64>());
    for (&handle, bytes) in &model {
        assert_eq!(&session.read(handle).unwrap(), bytes);
    }
    drop(session);
    heap.check().unwrap();
    let session = heap.session().unwrap();
    for handle in live {
        session.free(handle).unwrap();
    }
    drop(session);
    heap.check().unwrap();
    let stats = heap.stats();
    assert_eq!((stats.nodes, stats.node_bytes, stats.blocks, stats.payload_bytes), (0, 0, 0, 0));
}

#[test]
fn nodes_of_different_sizes_do_as_the_model() {
    for (block, align, most) in
        [(1024, 8, 200), (4096, 1, 300), (4096, 16, 900), (32768, 8, 2000), (1 << 20, 8, 5000)]
    {
        against_model(small(block).alignment(align), 20_000, &[most], 1 + block as u64);
    }
}

#[test]
fn nodes_of_few_sizes_do_as_the_model() {
    against_model(small(4096), 30_000, &[16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 40], 3);
    against_model(small(1024).alignment(1), 30_000, &[13, 13], 4);
    against_model(small(32768), 30_000, &[100, 100], 5);
}

#[test]
fn each_kind_of_codec_does_as_the_model() {
    // Blocks have different lengths: with checks, without, and of one size.
    for codec in ["copy", "zstd:1", "zstd:9", "auto", "zstd-dict:1", "delta:8x1+shuffle:8+lz4", "auto:dense"]
    {
        let options = Options::new().limit(Limit::Blocks(2)).codec(codec);
        if Heap::new(options.clone()).is_ok() {
            against_model(options.clone().block_size(2048), 1000, &[120, 16, 16, 16, 16, 16], 40);
            against_model(options, 700, &[2000], 41);
        }
    }
}

#[test]
fn each_policy_does_as_the_model() {
    for policy in PolicyKind::ALL {
        against_model(small(1024).policy(policy), 6000, &[120], 6);
    }
}

#[test]
fn a_paranoid_heap_does_as_the_model() {
    against_model(small(1024).paranoid(true), 4000, &[200], 7);
    against_model(small(4096).paranoid(true), 4000, &[24, 24], 8);
}

#[test]
fn nodes_longer_than_blocks_do_as_the_model() {
    against_model(small(1024), 1500, &[9000], 20);
    against_model(small(4096).alignment(64), 1500, &[40_000, 10, 100_000, 5000], 21);
    against_model(small(1024).paranoid(true), 300, &[5000], 22);
    against_model(small(1 << 20), 120, &[2 << 20], 23);
}

#[test]
fn the_debugging_twin_does_as_the_model() {
    let plain = small(1024).kind(HeapKind::Plain);
    against_model(plain.clone(), 10_000, &[5000], 9);
    let heap = Heap::new(plain.alignment(64)).unwrap();
    let mut session = heap.session().unwrap();
    let node = session.put_bytes(b"here").unwrap();
    let mut pin = session.pin(node).unwrap();
    // SAFETY: the node lives, and nobody else has the heap.
    unsafe { pin.as_mut_ptr().unwrap().write(b'H') };
    assert!(pin.as_ptr().addr().is_multiple_of(64) && pin.len() == 4);
    drop(pin);
    assert_eq!(session.text(node).unwrap(), "Here");
    assert_eq!(heap.stats().memory_bytes() > 0, heap.stats().nodes == 1);
    assert_eq!(session.alloc(0), Err(Error::Size(0)));
    session.free(node).unwrap();
    assert_eq!(session.free(node), Err(Error::Stale));
}
