//! What a running device reports about itself: one JSON object for each connection to its socket. A directory
//! contains the sockets of all devices.
//!
//! The sockets are named `PID.sock`. Root's devices are in `/run/memfold/disk`, those of other users in
//! `$XDG_RUNTIME_DIR/memfold/disk` or, without that variable, in `/tmp/memfold-UID/disk`. Field names are a
//! contract: new ones may be added, existing ones never change.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};

use crate::{Disk, Stats};

/// The time that a client has to receive the answer.
const PATIENCE: Duration = Duration::from_secs(2);
const STACK: usize = 128 << 10;
/// The longest answer of a device.
const LONGEST: usize = 64 << 10;

/// How users identify a device.
#[derive(Debug, Clone, Serialize)]
pub struct About {
    /// Its name.
    pub name: String,
    /// How the device is accessed: `nbd` or `fuse`.
    pub door: &'static str,
    /// Its address: a socket or a file. In JSON, an address that is not text is also in `address_hex`.
    #[serde(serialize_with = "text")]
    pub address: Option<PathBuf>,
}

impl About {
    /// Its name and address, for messages.
    pub fn shown(&self) -> String {
        let name = memfold_escape::shown(self.name.as_bytes());
        match &self.address {
            Some(address) => format!("{name} ({})", memfold_escape::path(address)),
            None => name,
        }
    }
}

#[derive(Serialize)]
struct Status<'d> {
    version: &'static str,
    #[serde(flatten)]
    about: &'d About,
    #[serde(skip_serializing_if = "Option::is_none")]
    address_hex: Option<String>,
    pid: u32,
    streams: usize,
    fast_codec: &'static str,
    dense_codec: Option<&'static str>,
    block_bytes: usize,
    #[serde(flatten)]
    stats: Stats,
}

fn text<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| memfold_escape::text(path.as_os_str().as_bytes())).serialize(to)
}

fn hex(path: &Path) -> Option<String> {
    let bytes = path.as_os_str().as_bytes();
    path.to_str().is_none().then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The address in a device's answer, byte by byte.
pub fn address(device: &serde_json::Value) -> Option<PathBuf> {
    let unhex = |hex: &str| {
        let digits = hex.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).ok());
        digits.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect::<Option<Vec<u8>>>()
    };
    let bytes = device["address_hex"].as_str().and_then(unhex);
    bytes.map(OsString::from_vec).or_else(|| Some(device["address"].as_str()?.into())).map(PathBuf::from)
}

impl Disk {
    /// The answer of [`Server`].
    pub fn status(&self, about: &About) -> String {
        let status = Status {
            version: env!("CARGO_PKG_VERSION"),
            about,
            address_hex: about.address.as_ref().and_then(|path| hex(path)),
            pid: std::process::id(),
            streams: self.works.count(),
            fast_codec: self.options.fast.name(),
            dense_codec: self.options.dense.map(|dense| dense.name()),
            block_bytes: self.layout.bytes(),
            stats: self.stats(),
        };
        serde_json::to_string(&status)
            .unwrap_or_else(|_| unreachable!("names are texts, and nothing else can fail"))
    }
}

fn user() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |it| it.uid())
}

fn own_place() -> PathBuf {
    let user = user();
    let base = match std::env::var_os("XDG_RUNTIME_DIR").filter(|_| user != 0) {
        Some(directory) => PathBuf::from(directory).join("memfold"),
        None if user == 0 => "/run/memfold".into(),
        None => format!("/tmp/memfold-{user}").into(),
    };
    base.join("disk")
}

/// A server that answers until it is dropped.
pub struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a thread that answers.
    pub fn start(disk: &Arc<Disk>, about: About) -> io::Result<Self> {
        let place = own_place();
        // No other user may create files there.
        let mode = if user() == 0 { 0o755 } else { 0o700 };
        DirBuilder::new().recursive(true).mode(mode).create(&place)?;
        let it = fs::symlink_metadata(&place)?;
        if it.uid() != user() || it.mode() & 0o022 != 0 {
            return Err(io::Error::other(format!(
                "{} belongs to another user",
                memfold_escape::path(&place)
            )));
        }
        let path = place.join(format!("{}.sock", std::process::id()));
        // This may be the socket of a dead process that had the same ID.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        let (disk, stop) = (Arc::clone(disk), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread =
            thread::Builder::new().name("memfold-status".into()).stack_size(STACK).spawn(move || {
                for stream in listener.incoming() {
                    if stopped.load(Relaxed) {
                        return;
                    }
                    let Ok(mut stream) = stream else { continue };
                    // Errors are ignored: a client that has gone away needs no answer.
                    let _ = stream.set_write_timeout(Some(PATIENCE));
                    let _ = stream.write_all(disk.status(&about).as_bytes());
                }
            })?;
        Ok(Server { path, stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // The thread waits for a connection, so this wakes it.
        let woken = UnixStream::connect(&self.path).is_ok();
        let _ = fs::remove_file(&self.path);
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

/// The sockets of all devices that this user may query. Removes sockets of killed devices.
pub fn sockets() -> Vec<PathBuf> {
    let mut places = vec![(own_place(), user()), ("/run/memfold/disk".into(), 0)];
    if user() == 0 {
        let within = |directory: &str| {
            fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
        };
        let number =
            |path: &Path, before: &str| path.file_name()?.to_str()?.strip_prefix(before)?.parse().ok();
        let of_login =
            within("/run/user").filter_map(|path| Some((path.join("memfold/disk"), number(&path, "")?)));
        let without = within("/tmp").filter_map(|path| Some((path.join("disk"), number(&path, "memfold-")?)));
        places.extend(of_login.chain(without));
    }
    places.sort();
    places.dedup();
    let mut sockets: Vec<PathBuf> = places
        .iter()
        .filter(|(place, owner)| is_of(place, *owner))
        .flat_map(|(place, owner)| {
            let entries = fs::read_dir(place).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| is_alive(path, *owner))
        })
        .collect();
    sockets.sort();
    sockets
}

/// Whether only `owner` or root can have placed something there or redirected the path.
fn is_of(place: &Path, owner: u32) -> bool {
    [Some(place), place.parent()].into_iter().flatten().all(|directory| {
        fs::symlink_metadata(directory)
            .is_ok_and(|it| it.is_dir() && it.uid() == owner && it.mode() & 0o022 == 0)
    })
}

/// Whether this is the socket of a live process. A killed device leaves its socket behind, which is removed
/// here.
fn is_alive(path: &Path, owner: u32) -> bool {
    let is_socket = |it: fs::Metadata| it.file_type().is_socket() && it.uid() == owner;
    let process = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".sock")?.parse::<u32>().ok());
    let (Some(process), true) = (process, fs::symlink_metadata(path).is_ok_and(is_socket)) else {
        return false;
    };
    // A process in another container is not visible from here, but answers.
    let refuses =
        |path| UnixStream::connect(path).is_err_and(|it| it.kind() == io::ErrorKind::ConnectionRefused);
    let is_gone = !Path::new("/proc").join(process.to_string()).exists() && refuses(path);
    if is_gone {
        let _ = fs::remove_file(path);
    }
    !is_gone
}

/// The answer of the device at a socket; `None` if it has just ended.
pub fn ask(socket: &Path) -> io::Result<Option<String>> {
    let mut stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    stream.shutdown(Shutdown::Write)?;
    let deadline = Instant::now() + PATIENCE;
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    while text.len() < LONGEST {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => break,
            len => text.extend_from_slice(&part[..len]),
        }
    }
    let text = String::from_utf8(text).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((!text.is_empty()).then_some(text))
}
