//! `--listen`: answers Prometheus and other clients over plain HTTP/1.1.
//!
//! Each connection carries one request, and a thread reads and answers it. The number of threads is bounded,
//! and no client can occupy one for long. Looks are taken one after the other.
//!
//! ```text
//!   accept ──> thread: reads the request ──> look ──> the same thread: writes the answer
//! ```

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::look::Looker;
use super::prometheus::{self, CONTENT_TYPE};
use crate::output::failure::{Failure, say};

/// The time limit for a request together with its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The maximum number of simultaneous connections; others wait in the kernel.
const MOST: usize = 64;
/// How often to check whether the tree has ended.
const LOOKS: Duration = Duration::from_secs(1);
/// The maximum length of a request's head.
const LONGEST: usize = 8 << 10;
const PAGE: &str = "<!doctype html><title>memfold</title><p><a href=\"/metrics\">metrics</a></p>\n";

/// Answers until a signal ends the process.
pub fn serve(address: &str, mut looker: Looker) -> Result<i32, Failure> {
    let full = if address.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("127.0.0.1:{address}")
    } else {
        address.to_owned()
    };
    let listener = TcpListener::bind(&full).map_err(|error| {
        Failure::new(format!("cannot listen at '{address}': {error}; give a free port, or ADDRESS:PORT"))
    })?;
    if let Ok(at) = listener.local_addr() {
        say(&format!("metrics are at http://{at}/metrics"));
    }
    let (to, asked) = mpsc::channel::<Wanted>();
    std::thread::Builder::new()
        .spawn(move || accept(&listener, &to))
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    loop {
        match asked.recv_timeout(LOOKS) {
            // Ignore a client that has gone away meanwhile.
            Ok(answer) => drop(answer.send(prometheus::text(&looker.look()))),
            Err(RecvTimeoutError::Timeout) => drop(looker.look()),
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::new("clients can no longer connect")),
        }
        if looker.has_ended() {
            return Ok(0);
        }
    }
}

/// Where to send the metrics that a client has asked for.
type Wanted = SyncSender<String>;

fn accept(listener: &TcpListener, to: &Sender<Wanted>) {
    let connections = Arc::new(AtomicUsize::new(0));
    loop {
        let pause = || std::thread::sleep(Duration::from_millis(20));
        if connections.load(Relaxed) >= MOST {
            pause();
            continue;
        }
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) {
                    // There may be too few descriptors, for example.
                    pause();
                }
                continue;
            }
        };
        connections.fetch_add(1, Relaxed);
        let (to, own) = (to.clone(), Arc::clone(&connections));
        let answering = move || {
            // Ignore a client that goes away before the end.
            let _ = answer(stream, &to);
            own.fetch_sub(1, Relaxed);
        };
        if std::thread::Builder::new().spawn(answering).is_err() {
            connections.fetch_sub(1, Relaxed);
        }
    }
}

fn answer(mut stream: TcpStream, to: &Sender<Wanted>) -> std::io::Result<()> {
    let head = head(&mut stream)?;
    let metrics = || {
        let (answer, comes) = sync_channel(1);
        let asked = to.send(answer).map_err(|_| ErrorKind::BrokenPipe);
        asked.and_then(|()| comes.recv().map_err(|_| ErrorKind::BrokenPipe))
    };
    let line = head.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let html = "text/html; charset=utf-8";
    let (status, kind, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => ("200 OK", CONTENT_TYPE, metrics()?),
        (b"GET" | b"HEAD", b"/") => ("200 OK", html, PAGE.to_owned()),
        (b"GET" | b"HEAD", _) => ("404 Not Found", html, PAGE.to_owned()),
        _ => ("405 Method Not Allowed", html, String::new()),
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let length = body.len();
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n"
    );
    if method != b"HEAD" {
        text += &body;
    }
    write(&mut stream, text.as_bytes())
}

/// Writes the whole text, if the client reads it in time.
fn write(stream: &mut TcpStream, mut text: &[u8]) -> std::io::Result<()> {
    let end = Instant::now() + PATIENCE;
    while !text.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        let written = stream.write(text)?;
        if written == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        text = &text[written..];
    }
    Ok(())
}

/// Reads the request up to the empty line.
fn head(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let end = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") && !head.ends_with(b"\n\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > LONGEST {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&piece[..count]),
        }
    }
    Ok(head)
}
