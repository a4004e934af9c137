//! Computes the width of texts on the screen, and cuts them to fit.

pub(crate) mod format;
pub(crate) mod paths;

pub use memfold_escape::shown;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Marks where something was left out.
const DOTS: &str = "...";

/// How many columns a text takes.
pub fn width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// How many bytes of these characters fit into this many columns.
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

/// A text cut to at most this many columns: if it is too long, a part in the middle is left out.
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
