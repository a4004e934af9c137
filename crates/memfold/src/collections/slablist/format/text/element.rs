//! The elements of any length: strings and bytes.

use std::vec::Vec;

use super::Text;
use crate::collections::slablist::format::Element;

impl Element for str {
    type Format = Text;

    fn text(&self) -> Option<&[u8]> {
        Some(self.as_bytes())
    }

    fn from_text(bytes: &[u8]) -> Option<&Self> {
        core::str::from_utf8(bytes).ok()
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.as_bytes());
    }

    fn with_bytes<R>(bytes: &[u8], look: impl FnOnce(&Self) -> R) -> Option<R> {
        Self::from_text(bytes).map(look)
    }
}

impl Element for [u8] {
    type Format = Text;

    fn text(&self) -> Option<&[u8]> {
        Some(self)
    }

    fn from_text(bytes: &[u8]) -> Option<&Self> {
        Some(bytes)
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }

    fn with_bytes<R>(bytes: &[u8], look: impl FnOnce(&Self) -> R) -> Option<R> {
        Some(look(bytes))
    }
}
