//! Lines that processes leave for the supervisor to print: a ring in which the oldest line is overwritten.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};

use super::Shared;

/// Number of messages that processes can leave for the supervisor before one is lost.
pub const MESSAGES: usize = 16;
/// Size of one message in bytes.
pub const MESSAGE_BYTES: usize = 240;

/// A line for the supervisor's standard error.
#[repr(C)]
pub struct Message {
    /// 1 + the message's number once it is complete.
    pub seq: AtomicU32,
    /// Process id of the writer.
    pub pid: AtomicU32,
    /// UTF-8, zero-terminated.
    pub text: [AtomicU8; MESSAGE_BYTES],
}

impl Shared {
    /// Leaves a line for the supervisor to print.
    pub fn say(&self, pid: u32, text: &str) {
        let number = self.message_head.fetch_add(1, AcqRel);
        let message = &self.messages[number as usize % MESSAGES];
        message.seq.store(0, Release);
        message.pid.store(pid, Relaxed);
        store_text(&message.text, text);
        message.seq.store(number.wrapping_add(1), Release);
    }
}

/// Writes a zero-terminated text, truncated to fit into `to`.
pub fn store_text(to: &[AtomicU8], text: &str) {
    let end = text.len().min(to.len() - 1);
    for (cell, byte) in to.iter().zip(&text.as_bytes()[..end]) {
        cell.store(*byte, Relaxed);
    }
    to[end].store(0, Relaxed);
}

/// Reads a zero-terminated text into `buffer`; bytes that are not UTF-8 are omitted.
pub fn load_text<'a>(from: &[AtomicU8], buffer: &'a mut [u8]) -> &'a str {
    let mut end = 0;
    for (cell, byte) in from.iter().zip(buffer.iter_mut()) {
        *byte = cell.load(Relaxed);
        if *byte == 0 {
            break;
        }
        end += 1;
    }
    let bytes = &buffer[..end];
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_and_is_cut() {
        let cells: [AtomicU8; 8] = Default::default();
        let mut buffer = [0; 8];
        store_text(&cells, "zstd:1");
        assert_eq!(load_text(&cells, &mut buffer), "zstd:1");
        store_text(&cells, "a long name");
        assert_eq!(load_text(&cells, &mut buffer), "a long ");
    }
}
