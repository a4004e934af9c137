//! Hands the shared page to processes that cannot open it by its path: processes of another user, processes
//! in a pid namespace with its own `/proc`, and processes that begin after the supervisor has ended.
//!
//! It listens on an abstract socket. The environment of the tree, which only the tree's own users can read,
//! contains the socket's name and a secret. A process that sends the secret gets a descriptor of the page and
//! its process id as seen from here. If other processes of the tree live on after the program, the supervisor
//! leaves a process behind that answers as long as they live.

use std::io::{Read, Result};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use memfold_proc::{maps, namespace, process};
use memfold_shared::page::Shared;
use nix::poll::{PollFd, PollFlags, PollTimeout};

use crate::output::failure::Failure;
use crate::settings::spill::random;
use crate::sys;

/// A client that connects and sends nothing is dropped after this time.
const PATIENCE: Duration = Duration::from_millis(200);
/// The interval at which the process that is left behind checks whether it is still needed.
const LOOK: Duration = Duration::from_secs(1);
/// That process stays at least this long after the last client.
const STAYS: Duration = Duration::from_secs(5);

/// The shared page's name in the list of a process's mappings: a memory file, or a System V segment.
const PAGES: [&[u8]; 2] = [b"/memfd:memfold-shared", b"/SYSV"];

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
    /// The supervisor is about to end, and leaves new connections to the process that stays behind.
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

    /// The server's name and secret, for the environment.
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
                    // There may be no free descriptors, for example.
                    Err(_) => std::thread::sleep(PATIENCE),
                }
            }
        })
    }

    /// Called when the program has ended. If other processes of its tree live on, leaves a process behind
    /// that answers them.
    pub fn leave(self, page: &'static Shared) {
        // This process answers every connection that it has accepted; its successor answers all others. The
        // flag is set first, so that many clients cannot keep this thread from the lock.
        self.inner.ends.store(true, SeqCst);
        drop(self.inner.answering.lock());
        let began = process::stat(std::process::id() as i32).map_or(0, |stat| stat.start_time);
        if !sys::has_children() || !matches!(sys::fork_aside(), Ok(sys::Fork::Child)) {
            return;
        }
        sys::become_daemon();
        sys::close_all_but(&self.descriptors());
        let mut last = Instant::now();
        let is_alive = || {
            page.live_slots()
                .any(|slot| is_of_the_tree(slot.pid.load(Relaxed) as i32, began, &self.inner.name))
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

/// Whether a slot's process lives. The id in the slot may belong to an unrelated process: ids are reused, and
/// a process in a pid namespace that could not ask for its outer id has its inner one in the slot. So the
/// process must have started after the supervisor (`began`). As far as this process can see, it must also
/// have the page mapped, or be about to look for it at `name`.
fn is_of_the_tree(pid: i32, began: u64, name: &str) -> bool {
    if process::has_ended(pid) || process::stat(pid).is_none_or(|stat| stat.start_time < began) {
        return false;
    }
    let is_page = |line: &[u8]| {
        maps::Mapping::parse(line)
            .is_some_and(|mapping| PAGES.iter().any(|name| mapping.name.starts_with(name)))
    };
    match std::fs::read(format!("/proc/{pid}/maps")) {
        Ok(text) if text.split(|byte| *byte == b'\n').any(is_page) => true,
        // During an exec the kernel shows an empty environment.
        Ok(_) => process::environment(pid)
            .is_none_or(|all| all.is_empty() || all.windows(name.len()).any(|part| part == name.as_bytes())),
        // The process belongs to another user, so nothing more can be seen.
        Err(_) => true,
    }
}

impl Inner {
    /// Waits at most this long for a connection, and returns whether there is one.
    fn is_asked(&self, limit: PollTimeout) -> bool {
        let mut wait = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        nix::poll::poll(&mut wait, limit).unwrap_or(0) != 0
    }

    /// Answers a client. While there is a supervisor, the client must descend from it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_of_the_tree_keep_the_server() {
        let began = process::stat(std::process::id() as i32).unwrap().start_time;
        // The first process of the machine or container is older.
        assert!(!is_of_the_tree(1, began, "memfold-1-2"));
        let child = |name: &str| {
            let mut child = std::process::Command::new("sleep").arg("60").env("NAME", name).spawn().unwrap();
            while process::environment(child.id() as i32).is_none_or(|all| all.is_empty()) {
                std::thread::yield_now();
            }
            let found = is_of_the_tree(child.id() as i32, began, "memfold-1-2");
            let later = is_of_the_tree(child.id() as i32, u64::MAX, "memfold-1-2");
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(!later, "it is older than the tree");
            found
        };
        // A process that looks for another page, as if the slot's id had been reused.
        assert!(!child("memfold-1-3"));
        assert!(child("memfold-1-2"));
    }
}
