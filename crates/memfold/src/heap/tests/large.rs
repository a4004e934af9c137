//! Nodes longer than a block.

use std::vec;

use super::small;
use crate::heap::*;

#[test]
fn a_large_node_takes_room_for_what_was_written() {
    let mut heap = Heap::new(Options::new()).unwrap();
    let mut session = heap.session().unwrap();
    let len = MAX_NODE;
    let node = session.alloc(len).unwrap();
    assert_eq!(session.size(node), Ok(len));
    session.write_at(node, len - 5, b"there").unwrap();
    session.write_at(node, 1 << 30, &[7; 100_000]).unwrap();
    let mut bytes = [0; 6];
    session.read_at(node, len - 6, &mut bytes).unwrap();
    assert_eq!(&bytes, b"\0there");
    session.read_at(node, (1 << 30) + 99_998, &mut bytes).unwrap();
    assert_eq!(bytes, [7, 7, 0, 0, 0, 0]);
    assert!(session.read_at(node, len - 5, &mut bytes).is_err());
    assert!(session.write_at(node, len, b"x").is_err());
    let stats = heap.stats();
    assert_eq!((stats.nodes, stats.node_bytes), (1, len as u64));
    assert!(stats.memory_bytes() < 4 << 20, "{stats:?}");
    let node = session.resize(node, 100_000).unwrap();
    assert_eq!(session.read(node), Ok(vec![0; 100_000]));
    session.free(node).unwrap();
    assert_eq!((session.free(node), session.size(node)), (Err(Error::Stale), Err(Error::Stale)));
    drop(session);
    assert_eq!(heap.stats().blocks, 0);
    heap.check().unwrap();
}

#[test]
fn guards_of_a_large_node_have_it_in_one_piece() {
    let mut heap = Heap::new(small(1024)).unwrap();
    let mut session = heap.session().unwrap();
    let (node, other) = (session.alloc(10_000).unwrap(), session.alloc(5).unwrap());
    session.write(node).unwrap().iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
    {
        let first = session.pin(node).unwrap();
        let mut second = session.pin(node).unwrap();
        // SAFETY: here and below: one thread, and no slice lives while it writes.
        unsafe {
            second.as_mut_ptr().unwrap().add(5000).write(77);
            assert_eq!(
                (first.bytes()[5000], first.bytes()[4999], first.len()),
                (77, 4999_usize as u8, 10_000)
            );
        }
        let mut bytes = [0; 2];
        session.read_at(node, 4999, &mut bytes).unwrap();
        assert_eq!(bytes, [4999_usize as u8, 77]);
        let mut writer = heap.session().unwrap();
        assert_eq!(writer.write(node).err(), Some(Error::Busy));
        writer.write_at(node, 1, &[99]).unwrap();
        assert_eq!(writer.resize(node, 5), Err(Error::Busy));
    }
    let bytes = session.read(node).unwrap();
    assert_eq!((bytes[0], bytes[1], bytes[2], bytes[5000], bytes[9999]), (0, 99, 2, 77, 9999_usize as u8));
    let pin = session.pin(node).unwrap();
    session.free(node).unwrap();
    assert_eq!(pin.len(), 10_000);
    drop(pin);
    session.free(other).unwrap();
    drop(session);
    heap.check().unwrap();
    assert_eq!(heap.stats().nodes, 0);
}
