//! Foreign text, made safe for a terminal, a page or a log.
//!
//! The name of a file, a process or a device may contain characters that move the cursor, change colours,
//! reverse the direction of the text after them, or are invisible. All of these are written as the escapes of
//! a Rust string: `\n`, `\u{202e}`. A byte that is not text becomes `\xff`. Characters with a width of their
//! own stay as they are, and so do marks and joiners that belong to the letter before them.
//!
//! ```text
//!   a name alone          shown(b"a\\b\n")    a\\b\n      backslashes doubled: no name can imitate an escape
//!   a message of ours     line("no 'a\n'")    no 'a\n'    backslashes stay: its names may be escaped already
//!   a path in it          path(..)                        as a name alone
//!   a table, a page       lines(..)                       the same, but its line breaks are ours
//!   a field of JSON       text(b"\\\xff")     \\xff       only bytes that are not text are escaped
//!   JSON                  json(..)            \u202e      the same value for every reader
//! ```

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write;

/// A name as text that can be displayed as it is.
pub fn shown(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        each(chunk.valid(), |char, stands| match char {
            '\\' => text.push_str("\\\\"),
            _ => push(&mut text, char, stands),
        });
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// A path, or another string of the operating system, for a message of ours.
pub fn path(path: impl AsRef<OsStr>) -> String {
    shown(path.as_ref().as_encoded_bytes())
}

/// A name for formats that take any text, such as JSON: each byte that is not text becomes `\xff`.
pub fn text(name: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(name) {
        return text.into();
    }
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text.into()
}

/// A one-line message that contains foreign names.
pub fn line(text: &str) -> Cow<'_, str> {
    filtered(text, |_| false)
}

/// A text of several lines. Foreign names in it have gone through [`shown`], so every line break is ours.
pub fn lines(text: &str) -> Cow<'_, str> {
    filtered(text, |char| char == '\n')
}

fn filtered(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') || stays(byte.into())) {
        return text.into();
    }
    let mut filtered = String::with_capacity(text.len());
    each(text, |char, stands| match char {
        // In our own texts this space joins numbers to their units.
        '\\' | '\u{a0}' => filtered.push(char),
        _ => push(&mut filtered, char, stands || stays(char)),
    });
    filtered.into()
}

/// A text with a replacement character for each character that would have to be escaped, for formats that
/// have escapes of their own.
pub fn replaced(text: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    each(text, |char, stands| replaced.push(if stands { char } else { '\u{fffd}' }));
    replaced
}

/// The same JSON value, with these characters written as JSON escapes. In JSON they occur only in strings,
/// apart from whitespace between tokens.
pub fn json(document: &str) -> Cow<'_, str> {
    if document.bytes().all(|byte| matches!(byte, b'\n' | b' '..=b'~')) {
        return document.into();
    }
    let mut text = String::with_capacity(document.len());
    each(document, |char, stands| {
        if matches!(char, '\n' | '\t' | '\r') || stands {
            text.push(char);
        } else {
            for unit in char.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    });
    text.into()
}

fn push(text: &mut String, char: char, stands: bool) {
    match stands {
        true => text.push(char),
        // `escape_debug` leaves these alone, because they count as letters or marks.
        false if is_invisible(char) || is_selector(char) => text.extend(char.escape_unicode()),
        false => text.extend(char.escape_debug()),
    }
}

/// Calls `does` for each character, and says whether it is shown as it is.
fn each(text: &str, mut does: impl FnMut(char, bool)) {
    let (mut before, mut rest) = (None, text);
    while let Some(char) = rest.chars().next() {
        let flag = if char == FLAG { FLAGS.into_iter().find(|flag| rest.starts_with(flag)) } else { None };
        let (now, after) = rest.split_at(flag.map_or(char.len_utf8(), str::len));
        match flag {
            Some(flag) => flag.chars().for_each(|char| does(char, true)),
            None => does(char, stands(char, before, after.chars().next())),
        }
        (before, rest) = (now.chars().next_back(), after);
    }
}

/// A black flag, and the flags of England, Scotland and Wales: it, and a region in invisible letters. Other
/// such sequences are not in use, and invisible letters elsewhere can hide a text.
const FLAG: char = '\u{1f3f4}';
const FLAGS: [&str; 3] = [
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];

