//! Reads JSON byte by byte, as a stream of tokens without a tree of values.
//!
//! It is not serde_json because names need not be UTF-8, directories are nested as deeply as the tree, and
//! errors report their position. Cutting out entries for serde_json takes a third more time (2 million
//! entries: 0.19 µs each instead of 0.14).

use std::io::{self, Cursor, ErrorKind, Read};

use memfold_packed::{FRAME_HEAD, HEAD, Packed, packed, skippable};

use super::{ReadError, Wrong};

/// The number of bytes read at once.
const BUFFER: usize = 128 << 10;
/// The most levels of an unknown value.
const LEVELS: usize = 1000;

const BINARY: &[u8] = b"\xbfncduEX1";

/// The input, and the position in it.
pub struct Lexer<'r> {
    pub(super) from: Box<dyn Read + 'r>,
    pub(super) buffer: Box<[u8]>,
    pub(super) at: usize,
    pub(super) end: usize,
    /// The number of bytes before those in the buffer.
    pub(super) before: u64,
}

/// Reads until the buffer is full or the input ends.
pub(super) fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match from.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Reads enough of the beginning to identify the format.
fn top_up(from: &mut dyn Read, head: &mut Vec<u8>) -> Result<(), ReadError> {
    let begin = head.len();
    head.resize(HEAD, 0);
    let len = fill(from, &mut head[begin..]).map_err(ReadError::Io)?;
    head.truncate(begin + len);
    Ok(())
}

