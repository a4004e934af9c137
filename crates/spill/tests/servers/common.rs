//! Operations for testing all tiers, and proxies that break or delay connections.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::Duration;

use memfold_spill::{Target, Terms, Tier, Trouble};

pub const DEADLINE: Duration = Duration::from_secs(5);

pub fn terms(most: Option<u64>, deadline: Duration) -> Terms {
    Terms { most, deadline, ..Terms::default() }
}

pub fn open(target: &str) -> Box<dyn Tier> {
    target.parse::<Target>().unwrap().open("test", terms(None, DEADLINE)).unwrap()
}

/// Opens a tier on a server that has just been started.
pub fn open_when_up(target: &str) -> Box<dyn Tier> {
    let target: Target = target.parse().unwrap();
    let begin = std::time::Instant::now();
    loop {
        match target.open("test", terms(None, DEADLINE)) {
            Ok(tier) => return tier,
            Err(bad) => assert!(begin.elapsed() < DEADLINE * 4, "not within 20 s: {bad}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn refusal(target: &str) -> String {
    let opened = target.parse::<Target>().unwrap().open("test", terms(None, DEADLINE));
    opened.err().expect("it was opened").0
}

/// A proxy between a tier and its server. It forwards data, and closes both sides once a given number of
/// bytes has passed.
pub struct Cut {
    pub port: u16,
    left: Arc<AtomicUsize>,
}

impl Cut {
    pub fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let shared = left.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (Ok(near), Ok(far)) = (near, TcpStream::connect(("127.0.0.1", server))) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to, left) =
                        (from.try_clone().unwrap(), to.try_clone().unwrap(), shared.clone());
                    std::thread::spawn(move || pass(from, to, &left));
                }
            }
        });
        Cut { port, left }
    }

    pub fn after(&self, bytes: usize) {
        self.left.store(bytes, SeqCst);
    }
}

/// A proxy between a tier and its server. When told to, it takes the client's next request, closes the
/// connection to the client, and delivers the request a second later.
pub struct Late {
    pub port: u16,
    state: Arc<AtomicUsize>,
}

const PASSES: usize = 0;
const HOLDS: usize = 1;
const HELD: usize = 2;
const DELIVERED: usize = 3;

impl Late {
    pub fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(AtomicUsize::new(PASSES));
        let shared = state.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (Ok(near), Ok(far)) = (near, TcpStream::connect(("127.0.0.1", server))) else { continue };
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
                std::thread::spawn(move || pass(back.0, back.1, &AtomicUsize::new(usize::MAX)));
                let state = shared.clone();
                std::thread::spawn(move || pass_late(near, far, &state));
            }
        });
        Late { port, state }
    }

    pub fn hold_back_one(&self) {
        self.state.store(HOLDS, SeqCst);
    }

    pub fn wait_until_delivered(&self) {
        super::started::until("what was held back", || self.state.load(SeqCst) == DELIVERED);
    }
}

fn pass_late(mut near: TcpStream, mut far: TcpStream, state: &AtomicUsize) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(count @ 1..) = near.read(&mut buffer) {
        if state.compare_exchange(HOLDS, HELD, SeqCst, SeqCst).is_err() {
            if far.write_all(&buffer[..count]).is_err() {
                break;
            }
            continue;
        }
        let mut all = buffer[..count].to_vec();
        // The rest of the request.
        near.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        while let Ok(count @ 1..) = near.read(&mut buffer) {
            all.extend_from_slice(&buffer[..count]);
        }
        let _ = near.shutdown(Shutdown::Both);
        std::thread::sleep(Duration::from_secs(1));
        far.write_all(&all).unwrap();
        // Time for the server to execute it.
        std::thread::sleep(Duration::from_millis(300));
        state.store(DELIVERED, SeqCst);
        return;
    }
    let _ = far.shutdown(Shutdown::Both);
}

fn pass(mut from: TcpStream, mut to: TcpStream, left: &AtomicUsize) {
    let mut buffer = [0; 1000];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let may = left.load(SeqCst);
        let passes = count.min(may);
        let _ = to.write_all(&buffer[..passes]);
        if may != usize::MAX {
            left.store(may - passes, SeqCst);
        }
        if passes < count {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// The bytes of a batch, determined by its number, and different for each number.
pub fn bytes(batch: u64, len: usize) -> Vec<u8> {
    let mut state = batch.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(len).collect()
}

pub fn read(tier: &dyn Tier, batch: u64, from: usize, len: usize) -> Result<Vec<u8>, Trouble> {
    let mut into = vec![0; len];
    tier.get(batch, from as u32, &mut into).map(|()| into)
}

/// Random operations by several threads, compared with what was put.
pub fn exercise(tier: &dyn Tier, steps: usize) {
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            scope.spawn(move || {
                let mut kept: HashMap<u64, usize> = HashMap::new();
                let mut random = bytes(1000 + thread, steps * 8).into_iter();
                let mut next = || random.by_ref().take(4).fold(0, |all, byte| all << 8 | usize::from(byte));
                for step in 0..steps as u64 {
                    let (what, which) = (next() % 8, next());
                    let chosen = kept.keys().copied().nth(which.checked_rem(kept.len()).unwrap_or(0));
                    match (what, chosen) {
                        (0..3, _) | (_, None) => {
                            let (batch, len) = (thread << 32 | step, 1 + which % (128 << 10));
                            // One batch, or several at once.
                            let count = if what == 0 { 1 + step % 5 } else { 1 };
                            let all: Vec<_> = (0..count)
                                .map(|nth| (batch | nth << 24, bytes(batch | nth << 24, len)))
                                .collect();
                            let some: Vec<_> =
                                all.iter().map(|(batch, bytes)| (*batch, bytes.as_slice())).collect();
                            assert_eq!(tier.put_all(&some), vec![Ok(()); some.len()]);
                            kept.extend(all.iter().map(|(batch, _)| (*batch, len)));
                        }
                        (3, Some(batch)) => {
                            tier.delete(&[batch]).unwrap();
                            kept.remove(&batch);
                        }
                        (_, Some(batch)) => {
                            let len = kept[&batch];
                            let from = which % len;
                            let part = (len - from).min(10_000);
                            assert!(
                                read(tier, batch, from, part).unwrap()
                                    == bytes(batch, len)[from..from + part]
                            );
                        }
                    }
                }
                for (batch, len) in &kept {
                    assert!(read(tier, *batch, 0, *len).unwrap() == bytes(*batch, *len));
                }
                tier.delete(&kept.into_keys().collect::<Vec<_>>()).unwrap();
            });
        }
    });
    assert_eq!(tier.room().used, 0);
}
