//! Short texts without an allocator.

/// A message for the supervisor, built without allocating; cut off if it is too long.
pub struct Text {
    bytes: [u8; 200],
    length: usize,
}

impl Text {
    /// An empty text.
    pub fn new() -> Self {
        Text { bytes: [0; 200], length: 0 }
    }

    /// The text so far.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("(text that is not UTF-8)")
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