impl<'r> Lexer<'r> {
    /// Examines the beginning; input compressed by zstd is decompressed.
    pub fn new(mut from: impl Read + 'r) -> Result<Self, ReadError> {
        let mut head = Vec::new();
        top_up(&mut from, &mut head)?;
        let wrong = |wrong| Err(ReadError::Input { offset: 0, entry: Vec::new(), wrong });
        if head.is_empty() {
            return wrong(Wrong::Empty);
        }
        // After any skippable frames, the beginning shows how it is compressed.
        while let Some(len) = skippable(&head) {
            let there = len.min((head.len() - FRAME_HEAD) as u64);
            head.drain(..FRAME_HEAD + there as usize);
            io::copy(&mut from.by_ref().take(len - there), &mut io::sink()).map_err(ReadError::Io)?;
            top_up(&mut from, &mut head)?;
        }
        if head.starts_with(BINARY) {
            return wrong(Wrong::Binary);
        }
        let packed = packed(&head);
        let from = Cursor::new(head).chain(from);
        let from: Box<dyn Read + 'r> = match packed {
            None => Box::new(from),
            Some(Packed { by: "zstd", .. }) => Box::new(zstd::Decoder::new(from).map_err(ReadError::Io)?),
            Some(Packed { by, with }) => return wrong(Wrong::Compressed(by, with)),
        };
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Ok(Lexer { from, buffer, at: 0, end: 0, before: 0 })
    }

    /// The number of bytes taken so far.
    pub fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// An error at the current position.
    #[cold]
    pub fn wrong<T>(&self, wrong: Wrong) -> Result<T, ReadError> {
        Err(ReadError::Input { offset: self.offset(), entry: Vec::new(), wrong })
    }

    /// The error that this was expected here or, if the input has ended, that it ended too early.
    #[cold]
    pub(super) fn expected<T>(&mut self, what: &'static str) -> Result<T, ReadError> {
        match self.peek()? {
            None => self.wrong(Wrong::Ends),
            Some(_) => self.wrong(Wrong::Expected(what)),
        }
    }

    /// Converts an error of the file or of the decompressor.
    #[cold]
    pub(super) fn failed(&self, error: io::Error) -> ReadError {
        let wrong = match error.kind() {
            // A truncated compressed file.
            ErrorKind::UnexpectedEof => Wrong::Ends,
            // zstd's message for windows larger than 128 MiB, which is the only way to recognise this error.
            ErrorKind::Other if error.to_string().contains("too much memory") => Wrong::Window,
            _ => return ReadError::Io(error),
        };
        ReadError::Input { offset: self.offset(), entry: Vec::new(), wrong }
    }

    #[cold]
    fn refill(&mut self) -> Result<Option<u8>, ReadError> {
        self.before += self.end as u64;
        (self.at, self.end) = (0, 0);
        loop {
            match self.from.read(&mut self.buffer) {
                Ok(0) => return Ok(None),
                Ok(len) => {
                    self.end = len;
                    return Ok(Some(self.buffer[0]));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    /// The next byte, without taking it.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Option<u8>, ReadError> {
        if self.at < self.end { Ok(Some(self.buffer[self.at])) } else { self.refill() }
    }

    /// The next byte that is not white space, without taking it.
    #[inline]
    pub fn next(&mut self) -> Result<Option<u8>, ReadError> {
        loop {
            match self.peek()? {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                other => return Ok(other),
            }
        }
    }

    /// Takes this byte if it is the next one after white space.
    #[inline]
    pub fn take(&mut self, byte: u8) -> Result<bool, ReadError> {
        let is_next = self.next()? == Some(byte);
        self.at += usize::from(is_next);
        Ok(is_next)
    }

    /// Takes this byte, which must be the next one.
    #[inline]
    pub fn need(&mut self, byte: u8, what: &'static str) -> Result<(), ReadError> {
        if self.take(byte)? { Ok(()) } else { self.expected(what) }
    }

    fn word(&mut self, word: &'static str) -> Result<(), ReadError> {
        for byte in word.bytes() {
            if self.peek()? != Some(byte) {
                return self.expected("true, false or null");
            }
            self.at += 1;
        }
        Ok(())
    }

    /// `true` or `false`.
    pub fn boolean(&mut self) -> Result<bool, ReadError> {
        match self.next()? {
            Some(b't') => self.word("true").map(|()| true),
            Some(b'f') => self.word("false").map(|()| false),
            _ => self.expected("true or false"),
        }
    }

    /// A non-negative integer; `key` is its field.
    #[inline]
    pub fn number(&mut self, key: &'static str) -> Result<u64, ReadError> {
        let number = self.digits(key)?;
        match self.peek()? {
            Some(b'.' | b'e' | b'E') => self.wrong(Wrong::Fraction(key)),
            _ => Ok(number),
        }
    }

    #[inline]
    fn digits(&mut self, key: &'static str) -> Result<u64, ReadError> {
        let first = match self.next()? {
            Some(digit @ b'0'..=b'9') => digit,
            Some(b'-') => return self.wrong(Wrong::Negative(key)),
            _ => return self.expected("a number from 0 on"),
        };
        self.at += 1;
        let mut number = u64::from(first - b'0');
        while let Some(digit @ b'0'..=b'9') = self.peek()? {
            if first == b'0' {
                return self.expected("a number that does not begin with 0");
            }
            let more = number.checked_mul(10).and_then(|number| number.checked_add(u64::from(digit - b'0')));
            let Some(more) = more else { return self.wrong(Wrong::Number(key)) };
            number = more;
            self.at += 1;
        }
        Ok(number)
    }

    /// A time. Fractions of a second are dropped. A time before 1970 is a negative number, or that plus 2^64.
    pub fn time(&mut self, key: &'static str) -> Result<i64, ReadError> {
        let is_negative = self.take(b'-')?;
        let number = self.digits(key)?;
        if self.peek()? == Some(b'.') {
            self.at += 1;
            let Some(b'0'..=b'9') = self.peek()? else { return self.expected("a digit") };
            while let Some(b'0'..=b'9') = self.peek()? {
                self.at += 1;
            }
        }
        match (self.peek()?, is_negative) {
            (Some(b'e' | b'E'), _) => self.expected("a number without exponent"),
            (_, false) => Ok(number as i64),
            (_, true) if number <= 1 << 63 => Ok((number as i64).wrapping_neg()),
            (_, true) => self.wrong(Wrong::Number(key)),
        }
    }

    /// Skips any value.
    pub fn skip(&mut self) -> Result<(), ReadError> {
        self.skip_all(Vec::new())
    }

    /// Skips the rest of a list whose bracket was taken.
    pub fn skip_list(&mut self) -> Result<(), ReadError> {
        if self.take(b']')? { Ok(()) } else { self.skip_all(vec![b']']) }
    }

    /// Skips a value and everything up to the end of the lists and objects that are open.
    fn skip_all(&mut self, mut closing: Vec<u8>) -> Result<(), ReadError> {
        let mut nothing = Vec::new();
        loop {
            let mut is_open = false;
            match self.next()? {
                Some(b'"') => _ = self.string(&mut nothing, 0)?,
                Some(b't') => self.word("true")?,
                Some(b'f') => self.word("false")?,
                Some(b'n') => self.word("null")?,
                Some(b'-' | b'0'..=b'9') => self.skip_number()?,
                Some(open @ (b'[' | b'{')) => {
                    if closing.len() == LEVELS {
                        return self.wrong(Wrong::Deep);
                    }
                    self.at += 1;
                    closing.push(if open == b'[' { b']' } else { b'}' });
                    is_open = true;
                }
                _ => return self.expected("a value"),
            }
            // After a value: closing brackets, or the next value.
            loop {
                let Some(close) = closing.last().copied() else { return Ok(()) };
                if self.take(close)? {
                    closing.pop();
                    is_open = false;
                    continue;
                }
                if !is_open {
                    self.need(b',', "a comma or the end of a list or an object")?;
                }
                if close == b'}' {
                    self.string(&mut nothing, 0)?;
                    self.need(b':', "a colon")?;
                }
                break;
            }
        }
    }

    fn skip_number(&mut self) -> Result<(), ReadError> {
        // The number's value does not matter.
        while let Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') = self.peek()? {
            self.at += 1;
        }
        Ok(())
    }
}
