//! Foreign text, made safe for a terminal, a page or a log.
//!
//! The name of a file, a process or a device may contain characters that move the cursor, change colours,
//! reverse the direction of the text after them, or are invisible. All of these are written as Rust writes
//! them in a string: `\n`, `\u{202e}`; a byte that is not text as `\xff`. Characters with a width of their
//! own stay as they are, and so do marks and joiners after a letter that they belong to.
//!
//! ```text
//!   a name alone          shown(b"a\\b\n")    a\\b\n      backslashes doubled: no name can imitate an escape
//!   a message of ours     line("no 'a\n'")    no 'a\n'    backslashes stay: its names may be escaped already
//!   a table, a page       lines(..)                       the same, but its line breaks are ours
//!   JSON                  json(..)            \u202e      the same value for every reader
//! ```

use std::borrow::Cow;
use std::fmt::Write;

/// A name as text that can be displayed as it is.
pub fn shown(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' => text.push_str("\\\\"),
                _ => push(&mut text, char),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// A one-line message that contains foreign names.
pub fn line(text: &str) -> Cow<'_, str> {
    filtered(text, |_| false)
}

/// A text of several lines that contains foreign names without line breaks: those went through [`shown`].
pub fn lines(text: &str) -> Cow<'_, str> {
    filtered(text, |char| char == '\n')
}

fn filtered(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') || stays(byte.into())) {
        return text.into();
    }
    let mut filtered = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            // In our own texts this space joins numbers to their units.
            '\\' | '\u{a0}' => filtered.push(char),
            _ if stays(char) => filtered.push(char),
            _ => push(&mut filtered, char),
        }
    }
    filtered.into()
}

/// A text with a replacement character for each character that would have to be escaped, for formats that
/// have escapes of their own.
pub fn replaced(text: &str) -> String {
    let mut last = None;
    text.chars().map(|char| if stands(char, last.replace(char)) { char } else { '\u{fffd}' }).collect()
}

/// A JSON document of the same value, in which such characters are escaped the way JSON does it. In JSON they
/// occur only in strings, apart from whitespace between tokens.
pub fn json(document: &str) -> Cow<'_, str> {
    if document.bytes().all(|byte| matches!(byte, b'\n' | b' '..=b'~')) {
        return document.into();
    }
    let (mut text, mut last) = (String::with_capacity(document.len()), None);
    for char in document.chars() {
        if matches!(char, '\n' | '\t' | '\r') || stands(char, last) {
            text.push(char);
        } else {
            for unit in char.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
        last = Some(char);
    }
    text.into()
}

fn push(text: &mut String, char: char) {
    if stands(char, text.chars().next_back()) {
        text.push(char);
    } else {
        text.extend(char.escape_debug());
    }
}

/// Whether a character is displayed as it is: it has a width of its own, or belongs to the one before.
fn stands(char: char, before: Option<char>) -> bool {
    match char {
        ' '..='~' => true,
        _ if char.is_ascii() => false,
        // Between letters of scripts that join them, and in emoji. Elsewhere they would be invisible.
        '\u{200c}' | '\u{200d}' => before.is_some_and(|before| !before.is_ascii()),
        _ if before.is_none() => char.escape_debug().len() == 1,
        _ => {
            // Marks after another character are not escaped.
            let mut both = [b'a'; 5];
            let len = 1 + char.encode_utf8(&mut both[1..]).len();
            str::from_utf8(&both[..len]).is_ok_and(|both| both.escape_debug().count() == 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_terminal_would_do_is_escaped() {
        assert_eq!(shown(b"plain name-1.txt"), "plain name-1.txt");
        assert_eq!(shown("größe 文件 e\u{301}".as_bytes()), "größe 文件 e\u{301}");
        assert_eq!(shown(b"a\nb\tc\x1b[31m\x7f\0"), "a\\nb\\tc\\u{1b}[31m\\u{7f}\\0");
        assert_eq!(
            shown("a\u{9b}1m\u{202e}txt.exe\u{200b}\u{2028}".as_bytes()),
            "a\\u{9b}1m\\u{202e}txt.exe\\u{200b}\\u{2028}"
        );
        assert_eq!(shown(b"\xff\xc3(\xe2\x82"), "\\xff\\xc3(\\xe2\\x82");
        assert_eq!(shown(b"\\xff"), "\\\\xff");
        // This mark has no character to attach to.
        assert_eq!(shown("\u{301}a".as_bytes()), "\\u{301}a");
        assert_eq!(shown(b"it's \"x\""), "it's \"x\"");
    }

    #[test]
    fn letters_that_need_joiners_have_them() {
        for name in [
            "می\u{200c}خواهم.txt",
            "क\u{94d}\u{200d}ष.txt",
            "👨\u{200d}👩\u{200d}👧.jpg",
            "❤\u{fe0f}\u{200d}🔥",
        ] {
            assert_eq!(shown(name.as_bytes()), name);
            assert_eq!(line(name), name);
            assert_eq!(replaced(name), name);
            assert_eq!(json(name), name);
        }
        // Where they join nothing they only hide.
        assert_eq!(shown("a\u{200d}b".as_bytes()), "a\\u{200d}b");
        assert_eq!(shown("\u{200c}a".as_bytes()), "\\u{200c}a");
        assert_eq!(shown(b"\xff\xe2\x80\x8c"), "\\xff\\u{200c}");
    }

    #[test]
    fn messages_keep_their_backslashes_and_texts_their_lines() {
        assert_eq!(line("no 'a\\nb'"), "no 'a\\nb'");
        assert_eq!(line("no 'a\nb\\\u{1b}\u{202e}'"), "no 'a\\nb\\\\u{1b}\\u{202e}'");
        assert_eq!(lines("a\nb\r\u{85}ä\\"), "a\nb\\r\\u{85}ä\\");
        assert_eq!((&*line("5\u{a0}s"), &*shown("5\u{a0}s".as_bytes())), ("5\u{a0}s", "5\\u{a0}s"));
        assert_eq!(replaced("a\u{1b}[2J\u{202e}b"), "a\u{fffd}[2J\u{fffd}b");
    }

    #[test]
    fn json_means_the_same() {
        assert_eq!(json("{\n \"a\": \"ä\\n\"}"), "{\n \"a\": \"ä\\n\"}");
        assert_eq!(json("\"a\u{7f}\u{9b}\u{202e}\u{e0041}\""), "\"a\\u007f\\u009b\\u202e\\udb40\\udc41\"");
    }
}
