//! Reads the options that C gives for a new heap.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use memfold::heap::{Ahead, HeapKind, Limit, Options, PolicyKind};
use memfold::spill::{Spilled, Target, Terms};

use crate::error::{Code, Failure};
use crate::heap::callbacks::{Callbacks, Pair, memfold_compress, memfold_decompress};

/// As in `memfold.h`. New fields are added at the end.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct memfold_options {
    pub struct_size: usize,
    pub block_size: usize,
    pub alignment: usize,
    pub limit_bytes: u64,
    pub limit_blocks: u32,
    pub paranoid: u32,
    pub codec: *const c_char,
    pub policy: *const c_char,
    pub compress: memfold_compress,
    pub decompress: memfold_decompress,
    pub context: *mut c_void,
    pub plain: u32,
    pub background: u32,
    pub ahead_neighbours: u32,
    pub ahead_links_count: u32,
    pub ahead_links: *const u32,
    pub spill: *const c_char,
    pub spill_bytes: u64,
}

/// More than any version will have: a larger number is not a size.
const MOST: usize = 4096;

pub fn bad(text: impl Into<String>) -> Failure {
    Failure::new(Code::Option, memfold_escape::line(&text.into()).into_owned())
}

/// Reads the options at `options`, from whatever version of the header C uses. `what` names the struct.
///
/// # Safety
/// `O` begins with its size in bytes, and any bytes are a valid `O`. At `options` there is such a number, and
/// that many bytes can be read from there.
pub unsafe fn read<O: Copy>(options: *const O, what: &str) -> Result<O, Failure> {
    // SAFETY: the number is promised.
    let size = unsafe { options.cast::<usize>().read_unaligned() };
    // No version was shorter than the first one.
    if !(size_of::<O>()..=MOST).contains(&size) {
        return Err(bad(format!(
            "struct_size is {size}, which no version of {what} has: initialise it with its defaults"
        )));
    }
    // SAFETY: that many bytes are promised.
    let known = unsafe { options.read_unaligned() };
    // SAFETY: the bytes after it are promised, too.
    let rest = unsafe { options.cast::<u8>().add(size_of::<O>()) };
    // SAFETY: as above.
    if (0..size - size_of::<O>()).any(|at| unsafe { rest.add(at).read() } != 0) {
        return Err(bad("an option is set that this version of the library does not know"));
    }
    Ok(known)
}

/// `MEMFOLD_LIMIT_ALL` and `MEMFOLD_LIMIT_SHARE` of `memfold.h`.
const LIMIT_ALL: u64 = u64::MAX;
const LIMIT_SHARE: u64 = u64::MAX - 1;

/// The limit from two numbers, of which at most one is given; the default if neither is.
pub fn limit(bytes: u64, blocks: u32) -> Result<Limit, Failure> {
    match (bytes, blocks) {
        (0, 0) => Ok(Limit::default()),
        (LIMIT_ALL, 0) => Ok(Limit::All),
        (LIMIT_SHARE, 0) => Ok(Limit::Share),
        (bytes, 0) => Ok(Limit::Bytes(bytes)),
        (0, blocks) => Ok(Limit::Blocks(blocks)),
        _ => Err(bad("limit_bytes and limit_blocks are both given: give one")),
    }
}

impl memfold_options {
    /// Which blocks are restored ahead of use.
    ///
    /// # Safety
    /// `ahead_links` points to as many numbers as `ahead_links_count` says.
    unsafe fn ahead(&self) -> Result<Ahead, Failure> {
        match (self.ahead_neighbours, self.ahead_links_count) {
            (0, 0) => Ok(Ahead::Off),
            (blocks, 0) => Ok(Ahead::Neighbours(blocks)),
            (0, _) if self.ahead_links.is_null() => {
                Err(bad("ahead_links_count is given without ahead_links"))
            }
            (0, count) => {
                // SAFETY: as promised; C need not have aligned them.
                let link = |i| unsafe { self.ahead_links.add(i).read_unaligned() };
                Ok(Ahead::Links((0..count as usize).map(link).collect()))
            }
            _ => Err(bad("ahead_neighbours and ahead_links are both given: give one")),
        }
    }

