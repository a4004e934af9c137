//! Short texts without an allocator.

/// Words for the supervisor, put together without allocating; cut off when too long.
pub struct Text {
    bytes: [u8; 200],
    length: usize,
}

impl Text {
    /// Nothing written yet.
    pub fn new() -> Self {
        Text { bytes: [0; 200], length: 0 }
    }

    /// What was written.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("(words that are no text)")
    }
}

impl core::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.bytes().take(self.bytes.len() - self.length) {
            self.bytes[self.length] = byte;
            self.length += 1;
        }
        Ok(())
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::new()
    }
}