/// Whether a character is shown as it is: it has columns of its own, or goes with those beside it.
fn stands(char: char, before: Option<char>, after: Option<char>) -> bool {
    let of = |char: Option<char>, is: fn(char) -> bool| char.is_some_and(is);
    match char {
        ' '..='~' => true,
        _ if char.is_ascii() => false,
        // Joiners stay between letters of scripts that join them, and in emoji. Elsewhere they are invisible.
        // A word in other letters may have an ending in such a script.
        '\u{200c}' => of(after, joins) && of(before, |it| joins(it) || it.is_alphanumeric()),
        '\u{200d}' => of(before, joins) || of(before, is_emoji) && of(after, is_emoji),
        '\u{fe0e}' | '\u{fe0f}' => {
            of(before, |it| is_emoji(it) && !is_selector(it))
                || of(before, has_key) && after == Some('\u{20e3}')
        }
        // Signs that enclose the number after them.
        '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{8e2}' => of(after, char::is_numeric),
        // The blank of East Asian texts has columns of its own; at an end, or beside another, nobody sees it.
        '\u{3000}' => of(before, is_no_blank) && of(after, is_no_blank),
        _ if is_selector(char) => of(before, |before| varies(before) && !is_selector(before)),
        _ if is_invisible(char) => false,
        _ if before.is_none() => char.escape_debug().len() == 1,
        _ => {
            // `escape_debug` does not escape marks that follow another character.
            let mut both = [b'a'; 5];
            let len = 1 + char.encode_utf8(&mut both[1..]).len();
            str::from_utf8(&both[..len]).is_ok_and(|both| both.escape_debug().count() == 2)
        }
    }
}

/// Letters, marks and symbols that look like nothing or like a blank, such as the fillers of Hangul.
fn is_invisible(char: char) -> bool {
    matches!(
        char,
        '\u{34f}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{ffa0}'
            | '\u{16fe4}'
            | '\u{1d159}'
    )
}

fn is_no_blank(char: char) -> bool {
    !char.is_whitespace() && !char.is_control() && !is_invisible(char)
}

