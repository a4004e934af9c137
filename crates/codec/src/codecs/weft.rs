//! `weft:1` to `weft:4`: words of heaps, by their distances.
//!
//! The codec is a crate of its own, [`memfold_weft`], for units of up to 64 KiB. A longer block consists of
//! several:
//!
//! ```text
//!   unit of 64 KiB, but for the last one:  | length of its form, 3 bytes | form |     the last one: | form |
//! ```

use memfold_weft::{Effort, MOST_BYTES, Path};

use crate::{Codec, CodecId, Compressed, Malformed, Scratch, cpu, room};

/// Bytes of the length of a form.
const LENGTH: usize = 3;

/// One setting.
pub(crate) struct Weft {
    name: &'static str,
    effort: Effort,
}

/// All settings, the fastest first.
pub(crate) static SETTINGS: [Weft; 4] = [
    Weft { name: "weft:1", effort: Effort::Fastest },
    Weft { name: "weft:2", effort: Effort::Fast },
    Weft { name: "weft:3", effort: Effort::Packed },
    Weft { name: "weft:4", effort: Effort::Dense },
];

/// The implementation of `memfold-weft` for the instructions in use.
pub fn path() -> Path {
    #[cfg(target_arch = "x86_64")]
    match cpu::path() {
        cpu::Path::Scalar => {}
        // SAFETY: that path has these instructions.
        cpu::Path::Sse4 => return unsafe { Path::sse() },
        // SAFETY: these paths have the instructions, and more.
        cpu::Path::Avx2 | cpu::Path::Avx512 => return unsafe { Path::avx2() },
    }
    // SAFETY: the program is compiled for processors that have these instructions.
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    return unsafe { Path::neon() };
    #[cfg(not(all(target_arch = "aarch64", target_feature = "neon")))]
    Path::REFERENCE
}

/// Whether it is worth while on this processor.
pub(crate) fn is_fast() -> bool {
    path() != Path::REFERENCE
}

/// The working memory.
fn working<'s>(scratch: &'s mut Scratch<'_>) -> &'s mut memfold_weft::Scratch {
    let memory = scratch.bytes(size_of::<memfold_weft::Scratch>());
    memfold_weft::Scratch::within(memory).expect("a scratch is aligned")
}

impl Codec for Weft {
    fn name(&self) -> &str {
        self.name
    }

    fn id(&self) -> CodecId {
        CodecId::WEFT
    }

    fn bound(&self, len: usize) -> usize {
        memfold_weft::bound(len).saturating_add(len / MOST_BYTES * LENGTH)
    }

    fn compress_scratch(&self, len: usize) -> usize {
        if len == 0 { 0 } else { size_of::<memfold_weft::Scratch>() }
    }

    fn decompress_scratch(&self, len: usize) -> usize {
        self.compress_scratch(len)
    }

    fn compress(
        &self,
        src: &[u8],
        dst: &mut [u8],
        threshold: usize,
        scratch: &mut Scratch<'_>,
    ) -> Compressed {
        let room = room(dst, threshold, self.bound(src.len()));
        if src.is_empty() {
            return Compressed::Fits(0);
        }
        match self.compress_units(src, &mut dst[..room], working(scratch)) {
            Some(len) => Compressed::Fits(len),
            None => Compressed::Incompressible,
        }
    }

    fn decompress(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch<'_>) -> Result<(), Malformed> {
        if dst.is_empty() {
            return if src.is_empty() { Ok(()) } else { Err(Malformed) };
        }
        if src.is_empty() {
            return Err(Malformed);
        }
        let (path, scratch) = (path(), working(scratch));
        let (mut form, count) = (src, dst.len().div_ceil(MOST_BYTES));
        for (number, unit) in dst.chunks_mut(MOST_BYTES).enumerate() {
            let mut one = form;
            if number + 1 < count {
                let (length, rest) = form.split_first_chunk::<LENGTH>().ok_or(Malformed)?;
                let length = length.iter().rev().fold(0, |all, &byte| all << 8 | usize::from(byte));
                (one, form) = rest.split_at_checked(length).ok_or(Malformed)?;
            }
            memfold_weft::decompress(path, one, unit, scratch).map_err(|_| Malformed)?;
        }
        Ok(())
    }
}

impl Weft {
    fn compress_units(
        &self,
        src: &[u8],
        dst: &mut [u8],
        scratch: &mut memfold_weft::Scratch,
    ) -> Option<usize> {
        let (path, count) = (path(), src.len().div_ceil(MOST_BYTES));
        let mut used = 0;
        for (number, unit) in src.chunks(MOST_BYTES).enumerate() {
            let begin = if number + 1 < count { used + LENGTH } else { used };
            let len = memfold_weft::compress(path, unit, dst.get_mut(begin..)?, self.effort, scratch)?;
            if begin > used {
                dst[used..begin].copy_from_slice(&(len as u32).to_le_bytes()[..LENGTH]);
            }
            used = begin + len;
        }
        Some(used)
    }
}
