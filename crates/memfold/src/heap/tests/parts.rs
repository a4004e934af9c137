//! Parts of nodes, of any length and at any byte, against a model: the nodes' bytes.

use super::*;

/// Reads, writes and changes a value somewhere in a node, or past its end.
fn one<T: Plain + PartialEq + std::fmt::Debug>(
    session: &mut Session<'_>,
    node: Handle,
    bytes: &mut [u8],
    random: &mut Random,
) {
    let (len, size) = (bytes.len(), size_of::<T>());
    let from = random.index(len + 2);
    if from + size > len {
        let mismatch = Error::Mismatch { node: len, value: from + size };
        assert_eq!(session.get_at::<T>(node, from), Err(mismatch));
        let value = T::new_zeroed();
        assert_eq!(session.set_at(node, from, &value), Err(mismatch));
        assert_eq!(session.update_at(node, from, |_: &mut T| ()), Err(mismatch));
        assert_eq!(session.read_at(node, from, &mut vec![0; size]), Err(mismatch));
        assert_eq!(session.write_at(node, from, value.as_bytes()), Err(mismatch));
        return;
    }
    let part = &mut bytes[from..from + size];
    match random.index(4) {
        0 => {
            part.copy_from_slice(&random.bytes(size));
            session.set_at(node, from, &T::read_from_bytes(part).unwrap()).unwrap();
        }
        1 => {
            part[size - 1] ^= 0x55;
            let changed = session.update_at(node, from, |value: &mut T| {
                value.as_mut_bytes()[size - 1] ^= 0x55;
                7
            });
            assert_eq!(changed, Ok(7));
        }
        _ => assert_eq!(session.get_at::<T>(node, from), Ok(T::read_from_bytes(part).unwrap())),
    }
}

fn against_model(options: Options, sizes: &[usize], seed: u64) {
    let mut heap = Heap::new(options).unwrap();
    let mut session = heap.session().unwrap();
    let mut random = Random(seed);
    let mut nodes: Vec<(Handle, Vec<u8>)> = sizes
        .iter()
        .map(|&len| {
            let bytes = random.bytes(len);
            (session.put_bytes(&bytes).unwrap(), bytes)
        })
        .collect();
    for _ in 0..3000 {
        let at = random.index(nodes.len());
        let (node, bytes) = &mut nodes[at];
        let node = *node;
        match random.index(10) {
            0 => one::<u8>(&mut session, node, bytes, &mut random),
            1 => one::<u16>(&mut session, node, bytes, &mut random),
            2 => one::<u32>(&mut session, node, bytes, &mut random),
            3 => one::<u64>(&mut session, node, bytes, &mut random),
            4 => one::<[u8; 13]>(&mut session, node, bytes, &mut random),
            5 => one::<[u16; 39]>(&mut session, node, bytes, &mut random),
            6 => one::<[u64; 17]>(&mut session, node, bytes, &mut random),
            7 => {
                let from = random.index(bytes.len());
                let mut part = vec![1; random.index(bytes.len() - from + 1)];
                session.read_at(node, from, &mut part).unwrap();
                assert_eq!(part, bytes[from..from + part.len()]);
                let part = random.bytes(part.len());
                session.write_at(node, from, &part).unwrap();
                bytes[from..from + part.len()].copy_from_slice(&part);
            }
            8 => {
                // Another node at its place, with a check of its own.
                session.free(node).unwrap();
                assert_eq!(session.get_at::<u8>(node, 0), Err(Error::Stale));
                assert_eq!(session.set_at(node, 0, &0_u8), Err(Error::Stale));
                nodes[at].0 = session.put_bytes(&nodes[at].1).unwrap();
            }
            _ => {
                let mut whole = vec![9; 3];
                session.read_into(node, &mut whole).unwrap();
                assert_eq!(&whole, bytes);
            }
        }
    }
    drop(session);
    heap.check().unwrap();
}

#[test]
fn parts_do_as_the_model() {
    let mixed: Vec<usize> = (0..200).map(|i| 1 + i * 7 % 190).collect();
    for align in [1, 2, 4, 8, 16] {
        against_model(small(4096).alignment(align), &mixed, 1);
        against_model(small(4096).alignment(align), &[90; 200], 2);
        against_model(small(1024).alignment(align), &[13; 300], 3);
    }
    against_model(small(1024).paranoid(true), &mixed, 4);
    against_model(small(1024).kind(HeapKind::Plain), &mixed, 5);
    against_model(small(1024), &[1, 60, 1500, 5000, 70_000], 6);
}

#[test]
fn a_part_is_read_of_one_moment() {
    let heap = Heap::new(small(1024)).unwrap();
    let session = heap.session().unwrap();
    let nodes: Vec<Handle> = (0..64).map(|_| session.alloc(100).unwrap()).collect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let session = heap.session().unwrap();
            let mut random = Random(1);
            while !done.load(Relaxed) {
                let part: [u8; 21] = session.get_at(nodes[random.index(64)], 5).unwrap();
                assert!(part.iter().all(|&byte| byte == part[0]), "{part:?}");
            }
        });
        let mut writer = heap.session().unwrap();
        let mut random = Random(2);
        for _ in 0..100_000 {
            let byte = random.next() as u8;
            writer.set_at(nodes[random.index(64)], 5, &[byte; 21]).unwrap();
        }
        done.store(true, Relaxed);
    });
}

#[test]
fn a_long_node_that_cannot_be_written_is_as_it_was() {
    let heap = Heap::new(small(4096).limit(Limit::Bytes(2 << 20)).codec("copy")).unwrap();
    let mut session = heap.session().unwrap();
    let (node, mut random) = (session.alloc(8 << 20).unwrap(), Random(3));
    assert_eq!(session.write_at(node, 1000, &random.bytes(7 << 20)), Err(Error::Limit));
    let mut bytes = vec![7; 8 << 20];
    session.read_at(node, 0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 0));
}

#[test]
fn parts_that_cannot_be_freed_go_later() {
    for shorter in [false, true] {
        let mut heap = Heap::new(small(4096)).unwrap();
        let (mut session, mut other) = (heap.session().unwrap(), heap.session().unwrap());
        let long = session.put_bytes(&[1; 10_000]).unwrap();
        let last = locked(&heap.core.large)
            .saved()
            .map(Result::unwrap)
            .next()
            .and_then(|(.., parts)| *parts.last()?)
            .unwrap();
        let nodes: Vec<Handle> = (0..50).map(|_| session.alloc(22).unwrap()).collect();
        let is_beside = |node: &&Handle| node.block() == last.block() && node.place() % 8 == last.place() % 8;
        let guard = other.write(*nodes.iter().find(is_beside).unwrap()).unwrap();
        if shorter {
            assert_eq!(session.resize(long, 5000), Ok(long));
            assert_eq!(session.read(long), Ok(vec![1; 5000]));
        } else {
            assert_eq!((session.free(long), session.size(long)), (Ok(()), Err(Error::Stale)));
        }
        let stats = heap.stats();
        let (count, bytes) = if shorter { (51, 6100) } else { (50, 1100) };
        assert_eq!((stats.nodes, stats.node_bytes), (count, bytes));
        drop(guard);
        nodes.iter().for_each(|&node| session.free(node).unwrap());
        if shorter {
            session.free(long).unwrap();
        }
        drop((session, other));
        heap.check().unwrap();
        assert_eq!((heap.stats().nodes, heap.stats().blocks), (0, 0));
    }
}