/// Variation selectors, which choose another form of the character before them.
fn is_selector(char: char) -> bool {
    matches!(char, '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Whether the character may have such forms: Mongolian, Myanmar, Phags-pa, mathematical symbols, ideographs.
fn varies(char: char) -> bool {
    matches!(
        char,
        '\u{1000}'..='\u{109f}'
            | '\u{1800}'..='\u{18af}'
            | '\u{2190}'..='\u{2bff}'
            | '\u{3000}'..='\u{9fff}'
            | '\u{a840}'..='\u{aa7f}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff00}'..='\u{ff9f}'
            | '\u{20000}'..='\u{3ffff}'
    )
}

/// Letters of scripts that use joiners: Arabic to Sinhala, and related scripts.
fn joins(char: char) -> bool {
    matches!(
        char,
        '\u{600}'..='\u{dff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1700}'..='\u{18af}'
            | '\u{1a20}'..='\u{1c4f}'
            | '\u{1cd0}'..='\u{1cff}'
            | '\u{a800}'..='\u{a82f}'
            | '\u{a840}'..='\u{a8ff}'
            | '\u{a930}'..='\u{a9df}'
            | '\u{aa00}'..='\u{aa7f}'
            | '\u{aae0}'..='\u{aaff}'
            | '\u{abc0}'..='\u{abff}'
            | '\u{fb50}'..='\u{fdff}'
            | '\u{fe70}'..='\u{fefc}'
            | '\u{10a00}'..='\u{10fff}'
            | '\u{11000}'..='\u{11fff}'
            | '\u{1e900}'..='\u{1e95f}'
    )
}

/// Parts of emoji, including skin tones and the emoji selector.
fn is_emoji(char: char) -> bool {
    matches!(
        char,
        '©' | '®' | '‼' | '⁉' | '™' | 'ℹ' | '〰' | '〽' | '㊗' | '㊙' | '\u{fe0f}'
            | '\u{2190}'..='\u{21ff}'
            | '\u{2300}'..='\u{27ff}'
            | '\u{2900}'..='\u{297f}'
            | '\u{2b00}'..='\u{2bff}'
            | '\u{1f000}'..='\u{1faff}'
    )
}

/// Characters that a selector and an enclosing frame turn into a keycap.
fn has_key(char: char) -> bool {
    matches!(char, '0'..='9' | '#' | '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_a_terminal_would_interpret_are_escaped() {
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
        for name in ["PDF\u{200c}ها.txt", "5\u{200c}ها", "\u{6dd}١٢", "\u{600}5", FLAGS[1], FLAGS[0]] {
            assert_eq!((&*shown(name.as_bytes()), &*line(name)), (name, name));
        }
        for name in ["1\u{fe0f}\u{20e3}", "☎\u{fe0e}", "葛\u{e0100}", "ه\u{200d}", "🏳\u{fe0f}\u{200d}🌈"]
        {
            assert_eq!(shown(name.as_bytes()), name);
        }
        // A joiner or selector that has nothing to act on is only invisible.
        for (name, escaped) in [
            ("é\u{200d}é", "é\\u{200d}é"),
            ("文\u{200c}件", "文\\u{200c}件"),
            ("می\u{200c}", "می\\u{200c}"),
            (".\u{200c}ها", ".\\u{200c}ها"),
            ("ها\u{200c}PDF", "ها\\u{200c}PDF"),
            ("\u{6dd}a", "\\u{6dd}a"),
            ("🏴\u{e0067}\u{e007f}", "🏴\\u{e0067}\\u{e007f}"),
            ("می\u{200d}\u{200d}", "می\u{200d}\\u{200d}"),
            ("👨\u{200d}.jpg", "👨\\u{200d}.jpg"),
            ("a\u{fe0f}b", "a\\u{fe0f}b"),
            ("1\u{fe0f}", "1\\u{fe0f}"),
            ("❤\u{fe0f}\u{fe0f}", "❤\u{fe0f}\\u{fe0f}"),
            ("é\u{fe00}", "é\\u{fe00}"),
            ("a\u{e0100}", "a\\u{e0100}"),
            ("가\u{3164}\u{115f}\u{1160}\u{ffa0}", "가\\u{3164}\\u{115f}\\u{1160}\\u{ffa0}"),
            ("a\u{34f}b\u{2800}\u{17b4}", "a\\u{34f}b\\u{2800}\\u{17b4}"),
        ] {
            assert_eq!(shown(name.as_bytes()), escaped);
            assert_eq!(line(name), escaped);
            assert!(json(name).is_ascii() || !json(name).contains(name), "{name}");
        }
        assert_eq!(shown("a\u{200d}b".as_bytes()), "a\\u{200d}b");
        assert_eq!(shown("\u{200c}a".as_bytes()), "\\u{200c}a");
        assert_eq!(shown(b"\xff\xe2\x80\x8c"), "\\xff\\u{200c}");
    }

    #[test]
    fn blanks_of_east_asian_texts_are_shown_where_they_are_seen() {
        let shown = |name: &str| shown(name.as_bytes());
        assert_eq!(shown("夏\u{3000}休み.txt"), "夏\u{3000}休み.txt");
        assert_eq!(shown("\u{3000}a"), "\\u{3000}a");
        assert_eq!(shown("a\u{3000}"), "a\\u{3000}");
        assert_eq!(shown("a\u{3000}\u{3000}b \u{3000}c"), "a\\u{3000}\\u{3000}b \\u{3000}c");
        assert_eq!(shown("a\u{3000}\n"), "a\\u{3000}\\n");
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
    fn bytes_that_are_not_text_are_shown() {
        assert_eq!(text(b"a\\b\n"), "a\\b\n");
        assert_eq!(text(b"a\\b\n\xff\xc3"), "a\\b\n\\xff\\xc3");
        assert_eq!(path("/a\n"), "/a\\n");
    }

    #[test]
    fn json_means_the_same() {
        assert_eq!(json("{\n \"a\": \"ä\\n\"}"), "{\n \"a\": \"ä\\n\"}");
        assert_eq!(json("\"a\u{7f}\u{9b}\u{202e}\u{e0041}\""), "\"a\\u007f\\u009b\\u202e\\udb40\\udc41\"");
    }
}
