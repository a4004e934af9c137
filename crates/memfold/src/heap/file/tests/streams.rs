//! Streams that fail, panic, end, are interrupted or do only a little at a time, at every call.

use std::io::{self, ErrorKind, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::vec;

use super::*;
use crate::heap::tests::away::{Memory, spilling};
use crate::heap::{Limit, SaveError};

/// How the call after the successful ones fails.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Fails,
    Panics,
    Ends,
}

const HOWS: [How; 3] = [How::Fails, How::Panics, How::Ends];

/// A stream that transfers up to this many bytes at a time, is interrupted every second time, and succeeds
/// this many times.
struct Stream<S> {
    to: S,
    most: usize,
    is_interrupted: bool,
    left: u64,
    how: How,
}

impl<S> Stream<S> {
    fn new(to: S, most: usize, left: u64, how: How) -> Self {
        Stream { to, most, is_interrupted: false, left, how }
    }

    /// How many of `len` bytes this call transfers.
    fn strike(&mut self, len: usize) -> io::Result<usize> {
        self.is_interrupted = !self.is_interrupted;
        if self.is_interrupted {
            return Err(ErrorKind::Interrupted.into());
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(len.min(self.most))
            }
            None => match self.how {
                How::Fails => Err(ErrorKind::TimedOut.into()),
                // Panics without output of the panic hook.
                How::Panics => resume_unwind(std::boxed::Box::new("the stream")),
                How::Ends => Ok(0),
            },
        }
    }
}

impl Read for Stream<&[u8]> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = self.strike(to.len())?;
        self.to.read(&mut to[..len])
    }
}

impl Write for Stream<&mut Vec<u8>> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let len = self.strike(from.len())?;
        self.to.write(&from[..len])
    }

    fn flush(&mut self) -> io::Result<()> {
        panic!("nothing is flushed")
    }
}

/// Heaps of different kinds, with long nodes, some of them in one piece, and blocks in frames, in the store
/// and on a tier.
fn heaps() -> Vec<(Heap, Model, Options, Option<Arc<Memory>>)> {
    let options = Options::new().block_size(1024).limit(Limit::Blocks(3)).codec("lz4");
    let all = vec![
        (options.clone(), None),
        (options.clone().codec("auto=xor:1x2+huffman/zstd:5/delta:8x1+shuffle:8+lz4"), None),
        (options.clone().paranoid(true), None),
        {
            let (options, tier) = spilling(options.paranoid(true));
            (options, Some(tier))
        },
    ];
    let make = |(options, tier): (Options, Option<Arc<Memory>>)| {
        let heap = Heap::new(options.clone()).unwrap();
        let mut model = Model::new(8, &[40, 3000, 900, 7, 16, 16, 16]);
        let mut session = heap.session().unwrap();
        model.go_on(&mut session, 250);
        let (node, bytes) = model.nodes.iter_mut().max_by_key(|node| node.1.len()).unwrap();
        let mut guard = session.write(*node).unwrap();
        guard.fill(9);
        bytes.fill(9);
        std::mem::forget(guard);
        std::mem::forget(session);
        (heap, model, options, tier)
    };
    all.into_iter().map(make).collect()
}

/// 0, 1, 2 and so on; from some number on in growing steps.
fn times() -> impl Iterator<Item = u64> {
    (0..).scan(0, |at, _| {
        let now = *at;
        *at += 1 + now / 40;
        Some(now)
    })
}

#[test]
fn each_write_may_fail() {
    for (mut heap, model, options, tier) in heaps() {
        for (most, how) in [7, 100, usize::MAX].into_iter().flat_map(|most| HOWS.map(|how| (most, how))) {
            for (number, times) in times().enumerate() {
                let before = heap.stats();
                let mut file = vec![];
                let stream = Stream::new(&mut file, most, times, how);
                let result = catch_unwind(AssertUnwindSafe(|| heap.save_to(stream)));
                let after = heap.stats();
                assert_eq!((before.nodes, before.node_bytes), (after.nodes, after.node_bytes));
                if number > 0 {
                    let of = |stats: &crate::heap::Stats| (stats.payload_bytes, stats.spilled_bytes);
                    assert_eq!(of(&before), of(&after), "{how:?} after {times} times");
                }
                let is_done = match result {
                    Ok(Ok(())) => true,
                    Ok(Err(SaveError::Io(error))) => {
                        let kind = if how == How::Ends { ErrorKind::WriteZero } else { ErrorKind::TimedOut };
                        assert_eq!(error.kind(), kind);
                        false
                    }
                    Ok(Err(other)) => panic!("{other}"),
                    Err(_) => how != How::Panics,
                };
                heap.check().unwrap();
                if is_done || number % 8 == 0 {
                    model.is_in(&mut heap);
                    let whole = saved(&mut heap);
                    model.is_in(&mut load(&whole, &options).unwrap());
                }
                if is_done {
                    model.is_in(&mut load(&file, &options).unwrap());
                    break;
                }
            }
        }
        drop(heap);
        assert_eq!(tier.map_or(0, |tier| crate::heap::stored::tier::Tier::spilled_bytes(&*tier)), 0);
    }
}

#[test]
fn each_read_may_fail() {
    for (mut heap, model, options, tier) in heaps() {
        let file = saved(&mut heap);
        drop(heap);
        // The core owns the tier and everything else of a heap: if it is dropped, nothing leaks.
        let users = |tier: &Option<Arc<Memory>>| tier.as_ref().map(Arc::strong_count);
        let before = users(&tier);
        for (most, how) in [7, 100, usize::MAX].into_iter().flat_map(|most| HOWS.map(|how| (most, how))) {
            for times in times() {
                let stream = Stream::new(&file[..], most, times, how);
                let result = catch_unwind(AssertUnwindSafe(|| Heap::load_from(stream, options.clone())));
                match result {
                    Ok(Ok(mut heap)) => {
                        model.is_in(&mut heap);
                        break;
                    }
                    Ok(Err(LoadError::Io(error))) => {
                        assert_eq!((error.kind(), how), (ErrorKind::TimedOut, How::Fails));
                    }
                    Ok(Err(LoadError::Foreign | LoadError::Damaged(_))) => assert_eq!(how, How::Ends),
                    Ok(Err(other)) => panic!("{other}"),
                    Err(_) => assert_eq!(how, How::Panics),
                }
                let spilled =
                    tier.as_ref().map_or(0, |tier| crate::heap::stored::tier::Tier::spilled_bytes(&**tier));
                assert_eq!(users(&tier), before);
                assert_eq!(spilled, 0, "a heap that was not made left something on its tier");
            }
        }
    }
}
