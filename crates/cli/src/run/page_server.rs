//! Hands the shared page to processes that cannot open it by its path: processes of another user, those in a pid
//! namespace with a `/proc` of its own, and those that begin after the supervisor has ended.
//!
//! It listens on an abstract socket. The environment of the tree, which only the tree's own users can read,
//! contains the socket's name and a secret. A process that sends the secret gets a descriptor of the page and its
//! process id as seen from here. When the program has ended and other processes of its tree live on, the
//! supervisor leaves a process behind that goes on answering while they live.

use std::io::{Read, Result};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use memfold_proc::{namespace, process};
use memfold_shared::page::Shared;
use nix::poll::{PollFd, PollFlags, PollTimeout};

use crate::output::failure::Failure;
use crate::settings::spill::random;
use crate::sys;

/// A client that connects and sends nothing is dropped after this time.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often the process that is left behind checks whether it is still needed.
const LOOK: Duration = Duration::from_secs(1);
/// It stays at least this long after the last client.
const STAYS: Duration = Duration::from_secs(5);

/// The server; see the module.
#[derive(Clone)]
pub struct PageServer {
    inner: Arc<Inner>,
}

struct Inner {
    listener: UnixListener,
    name: String,
    secret: String,
    page: OwnedFd,
    /// Held from the moment a connection is accepted until it is answered.
    answering: Mutex<()>,
    /// The supervisor is about to end: it leaves new connections to the process that stays behind.
    ends: AtomicBool,
}

impl PageServer {
    /// Opens the server for this file.
    pub fn open(page: OwnedFd) -> std::result::Result<Self, Failure> {
        let hex = |bytes: [u8; 16]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let name = format!("memfold-{}-{}", std::process::id(), &hex(random()?)[..8]);
        let secret = hex(random()?);
        let listen = || {
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
            Ok::<_, std::io::Error>(UnixListener::from(sys::above_standard(listener.into())?))
        };
        let listener =
            listen().map_err(|e| Failure::new(format!("cannot listen for processes of the tree: {e}")))?;
        Ok(Self {
            inner: Arc::new(Inner {
                listener,
                name,
                secret,
                page,
                answering: Mutex::new(()),
                ends: AtomicBool::new(false),
            }),
        })
    }

    /// What the environment says about it.
    pub fn address(&self) -> String {
        format!("{};{}", self.inner.name, self.inner.secret)
    }

    /// The descriptors that it has open.
    pub fn descriptors(&self) -> [RawFd; 2] {
        [self.inner.listener.as_raw_fd(), self.inner.page.as_raw_fd()]
    }

    /// Answers from now on, in a thread.
    pub fn serve(&self) -> Result<()> {
        let inner = self.inner.clone();
        sys::start_thread(move || {
            loop {
                _ = inner.is_asked(PollTimeout::NONE);
                let _answering = inner.answering.lock();
                if inner.ends.load(SeqCst) {
                    return;
                }
                match inner.listener.accept() {
                    Ok((stream, _)) => _ = inner.answer(stream, Some(std::process::id() as i32)),
                    // For example, no descriptors are left.
                    Err(_) => std::thread::sleep(PATIENCE),
                }
            }
        })
    }

    /// Called when the program has ended: if others of its tree live on, leaves a process behind that answers
    /// them.
    pub fn leave(self, page: &'static Shared) {
        // This process answers every connection that it has accepted; the next one answers all others. The flag
        // is set first, so that a crowd of clients cannot keep the lock from this thread.
        self.inner.ends.store(true, SeqCst);
        drop(self.inner.answering.lock());
        if !sys::has_children() || !matches!(sys::fork_aside(), Ok(sys::Fork::Child)) {
            return;
        }
        sys::become_daemon();
        sys::close_all_but(&self.descriptors());
        let mut last = Instant::now();
        let is_alive = || {
            page.live_slots()
                .any(|slot| !process::has_ended(slot.pid.load(std::sync::atomic::Ordering::Relaxed) as i32))
        };
        while last.elapsed() < STAYS || is_alive() {
            if !self.inner.is_asked(PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::MAX)) {
                continue;
            }
            if let Ok((stream, _)) = self.inner.listener.accept() {
                let _ = self.inner.answer(stream, None);
                last = Instant::now();
            }
        }
        sys::exit_now(0)
    }
}

impl Inner {
    /// Waits at most this long for a connection, and returns whether there is one.
    fn is_asked(&self, limit: PollTimeout) -> bool {
        let mut wait = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        nix::poll::poll(&mut wait, limit).unwrap_or(0) != 0
    }

    /// While there is a supervisor, it knows the processes that it has started.
    fn answer(&self, mut stream: UnixStream, supervisor: Option<i32>) -> Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut said = vec![0; self.secret.len()];
        stream.read_exact(&mut said)?;
        if said != self.secret.as_bytes() {
            return Ok(());
        }
        let pid = sys::peer(&stream)?;
        if supervisor.is_some_and(|supervisor| !namespace::is(pid, pid, supervisor)) {
            return Ok(());
        }
        sys::send_descriptor(&stream, &pid.to_le_bytes(), &self.page)
    }
}
