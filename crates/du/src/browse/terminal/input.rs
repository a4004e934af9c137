//! Decodes keys from the bytes that a terminal sends.
//!
//! crossterm also has a decoder, but it loses keys that arrive together with a change of size, and reads for
//! ever from a terminal that is gone.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A sequence must be complete within this time; otherwise its first byte is a key of its own: the escape key
/// sends the byte with which the sequences of other keys begin.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// The most bytes of a key.
const LONGEST: usize = 32;
const ESCAPE: u8 = 0x1b;

/// The decoder; see the module.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    /// When the last byte arrived.
    came: Option<Instant>,
}

/// The result of decoding the beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// A key, and its length in bytes.
    Key(KeyEvent, usize),
    /// This many bytes of a key that has no meaning here.
    Other(usize),
    /// The beginning of a sequence.
    Part,
}

impl Keys {
    /// Takes bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.came = Some(Instant::now());
    }

    /// Whether nothing is left, not even a part of a key.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next key.
    pub fn next(&mut self) -> Option<KeyEvent> {
        let is_all = self.came.is_none_or(|came| came.elapsed() >= PAUSE);
        self.take(is_all)
    }

    /// The same; `is_all` says whether the bytes are complete.
    fn take(&mut self, is_all: bool) -> Option<KeyEvent> {
        while !self.bytes.is_empty() {
            let (key, len) = match found(&self.bytes) {
                Found::Key(key, len) => (Some(key), len),
                Found::Other(len) => (None, len),
                Found::Part if self.bytes == [ESCAPE] && is_all => (Some(KeyCode::Esc.into()), 1),
                Found::Part if is_all || self.bytes.len() > LONGEST => (None, self.bytes.len()),
                Found::Part => return None,
            };
            self.bytes.drain(..len);
            if key.is_some() {
                return key;
            }
        }
        None
    }
}

fn key(code: KeyCode, len: usize) -> Found {
    Found::Key(code.into(), len)
}

fn found(bytes: &[u8]) -> Found {
    let plain = KeyModifiers::NONE;
    match *bytes {
        [ESCAPE, b'[', ..] => sequence(bytes),
        [ESCAPE, b'O'] | [ESCAPE] | [] => Found::Part,
        [ESCAPE, b'O', b'M', ..] => key(KeyCode::Enter, 3),
        [ESCAPE, b'O', end, ..] => named(end, 0, plain, 3),
        [ESCAPE, ESCAPE, ..] => key(KeyCode::Esc, 1),
        [ESCAPE, ref rest @ ..] => match found(rest) {
            Found::Key(key, len) => {
                Found::Key(KeyEvent::new(key.code, key.modifiers | KeyModifiers::ALT), len + 1)
            }
            Found::Other(len) => Found::Other(len + 1),
            Found::Part => Found::Part,
        },
        [b'\r', ..] => key(KeyCode::Enter, 1),
        [b'\t', ..] => key(KeyCode::Tab, 1),
        [0x7f, ..] => key(KeyCode::Backspace, 1),
        [letter @ 1..=26, ..] => {
            let letter = char::from(letter - 1 + b'a');
            Found::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL), 1)
        }
        [0..b' ', ..] => Found::Other(1),
        _ => letter(bytes),
    }
}

