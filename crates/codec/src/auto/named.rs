//! `auto=A/B/C`: choosers with custom lists, by name.
//!
//! The name is the list: names of codecs and pipelines, separated by slashes. It has no comma, since command
//! lines split lists of codecs at commas, and no characters that a shell interprets.

use super::list::MOST_ENTRIES;
use super::{Auto, List, presets};
use crate::interned::Interned;
use crate::{Chain, Codec, CodecId, Compressed, Malformed, Scratch, UnknownCodec};

/// The prefix of every such name.
pub(crate) const PREFIX: &str = "auto=";

/// The longest name: room for a list of [`MOST_ENTRIES`].
const NAME: usize = 32 * MOST_ENTRIES;

/// The most choosers in one process.
pub(crate) const PLACES: usize = 16;

/// A chooser and its name.
struct Named {
    auto: Auto,
    name: [u8; NAME],
    len: usize,
}

impl Named {
    /// `None` if the list is not accepted. The name has room.
    fn new(name: &str, chains: &[Chain]) -> Option<Self> {
        let effort = presets::OWN;
        let auto = Auto { name: "auto", list: List::new(), acceptance: effort.acceptance.into(), effort };
        auto.set_list(chains).ok()?;
        let mut named = Named { auto, name: [0; NAME], len: name.len() };
        named.name[..name.len()].copy_from_slice(name.as_bytes());
        Some(named)
    }
}

impl Codec for Named {
    fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.len]).unwrap_or_default()
    }

    fn id(&self) -> CodecId {
        self.auto.id()
    }

    fn bound(&self, len: usize) -> usize {
        self.auto.bound(len)
    }

    fn compress_scratch(&self, len: usize) -> usize {
        self.auto.compress_scratch(len)
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        self.auto.decompress_scratch(len)
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        self.auto.compress(src, dst, threshold, scratch)
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        self.auto.decompress(src, dst, scratch)
    }
}

static CHOOSERS: Interned<Named, PLACES> = Interned::new();

/// The chooser of that name, which lives for ever.
pub(crate) fn interned(name: &str) -> Result<&'static dyn Codec, UnknownCodec> {
    let entries = name.strip_prefix(PREFIX).filter(|_| name.len() <= NAME).ok_or(UnknownCodec)?;
    if let Some(there) = CHOOSERS.find(|named| named.name() == name) {
        return Ok(there);
    }
    let (mut chains, mut len) = ([None; MOST_ENTRIES], 0);
    for entry in entries.split('/') {
        *chains.get_mut(len).ok_or(UnknownCodec)? = Some(entry.parse::<Chain>()?);
        len += 1;
    }
    let first = chains[0].ok_or(UnknownCodec)?;
    let chains = chains.map(|chain| chain.unwrap_or(first));
    let put = CHOOSERS.put(|| Named::new(name, &chains[..len]));
    put.map(|named| named as &dyn Codec).ok_or(UnknownCodec)
}
