//! Names as they may be shown: any bytes become text that a terminal shows as it stands.
//!
//! A name may hold what moves the cursor, changes colours, or turns the direction of what follows. All that is shown as Rust writes it in a string: `\n`, `\u{202e}`; a byte that is no text as `\xff`.
//! So that nobody can imitate that, a backslash is shown as two.

use std::fmt::Write;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Stands where something was left out.
const DOTS: &str = "...";

/// A name as text.
pub fn shown(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for char in chunk.valid().chars() {
            push(&mut text, char);
        }
        for byte in chunk.invalid() {
            // A string takes all that is written.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

fn push(text: &mut String, char: char) {
    match char {
        '\\' => text.push_str("\\\\"),
        ' '..='~' => text.push(char),
        _ if !char.is_ascii() && may_stand(char, text.is_empty()) => text.push(char),
        _ => text.extend(char.escape_debug()),
    }
}

/// Whether a character is shown as it is: it has columns of its own, or goes with the one before.
fn may_stand(char: char, is_first: bool) -> bool {
    if is_first {
        return char.escape_debug().len() == 1;
    }
    // Behind another one, marks are not escaped.
    let mut both = [b'a'; 5];
    let len = 1 + char.encode_utf8(&mut both[1..]).len();
    str::from_utf8(&both[..len]).is_ok_and(|both| both.escape_debug().count() == 2)
}

/// How many columns a text takes.
pub fn width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// How many bytes of what comes are in so many columns.
fn fitting<'t>(characters: impl Iterator<Item = &'t str>, columns: usize) -> usize {
    let (mut bytes, mut taken) = (0, 0);
    for character in characters {
        taken += character.width();
        if taken > columns {
            break;
        }
        bytes += character.len();
    }
    bytes
}

/// A text in so many columns at most: if it is too long, something in the middle is left out.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.into();
    }
    let characters = text.graphemes(true);
    let Some(left) = columns.checked_sub(DOTS.len()) else {
        return text[..fitting(characters, columns)].into();
    };
    let begin = &text[..fitting(characters.clone(), left / 2)];
    let end = fitting(characters.rev(), left - width(begin));
    format!("{begin}{DOTS}{}", &text[text.len() - end..])
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
        // A mark has something to stand on.
        assert_eq!(shown("\u{301}a".as_bytes()), "\\u{301}a");
        assert_eq!(shown(b"it's \"x\""), "it's \"x\"");
    }

    #[test]
    fn cut_texts_fit() {
        assert_eq!(cut("/usr/share/doc", 20), "/usr/share/doc");
        assert_eq!(cut("/usr/share/doc", 11), "/usr.../doc");
        assert_eq!(cut("abcdef", 2), "ab");
        assert_eq!(cut("文件文件文件", 9), "文...文件");
        assert_eq!(cut("文件文件文件", 3), "...");
        assert_eq!(cut("文件", 1), "");
        let texts =
            ["文件a文件b文件c", "e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}", "", "abc", &"x".repeat(70_000)];
        for text in texts {
            for columns in 0..20 {
                let cut = cut(text, columns);
                assert!(width(&cut) <= columns, "{text} in {columns}: {cut}");
            }
        }
    }
}
