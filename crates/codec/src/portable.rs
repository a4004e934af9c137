//! Forms that another process can read: the name of the chain that made them, and the remaining bytes.
//!
//! ```text
//!   number + form  --split-->  chain, body        body: of zstd the form; of a pipeline without its steps;
//!                                                 of auto without its place
//!   chain, body    --head--->  number, head       head + body is a form with that number
//! ```
//!
//! A file stores the name of each chain once, and the bodies. So it depends neither on a table of this
//! process ([`auto_table`](crate::auto_table)) nor on numbers, and a program that lacks a codec can name it
//! in a message.

use crate::pipeline::{LAST, MOST_STEPS, split_steps};
use crate::{Chain, CodecId, auto};

/// Splits a form into the body and a chain that decodes it, in which one level of a codec stands for all.
/// `None` if the number is unknown here, if the form cannot have this number, or if only this process can
/// read it (a form of `zstd-dict` with a dictionary).
///
/// ```
/// use memfold_codec::{Codec, CodecId, portable};
/// // Place 0 of `auto` is `copy`.
/// let (chain, body) = portable::split(CodecId::AUTO, &[0, 7, 8, 9]).unwrap();
/// assert_eq!((portable::name(chain).name(), body), ("copy", &[7, 8, 9][..]));
/// ```
pub fn split(id: CodecId, form: &[u8]) -> Option<(Chain, &[u8])> {
    match id {
        CodecId::PIPELINE => {
            let (steps, body) = split_steps(form)?;
            Some((Chain::of_steps(steps)?, body))
        }
        CodecId::AUTO => {
            let (chain, body) = auto::split(form)?;
            Some((chain.to_undo()?, body))
        }
        // Version 0: without a dictionary.
        CodecId::ZSTD_DICT => match form.split_first()? {
            (0, body) => Some((Chain::of_codec(CodecId::ZSTD)?, body)),
            _ => None,
        },
        _ => Some((Chain::of_codec(id)?, form)),
    }
}

/// The name of a chain; [`str::parse`] turns it back into the chain.
pub fn name(chain: Chain) -> crate::Pipeline {
    crate::Pipeline::from(chain)
}

/// The bytes that turn a body into a form when they precede it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of the form.
    pub id: CodecId,
    bytes: [u8; MOST_STEPS],
    len: u8,
}

impl Head {
    /// No bytes: bodies of a codec are its forms.
    pub fn of_codec(id: CodecId) -> Self {
        Head { id, bytes: [0; MOST_STEPS], len: 0 }
    }

    /// The bytes before the body: at most seven.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// How bodies of a chain become forms again: forms of the codec if the chain is a single codec, otherwise
/// forms of a pipeline.
pub fn head(chain: Chain) -> Head {
    if let Some(codec) = chain.codec() {
        return Head::of_codec(codec.id());
    }
    let mut head = Head::of_codec(CodecId::PIPELINE);
    for (to, element) in head.bytes.iter_mut().zip(chain.elements()) {
        *to = element.number();
        head.len += 1;
    }
    head.bytes[usize::from(head.len) - 1] |= LAST;
    head
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::{Codec, Compressed, ScratchBuf, codec, decoder};

    fn block() -> Vec<u8> {
        (0..512_u64).flat_map(|i| (i * i * 3).to_le_bytes()).collect()
    }

    /// Checks that a codec's form of a block, split and put together again, decodes to the block.
    fn comes_back(codec: &dyn Codec) -> Chain {
        let block = block();
        let mut memory = ScratchBuf::for_codecs([codec], block.len());
        let mut form = vec![0; codec.bound(block.len())];
        let Compressed::Fits(len) = codec.compress(&block, &mut form, usize::MAX, &mut memory.scratch())
        else {
            panic!("{codec:?}")
        };
        let (chain, body) = split(codec.id(), &form[..len]).unwrap_or_else(|| panic!("{codec:?}"));
        let again: Chain = name(chain).name().parse().unwrap();
        assert_eq!(again, chain);
        let mut memory = ScratchBuf::with_size(chain.decompress_scratch(block.len()));
        let mut out = vec![0; block.len()];
        chain.decompress(body, &mut out, &mut memory.scratch()).unwrap();
        assert_eq!(out, block, "{codec:?}");
        let head = head(chain);
        let form = [head.bytes(), body].concat();
        let decoder = decoder(head.id).unwrap();
        assert_ne!(decoder.id(), CodecId::AUTO);
        out.fill(1);
        decoder.decompress(&form, &mut out, &mut memory.scratch()).unwrap();
        assert_eq!(out, block, "{codec:?}");
        chain
    }

    #[test]
    fn portable_forms_of_every_codec_are_reversible() {
        for found in crate::all() {
            comes_back(found);
        }
        for name in ["delta:8x6+shuffle:8+zstd:1", "delta:8x2+bwt+mtf+range", "auto=xor:1x3+huffman", "copy"]
        {
            comes_back(codec(name).unwrap());
        }
        assert_eq!(name(comes_back(codec("delta:8x1+lz4").unwrap())).name(), "delta:8x1+lz4");
        // A place that is valid in this process only.
        assert_eq!(name(comes_back(codec("auto=xor:1x4+huffman").unwrap())).name(), "xor:1x4+huffman");
    }

    #[test]
    fn foreign_bytes_are_refused() {
        assert_eq!(split(CodecId(0), &[1]), None);
        assert_eq!(split(CodecId(200), &[1]), None);
        for bad in [&[][..], &[1, 2, 3], &[0xFF], &[0x80], &[1; 8], &[96 + 19 + 0x80, 0]] {
            assert_eq!(split(CodecId::PIPELINE, bad), None, "{bad:?}");
        }
        for bad in [&[][..], &[0xF0], &[0xFF, 0xFF]] {
            assert_eq!(split(CodecId::AUTO, bad), None, "{bad:?}");
        }
        assert_eq!(split(CodecId::ZSTD_DICT, &[]), None);
        assert_eq!(split(CodecId::ZSTD_DICT, &[1, 2]), None);
    }
}
