//! Strings: plain bytes, and escapes.

use super::lex::{Lexer, fill};
use super::{ReadError, Wrong};

impl Lexer<'_> {
    /// Reads a string and appends at most `most` of its bytes to `to`; returns whether these were all of it.
    #[inline]
    pub fn string(&mut self, to: &mut Vec<u8>, most: usize) -> Result<bool, ReadError> {
        self.need(b'"', "a string")?;
        let (begin, mut is_whole) = (to.len(), true);
        loop {
            let there = &self.buffer[self.at..self.end];
            let is_plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
            let len = there.iter().position(|byte| !is_plain(byte)).unwrap_or(there.len());
            let fits = len.min(most - (to.len() - begin));
            to.extend_from_slice(&there[..fits]);
            is_whole &= fits == len;
            self.at += len;
            match self.peek()? {
                None => return self.wrong(Wrong::Ends),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(is_whole);
                }
                Some(b'\\') => {
                    self.at += 1;
                    let (bytes, len) = self.escape()?;
                    if to.len() - begin + len <= most {
                        to.extend_from_slice(&bytes[..len]);
                    } else {
                        is_whole = false;
                    }
                }
                Some(byte) if byte < 0x20 => {
                    return self.expected("no control byte but an escape, as \\u000a,");
                }
                // The buffer was used up.
                Some(_) => (),
            }
        }
    }

    /// Decodes what follows a backslash: up to four bytes.
    fn escape(&mut self) -> Result<([u8; 4], usize), ReadError> {
        let byte = match self.peek()? {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return self.expected("an escape"),
        };
        self.at += 1;
        Ok(([byte, 0, 0, 0], 1))
    }

    fn unicode(&mut self) -> Result<([u8; 4], usize), ReadError> {
        let mut unit = self.hex()?;
        // Half of a surrogate pair. The other half may follow; if not, the half stands for itself, in three
        // bytes like other code points of its size.
        if unit & 0xfc00 == 0xd800 && self.is_next(b"\\u")? {
            let second = self.hex_ahead(2)?;
            if let Some(second) = second.filter(|second| second & 0xfc00 == 0xdc00) {
                self.at += 6;
                unit = 0x1_0000 + ((unit & 0x3ff) << 10 | second & 0x3ff);
            }
        }
        let low = |shift: u32| (unit >> shift & 0x3f) as u8 | 0x80;
        Ok(match unit {
            0..0x80 => ([unit as u8, 0, 0, 0], 1),
            0x80..0x800 => ([(unit >> 6) as u8 | 0xc0, low(0), 0, 0], 2),
            0x800..0x1_0000 => ([(unit >> 12) as u8 | 0xe0, low(6), low(0), 0], 3),
            _ => ([(unit >> 18) as u8 | 0xf0, low(12), low(6), low(0)], 4),
        })
    }

    fn hex(&mut self) -> Result<u32, ReadError> {
        match self.hex_ahead(0)? {
            Some(unit) => {
                self.at += 4;
                Ok(unit)
            }
            None if self.end - self.at < 4 => {
                self.at = self.end;
                self.wrong(Wrong::Ends)
            }
            None => self.expected("four hexadecimal digits"),
        }
    }

    /// Four hexadecimal digits after the next `skip` bytes, without taking any.
    fn hex_ahead(&mut self, skip: usize) -> Result<Option<u32>, ReadError> {
        self.ahead(skip + 4)?;
        let Some(digits) = self.buffer[self.at..self.end].get(skip..skip + 4) else { return Ok(None) };
        let digit = |unit: u32, byte: &u8| Some(unit << 4 | char::from(*byte).to_digit(16)?);
        Ok(digits.iter().try_fold(0, digit))
    }

    fn is_next(&mut self, bytes: &[u8]) -> Result<bool, ReadError> {
        self.ahead(bytes.len())?;
        Ok(self.buffer[self.at..self.end].starts_with(bytes))
    }

    /// Makes sure that this many bytes are in the buffer, if the input has them.
    fn ahead(&mut self, count: usize) -> Result<(), ReadError> {
        if self.end - self.at < count {
            self.before += self.at as u64;
            self.buffer.copy_within(self.at..self.end, 0);
            (self.at, self.end) = (0, self.end - self.at);
            match fill(&mut *self.from, &mut self.buffer[self.end..][..count - self.end]) {
                Ok(len) => self.end += len,
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }
}
