//! Names that are left out, by patterns.
//!
//! As in ncdu, a pattern is compared with the whole path and with each end of it that begins behind a slash: `*.o` means all objects, `build/*.o` those in any `build`, `/var/*` what is in
//! one place. `*` and `?` match slashes, too.
//!
//! It is the C library that compares, as in ncdu: what a character is, and what is in `[[:alpha:]]`, depends on the locale, which the program sets if it wants one. There are no wrong patterns:
//! `[a` is a name. That takes a microsecond and more, so it is not asked where the beginning or the end of the pattern, up to its first or last special character, says no.

use std::ffi::{CStr, CString};
use std::fmt;

use crate::sys;

/// Patterns.
#[derive(Clone, Default)]
pub struct Exclude {
    patterns: Vec<Pattern>,
}

impl fmt::Debug for Exclude {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclude").field("patterns", &self.patterns.len()).finish()
    }
}

#[derive(Clone)]
struct Pattern {
    text: CString,
    /// Bytes at its beginning that stand for themselves,
    head: usize,
    /// and where those at its end begin.
    tail: usize,
}

fn is_special(byte: &u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\')
}

impl Pattern {
    fn new(text: &[u8]) -> Self {
        // As in C, a zero is the end.
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let head = text.iter().position(is_special).unwrap_or(text.len());
        let tail = text.iter().rposition(is_special).map_or(0, |last| last + 1);
        Pattern { text: CString::new(text).unwrap_or_default(), head, tail }
    }

    fn matches(&self, path: &CStr, is_ascii: bool) -> bool {
        let (bytes, text) = (path.to_bytes(), self.text.to_bytes());
        if !bytes.ends_with(&text[self.tail..]) {
            return false;
        }
        let head = &text[..self.head];
        let is_at = |at: usize| bytes[at..].starts_with(head) && sys::matches(&self.text, &path[at..]);
        if is_at(0) {
            return true;
        }
        // What `*` stands for may be all that is before an end that matches. (In a path that is no text, bytes are characters; then an end of it may be text.)
        if is_ascii && text.starts_with(b"*") {
            return false;
        }
        let mut slashes = bytes.windows(2).zip(1..).filter(|(pair, _)| pair[0] == b'/' && pair[1] != b'/');
        slashes.any(|(_, at)| is_at(at))
    }
}

impl Exclude {
    /// What matches any of these patterns.
    pub fn new<P: AsRef<[u8]>>(patterns: impl IntoIterator<Item = P>) -> Self {
        Exclude { patterns: patterns.into_iter().map(|pattern| Pattern::new(pattern.as_ref())).collect() }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a path is left out.
    pub fn matches(&self, path: &CStr) -> bool {
        let is_ascii = path.to_bytes().is_ascii();
        self.patterns.iter().any(|pattern| pattern.matches(path, is_ascii))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The locale is C: tests of the command compare with ncdu in others, too.
    #[test]
    fn patterns_mean_what_they_mean_to_ncdu() {
        let cases: [(&str, &[u8], bool); 33] = [
            ("*.o", b"/home/a/x.o", true),
            ("*.o", b"/home/a/x.oo", false),
            ("x", b"/home/x", true),
            ("x", b"/home/x/y", false),
            ("x", b"/home/xx", false),
            ("a/x", b"/home/a/x", true),
            ("a/x", b"/home/ba/x", false),
            ("a*x", b"/home/a/b/x", true),
            ("/home/a", b"/home/a", true),
            ("/home", b"/home/a", false),
            ("/home/*", b"/home/a/b", true),
            ("?", b"/home/a", true),
            ("[ab]", b"/home/b", true),
            ("[!ab]", b"/home/b", false),
            (".git", b"/r/.git", true),
            ("\\*", b"/r/*", true),
            ("\\*", b"/r/x", false),
            ("*ä*", b"/r/\xffx", false),
            ("*ä*", "/ä/x".as_bytes(), true),
            ("[[:digit:]]x", b"/r/1x", true),
            ("[[:digit:]]x", b"/r/:x", false),
            ("sub/**/b", b"/sub/b", false),
            ("sub/**/b", b"/sub/x/y/b", true),
            ("{a,b}", b"/a", false),
            ("{a,b}", b"/{a,b}", true),
            ("[a", b"/[a", true),
            ("[a", b"/a", false),
            ("[z-a]", b"/z", false),
            ("a\\", b"/a", false),
            ("", b"/a", false),
            ("x\0y", b"/x", true),
            ("[]a]b", b"/]b", true),
            ("b[\\]]", b"/b]", true),
        ];
        for (pattern, path, is) in cases {
            let path = CString::new(path).unwrap();
            assert_eq!(Exclude::new([pattern]).matches(&path), is, "{pattern} {path:?}");
        }
        let many = Exclude::new(["a", "b"]);
        assert!(many.matches(c"/x/a") && many.matches(c"/x/b") && !many.matches(c"/x/c"));
        assert!(many.matches(c"/\xff/a"));
        assert!(Exclude::new([b"\xff*"]).matches(c"/x/\xffy"));
        assert!(Exclude::default().is_empty() && !Exclude::default().matches(c"/a"));
    }
}
