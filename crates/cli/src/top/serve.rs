//! `--listen`: answers Prometheus, and whoever else asks, by plain HTTP/1.1.
//!
//! One request a connection, one connection after the other: a look takes milliseconds, and nobody has more than two seconds to ask.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::look::Looker;
use super::prometheus::{self, CONTENT_TYPE};
use crate::failure::{Failure, say};

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Its head is no longer.
const LONGEST: usize = 8 << 10;
const PAGE: &str = "<!doctype html><title>memfold</title><p><a href=\"/metrics\">metrics</a></p>\n";

/// Answers until a signal ends it.
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
    loop {
        match listener.accept() {
            // Who goes away in the middle is not missed.
            Ok((stream, _)) => drop(answer(stream, &mut looker)),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Too few descriptors, for the moment.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
        if looker.has_ended() {
            return Ok(0);
        }
    }
}

fn answer(mut stream: TcpStream, looker: &mut Looker) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = head(&mut stream)?;
    let line = head.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let html = "text/html; charset=utf-8";
    let (status, kind, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => ("200 OK", CONTENT_TYPE, prometheus::text(&looker.look())),
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
    stream.write_all(text.as_bytes())
}

/// What is asked for, to the empty line.
fn head(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let end = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
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