/// A character in UTF-8.
fn letter(bytes: &[u8]) -> Found {
    let begins = &bytes[..bytes.len().min(4)];
    let valid = match str::from_utf8(begins) {
        Ok(valid) => valid,
        Err(error) if error.valid_up_to() > 0 => {
            str::from_utf8(&begins[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => return error.error_len().map_or(Found::Part, Found::Other),
    };
    valid.chars().next().map_or(Found::Part, |letter| key(KeyCode::Char(letter), letter.len_utf8()))
}

/// `ESC [`, numbers separated by semicolons, and a final byte.
fn sequence(bytes: &[u8]) -> Found {
    // Function keys of the Linux console.
    match bytes.get(2..4) {
        Some([b'[', b'A']) => return key(KeyCode::F(1), 4),
        Some([b'[', _]) => return Found::Other(4),
        _ if bytes.get(2) == Some(&b'[') => return Found::Part,
        _ => (),
    }
    let Some(len) = bytes[2..].iter().position(|byte| !(b' '..=b'?').contains(byte)) else {
        return Found::Part;
    };
    let (text, end) = (&bytes[2..2 + len], bytes[2 + len]);
    if !(b'@'..=b'~').contains(&end) {
        // The sequence was broken off: this byte belongs to the next key.
        return Found::Other(2 + len);
    }
    let mut numbers =
        text.split(|byte| *byte == b';').map(|text| str::from_utf8(text).ok()?.parse::<u8>().ok());
    let (first, second) = (numbers.next().flatten().unwrap_or(0), numbers.next().flatten().unwrap_or(1));
    let held = second.saturating_sub(1);
    let mut modifiers = KeyModifiers::NONE;
    for (bit, modifier) in [(1, KeyModifiers::SHIFT), (2, KeyModifiers::ALT), (4, KeyModifiers::CONTROL)] {
        modifiers.set(modifier, held & bit != 0);
    }
    named(end, first, modifiers, 3 + len)
}

/// A key by its final byte and the number before it.
fn named(end: u8, number: u8, modifiers: KeyModifiers, len: usize) -> Found {
    let code = match (end, number) {
        (b'A', _) => KeyCode::Up,
        (b'B', _) => KeyCode::Down,
        (b'C', _) => KeyCode::Right,
        (b'D', _) => KeyCode::Left,
        (b'H', _) | (b'~', 1 | 7) => KeyCode::Home,
        (b'F', _) | (b'~', 4 | 8) => KeyCode::End,
        (b'P', _) | (b'~', 11) => KeyCode::F(1),
        (b'Z', _) => KeyCode::BackTab,
        (b'~', 5) => KeyCode::PageUp,
        (b'~', 6) => KeyCode::PageDown,
        _ => return Found::Other(len),
    };
    Found::Key(KeyEvent::new(code, modifiers), len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<KeyEvent> {
        let mut keys = Keys::default();
        keys.push(bytes);
        let all = std::iter::from_fn(|| keys.take(true)).collect();
        assert!(keys.is_empty());
        all
    }

    const TABLE: &[(&[u8], KeyCode, KeyModifiers)] = &[
        (b"a", KeyCode::Char('a'), KeyModifiers::NONE),
        (b"C", KeyCode::Char('C'), KeyModifiers::NONE),
        ("ü".as_bytes(), KeyCode::Char('ü'), KeyModifiers::NONE),
        ("文".as_bytes(), KeyCode::Char('文'), KeyModifiers::NONE),
        ("\u{1f600}".as_bytes(), KeyCode::Char('\u{1f600}'), KeyModifiers::NONE),
        (b"\r", KeyCode::Enter, KeyModifiers::NONE),
        (b"\t", KeyCode::Tab, KeyModifiers::NONE),
        (b"\x7f", KeyCode::Backspace, KeyModifiers::NONE),
        (b"\x03", KeyCode::Char('c'), KeyModifiers::CONTROL),
        (b"\x1a", KeyCode::Char('z'), KeyModifiers::CONTROL),
        (b"\x1bq", KeyCode::Char('q'), KeyModifiers::ALT),
        (b"\x1b[A", KeyCode::Up, KeyModifiers::NONE),
        (b"\x1b[B", KeyCode::Down, KeyModifiers::NONE),
        (b"\x1b[C", KeyCode::Right, KeyModifiers::NONE),
        (b"\x1b[D", KeyCode::Left, KeyModifiers::NONE),
        (b"\x1bOA", KeyCode::Up, KeyModifiers::NONE),
        (b"\x1bOH", KeyCode::Home, KeyModifiers::NONE),
        (b"\x1bOP", KeyCode::F(1), KeyModifiers::NONE),
        (b"\x1bOM", KeyCode::Enter, KeyModifiers::NONE),
        (b"\x1b[H", KeyCode::Home, KeyModifiers::NONE),
        (b"\x1b[F", KeyCode::End, KeyModifiers::NONE),
        (b"\x1b[1~", KeyCode::Home, KeyModifiers::NONE),
        (b"\x1b[4~", KeyCode::End, KeyModifiers::NONE),
        (b"\x1b[7~", KeyCode::Home, KeyModifiers::NONE),
        (b"\x1b[8~", KeyCode::End, KeyModifiers::NONE),
        (b"\x1b[5~", KeyCode::PageUp, KeyModifiers::NONE),
        (b"\x1b[6~", KeyCode::PageDown, KeyModifiers::NONE),
        (b"\x1b[Z", KeyCode::BackTab, KeyModifiers::NONE),
        (b"\x1b[11~", KeyCode::F(1), KeyModifiers::NONE),
        (b"\x1b[[A", KeyCode::F(1), KeyModifiers::NONE),
        (b"\x1b[1;5A", KeyCode::Up, KeyModifiers::CONTROL),
        (b"\x1b[1;2B", KeyCode::Down, KeyModifiers::SHIFT),
        (b"\x1b[6;3~", KeyCode::PageDown, KeyModifiers::ALT),
    ];

    #[test]
    fn keys_are_what_terminals_send_for_them() {
        let mut together = Vec::new();
        for (bytes, code, modifiers) in TABLE {
            assert_eq!(all(bytes), [KeyEvent::new(*code, *modifiers)], "{}", bytes.escape_ascii());
            // The bytes arrive in pieces, followed by another key.
            let mut keys = Keys::default();
            for len in 1..bytes.len() {
                keys.push(&bytes[len - 1..len]);
                assert_eq!(keys.take(false), None, "{}", bytes[..len].escape_ascii());
            }
            keys.push(&bytes[bytes.len() - 1..]);
            keys.push(b"x");
            assert_eq!(keys.take(false), Some(KeyEvent::new(*code, *modifiers)));
            assert_eq!(keys.take(false), Some(KeyCode::Char('x').into()));
            assert!(keys.is_empty());
            together.extend_from_slice(bytes);
        }
        assert_eq!(all(&together).len(), TABLE.len());
    }

    #[test]
    fn escape_is_a_key_if_nothing_follows() {
        let escape: KeyEvent = KeyCode::Esc.into();
        assert_eq!(all(b"\x1b"), [escape]);
        assert_eq!(all(b"\x1b\x1b"), [escape, escape]);
        assert_eq!(all(b"\x1b\x1b[A"), [escape, KeyCode::Up.into()]);
        let mut keys = Keys::default();
        keys.push(b"\x1b");
        assert_eq!((keys.take(false), keys.is_empty()), (None, false));
        std::thread::sleep(PAUSE);
        assert_eq!((keys.next(), keys.is_empty()), (Some(escape), true));
    }

    #[test]
    fn input_that_is_not_a_key_is_skipped() {
        // Delete, a cursor position, a mouse event, a broken-off sequence, invalid UTF-8, an unfinished key.
        let q: KeyEvent = KeyCode::Char('q').into();
        for bytes in [
            &b"\x1b[3~"[..],
            b"\x1b[12;40R",
            b"\x1b[<0;1;2M",
            b"\x1b[1;\x1bq",
            b"\x1b[[B",
            b"\x1bOx",
            b"\xff\xfe",
            b"\xe6\x96",
            b"\x00\x1c",
        ] {
            assert_eq!(
                all(&[bytes, b"q"].concat()).last().map(|key| key.code),
                Some(q.code),
                "{}",
                bytes.escape_ascii()
            );
        }
        assert_eq!(all(b"\x1b["), []);
        assert_eq!(all(b"\x1b[12"), []);
        assert_eq!(all(b"\xe6\x96"), []);
        let mut keys = Keys::default();
        keys.push(b"\x1b[");
        keys.push(&[b'1'; LONGEST]);
        assert_eq!((keys.take(false), keys.is_empty()), (None, true));
        // Arbitrary bytes.
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                for bytes in [[first, second, b'q'], [ESCAPE, first, second]] {
                    all(&bytes);
                }
            }
        }
    }
}