    /// Where to put blocks that do not fit, if anywhere.
    ///
    /// # Safety
    /// The name is null or a null-terminated text.
    unsafe fn spilled(&self) -> Result<Option<Spilled>, Failure> {
        if self.spill.is_null() {
            return match self.spill_bytes {
                0 => Ok(None),
                _ => Err(bad("spill_bytes is given without spill")),
            };
        }
        if self.limit_bytes == 0 {
            return Err(bad(
                "spill is given without limit_bytes: only blocks that do not fit into that limit are spilled",
            ));
        }
        if self.plain == 1 {
            return Err(bad("spill and plain are both given: give one"));
        }
        // SAFETY: as promised. A path may contain any bytes.
        let name = OsStr::from_bytes(unsafe { CStr::from_ptr(self.spill) }.to_bytes());
        let target = Target::named(name).map_err(|e| bad(format!("spill: {e}")))?;
        let terms = Terms { most: (self.spill_bytes > 0).then_some(self.spill_bytes), ..Terms::default() };
        // No callback, because other threads would call it; the statistics have the tier's health.
        let spilled = Spilled::open(&target, terms, |_| {});
        spilled.map(Some).map_err(|e| bad(format!("spill: {e}")))
    }

    /// The heap's options, and the callbacks if they do the compression.
    ///
    /// # Safety
    /// The names are null or null-terminated texts, `ahead_links` points to as many numbers as
    /// `ahead_links_count` says, and the callbacks behave as [`Callbacks::new`] says.
    pub unsafe fn settle(&self) -> Result<(Options, Option<Arc<Callbacks>>), Failure> {
        let mut options = Options::new();
        if self.block_size != 0 {
            options = options.block_size(self.block_size);
        }
        if self.alignment != 0 {
            options = options.alignment(self.alignment);
        }
        options = options.limit(limit(self.limit_bytes, self.limit_blocks)?);
        let switch = |value, name| match value {
            0 | 1 => Ok(value == 1),
            other => Err(bad(format!("{name} is {other}: give 0 or 1"))),
        };
        options = options.paranoid(switch(self.paranoid, "paranoid")?);
        options = options.background(switch(self.background, "background")?);
        if switch(self.plain, "plain")? {
            options = options.kind(HeapKind::Plain);
        }
        // SAFETY: as promised.
        options = options.ahead(unsafe { self.ahead() }?);
        // SAFETY: as promised.
        if let Some(name) = unsafe { text(self.policy, "policy") }? {
            let policy: PolicyKind = name.parse().map_err(|e| bad(format!("'{name}': {e}")))?;
            options = options.policy(policy);
        }
        // SAFETY: as promised.
        let codec = unsafe { text(self.codec, "codec") }?;
        // SAFETY: as promised.
        if let Some(spilled) = unsafe { self.spilled() }? {
            options = options.spill(spilled);
        }
        match (self.compress, self.decompress, codec) {
            (None, None, None) => Ok((options, None)),
            (None, None, Some(name)) => Ok((options.codec(name), None)),
            (Some(compress), Some(decompress), None) => {
                // SAFETY: as promised.
                let callbacks = Arc::new(unsafe {
                    Callbacks::new(Pair::Memfold { compress, decompress, context: self.context })
                });
                Ok((options.own_codec(callbacks.clone()), Some(callbacks)))
            }
            (Some(_), Some(_), Some(_)) => Err(bad("a codec and callbacks are given: give one")),
            _ => Err(bad("one callback is given without the other")),
        }
    }
}

/// # Safety
/// `name` is null, or a null-terminated text that nobody changes.
pub unsafe fn text<'a>(name: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: as promised.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().map(Some).map_err(|_| bad(format!("the name of the {what} is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_one_of_two_numbers_or_the_default() {
        let of = |bytes, blocks| limit(bytes, blocks).ok();
        assert_eq!((of(0, 0), of(1 << 20, 0)), (Some(Limit::Free), Some(Limit::Bytes(1 << 20))));
        assert_eq!((of(0, 8), of(1 << 20, 8)), (Some(Limit::Blocks(8)), None));
        let header = include_str!("../../include/memfold.h");
        for (name, text, value, meant) in [
            ("MEMFOLD_LIMIT_ALL", "UINT64_MAX", LIMIT_ALL, Limit::All),
            ("MEMFOLD_LIMIT_SHARE", "(UINT64_MAX - 1)", LIMIT_SHARE, Limit::Share),
        ] {
            assert_eq!((of(value, 0), of(value, 1)), (Some(meant), None));
            assert!(header.contains(&format!("#define {name} {text}\n")), "{name}");
        }
    }
}
