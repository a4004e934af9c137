//! Leaves names out by patterns.
//!
//! As in ncdu since 2.2, a pattern is a path of names, each of which is compared with one name:
//!
//! ```text
//!   *.o          whatever is called so, anywhere
//!   build/*.o    in any directory `build`
//!   /var/cache   in one place: it begins with a slash
//!   target/      directories only
//! ```
//!
//! Names are compared by the C library, as in ncdu: the locale, which the program sets if it wants one,
//! determines what a character is and what `[[:alpha:]]` contains. No pattern is invalid; `[a` is a name. A
//! comparison takes a microsecond or more, so patterns without special characters are compared here, and for
//! others the parts before the first and after the last special character are checked first.

use std::ffi::{CStr, CString};
use std::fmt;

use crate::sys;

/// A set of patterns.
#[derive(Clone, Default)]
pub struct Exclude {
    patterns: Vec<Pattern>,
}

impl fmt::Debug for Exclude {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclude").field("patterns", &self.patterns.len()).finish()
    }
}

/// Which entries with a given path the patterns leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// Nothing: it matches no pattern.
    In,
    /// Directories.
    IfDirectory,
    /// Everything.
    Out,
}

#[derive(Clone)]
struct Pattern {
    /// The pattern's names, from the last one on.
    names: Vec<Name>,
    is_anchored: bool,
    is_directory: bool,
}

#[derive(Clone)]
struct Name {
    text: CString,
    /// Literal bytes at its beginning,
    head: usize,
    /// and where the literal bytes at its end begin.
    tail: usize,
}

fn is_special(byte: &u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\')
}

impl Name {
    fn new(text: &[u8]) -> Self {
        let head = text.iter().position(is_special).unwrap_or(text.len());
        let tail = text.iter().rposition(is_special).map_or(0, |last| last + 1);
        Name { text: CString::new(text).unwrap_or_default(), head, tail }
    }

    /// `buffer` receives the name with a zero at its end.
    fn matches(&self, name: &[u8], buffer: &mut Vec<u8>) -> bool {
        let text = self.text.to_bytes();
        if self.head == text.len() {
            return name == text;
        }
        if !name.starts_with(&text[..self.head]) || !name.ends_with(&text[self.tail..]) {
            return false;
        }
        buffer.clear();
        buffer.extend_from_slice(name);
        buffer.push(0);
        CStr::from_bytes_with_nul(buffer).is_ok_and(|name| sys::matches(&self.text, name))
    }
}

impl Pattern {
    /// `None` if the pattern has no name and therefore matches nothing.
    fn new(text: &[u8]) -> Option<Self> {
        // As in C, a zero byte ends the text.
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let begin = text.iter().position(|byte| *byte != b'/')?;
        let end = text.iter().rposition(|byte| *byte != b'/')? + 1;
        // Two adjacent slashes enclose an empty name, which no entry has.
        let names = text[begin..end].rsplit(|byte| *byte == b'/').map(Name::new).collect();
        Some(Pattern { names, is_anchored: begin > 0, is_directory: end < text.len() })
    }

    fn matches(&self, path: &[u8], buffer: &mut Vec<u8>) -> bool {
        let mut rest = path.rsplit(|byte| *byte == b'/').filter(|name| !name.is_empty());
        self.names.iter().all(|pattern| rest.next().is_some_and(|name| pattern.matches(name, buffer)))
            && !(self.is_anchored && rest.next().is_some())
    }
}

impl Exclude {
    /// Matches what any of these patterns matches.
    pub fn new<P: AsRef<[u8]>>(patterns: impl IntoIterator<Item = P>) -> Self {
        Exclude {
            patterns: patterns.into_iter().filter_map(|pattern| Pattern::new(pattern.as_ref())).collect(),
        }
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Which entries with this path are left out.
    pub fn matches(&self, path: &[u8]) -> Left {
        let (mut left, mut buffer) = (Left::In, Vec::new());
        for pattern in &self.patterns {
            if left != Left::Out && pattern.matches(path, &mut buffer) {
                left = left.max(if pattern.is_directory { Left::IfDirectory } else { Left::Out });
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The locale here is C; tests of the command compare with ncdu in other locales, too.
    #[test]
    fn patterns_mean_what_they_mean_to_ncdu() {
        use Left::{IfDirectory, In, Out};
        let cases: [(&str, &[u8], Left); 44] = [
            ("*.o", b"/home/a/x.o", Out),
            ("*.o", b"/home/a/x.oo", In),
            ("x", b"/home/x", Out),
            ("x", b"/home/x/y", In),
            ("x", b"/home/xx", In),
            ("a/x", b"/home/a/x", Out),
            ("a/x", b"/home/ba/x", In),
            ("a*x", b"/home/a/b/x", In),
            ("a*x", b"/home/abx", Out),
            ("/home/a", b"/home/a", Out),
            ("/home/a", b"/x/home/a", In),
            ("/home", b"/home/a", In),
            ("/home/*", b"/home/a/b", In),
            ("/home/*/b", b"/home/a/b", Out),
            ("/home/*", b"//home//a", Out),
            ("//a", b"/a", Out),
            ("?", b"/home/a", Out),
            ("[ab]", b"/home/b", Out),
            ("[!ab]", b"/home/b", In),
            (".git", b"/r/.git", Out),
            ("a/", b"/r/a", IfDirectory),
            ("a//", b"/r/a", IfDirectory),
            ("/r/a/", b"/r/a", IfDirectory),
            ("a/b/", b"/a/b/c", In),
            ("a//b", b"/a/b", In),
            ("/", b"/a", In),
            ("\\*", b"/r/*", Out),
            ("\\*", b"/r/x", In),
            ("*ä*", b"/r/\xffx", In),
            ("*ä*", "/ä/x".as_bytes(), In),
            ("*ä*", "/r/xäx".as_bytes(), Out),
            ("[[:digit:]]x", b"/r/1x", Out),
            ("[[:digit:]]x", b"/r/:x", In),
            ("sub/**/b", b"/sub/b", In),
            ("sub/**/b", b"/sub/x/b", Out),
            ("sub/**/b", b"/sub/x/y/b", In),
            ("{a,b}", b"/{a,b}", Out),
            ("[a", b"/[a", Out),
            ("[z-a]", b"/z", In),
            ("a\\", b"/a", In),
            ("", b"/a", In),
            ("x\0y", b"/x", Out),
            ("[]a]b", b"/]b", Out),
            ("b[\\]]", b"/b]", Out),
        ];
        for (pattern, path, is) in cases {
            assert_eq!(Exclude::new([pattern]).matches(path), is, "{pattern} {}", path.escape_ascii());
        }
        let many = Exclude::new(["a/", "b", "a"]);
        assert_eq!([&b"/x/a"[..], b"/x/b", b"/x/c"].map(|path| many.matches(path)), [Out, Out, In]);
        assert_eq!(Exclude::new([b"\xff*"]).matches(b"/x/\xffy"), Out);
        assert!(Exclude::default().is_empty() && Exclude::default().matches(b"/a") == In);
        assert!(Exclude::new(["", "/"]).is_empty());
    }
}
