//! Names that are left out, by patterns.
//!
//! As in ncdu, a pattern is compared with the whole path and with each end of it that begins behind a slash: `*.o` means all objects, `build/*.o` those in any `build`, `/var/*` what is in
//! one place. `*` and `?` match slashes, too. Beyond ncdu's patterns, `{a,b}` means either.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Patterns.
#[derive(Clone, Default)]
pub struct Exclude {
    set: GlobSet,
}

impl fmt::Debug for Exclude {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclude").field("patterns", &self.set.len()).finish()
    }
}

/// A pattern that is none, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPattern(pub String);

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadPattern {}

impl Exclude {
    /// What matches any of these patterns.
    pub fn new<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Result<Self, BadPattern> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            // A name may be at the beginning of a path or behind any slash.
            let whole = if pattern.starts_with('/') { pattern.to_owned() } else { format!("**/{pattern}") };
            let glob = GlobBuilder::new(&whole).literal_separator(false).backslash_escape(true).build();
            set.add(glob.map_err(|error| BadPattern(format!("the pattern '{pattern}': {}", error.kind())))?);
        }
        let set = set.build().map_err(|error| BadPattern(error.to_string()))?;
        Ok(Exclude { set })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Whether a path is left out.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.set.is_match(Path::new(OsStr::from_bytes(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_ncdu() {
        let cases: [(&str, &[u8], bool); 18] = [
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
        ];
        for (pattern, path, is) in cases {
            let exclude = Exclude::new([pattern]).unwrap();
            assert_eq!(exclude.matches(path), is, "{pattern} {}", path.escape_ascii());
        }
        let many = Exclude::new(["a", "b"]).unwrap();
        assert!(many.matches(b"/x/a") && many.matches(b"/x/b") && !many.matches(b"/x/c"));
        assert!(many.matches(b"/\xff/a"));
        assert!(Exclude::new(["[a"]).unwrap_err().to_string().contains("[a"));
        assert!(Exclude::default().is_empty() && !Exclude::default().matches(b"/a"));
    }
}
