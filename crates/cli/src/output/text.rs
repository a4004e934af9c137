//! Printing of text for people, and of JSON.

use std::io::Write;

use memfold::size::Grouped;
use serde::{Serialize, Serializer};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::failure::Failure;

/// Prints a text. Names in it that may contain line breaks must have been through [`memfold_escape::shown`].
/// Everything else that a terminal would interpret is escaped here.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(memfold_escape::lines(text).as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::new(format!("cannot write to standard output: {error}")))
}

/// The number of columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// A name in JSON.
pub fn name<S: Serializer>(name: &[u8], to: S) -> Result<S::Ok, S::Error> {
    memfold_escape::text(name).serialize(to)
}

/// A JSON document that may be printed to a terminal, with a line end.
pub fn json(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_else(|e| unreachable!("plain fields: {e}"));
    memfold_escape::json(&text).into_owned() + "\n"
}

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    Grouped(number).to_string()
}
