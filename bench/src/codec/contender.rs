//! What is compared: the codecs of memfold and their peers, behind one trait.

use memfold_codec::{Codec, Compressed, ScratchBuf};

/// Compresses and decompresses blocks of one length.
pub trait Contender {
    fn name(&self) -> String;

    /// Compresses to `dst`, which has room for the worst case; returns the length.
    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> usize;

    fn decompress(&mut self, src: &[u8], dst: &mut [u8]);

    /// Bytes of working memory for compression and for decompression, if known.
    fn scratch(&self) -> Option<(usize, usize)> {
        None
    }
}

/// A codec with a scratch for each direction, as a thread has them.
pub struct Ours {
    codec: &'static dyn Codec,
    block: usize,
    compress: memfold_codec::Scratch<'static>,
    decompress: memfold_codec::Scratch<'static>,
}

impl Ours {
    pub fn new(codec: &'static dyn Codec, block: usize) -> Self {
        let scratch = |size| ScratchBuf::with_size(size).leak();
        Ours {
            codec,
            block,
            compress: scratch(codec.compress_scratch(block)),
            decompress: scratch(codec.decompress_scratch(block)),
        }
    }
}

impl Contender for Ours {
    fn name(&self) -> String {
        self.codec.name().to_owned()
    }

    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> usize {
        match self.codec.compress(src, dst, usize::MAX, &mut self.compress) {
            Compressed::Fits(size) => size,
            Compressed::Incompressible => unreachable!("there is no threshold"),
        }
    }

    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) {
        self.codec.decompress(src, dst, &mut self.decompress).expect("its own work");
    }

    fn scratch(&self) -> Option<(usize, usize)> {
        Some((self.codec.compress_scratch(self.block), self.codec.decompress_scratch(self.block)))
    }
}

/// The reference C library through its plain functions: `LZ4_compress_default`
/// and `LZ4_decompress_safe`.
pub struct Lz4C;

impl Contender for Lz4C {
    fn name(&self) -> String {
        "peer: lz4 C 1.10".into()
    }

    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> usize {
        lz4::block::compress_to_buffer(src, None, false, dst).expect("room for the worst case")
    }

    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) {
        let len = i32::try_from(dst.len()).expect("a block");
        let size = lz4::block::decompress_to_buffer(src, Some(len), dst).expect("its own work");
        assert_eq!(size, dst.len());
    }
}

/// LZ4 in Rust, with the features that make it fastest.
pub struct Lz4Flex;

impl Contender for Lz4Flex {
    fn name(&self) -> String {
        "peer: lz4_flex".into()
    }

    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> usize {
        lz4_flex::block::compress_into(src, dst).expect("room for the worst case")
    }

    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) {
        let size = lz4_flex::block::decompress_into(src, dst).expect("its own work");
        assert_eq!(size, dst.len());
    }
}

/// Zstandard as most programs use it: with reused contexts on the heap, and frames with magic number and content
/// size.
pub struct ZstdC {
    level: i32,
    compress: zstd_safe::CCtx<'static>,
    decompress: zstd_safe::DCtx<'static>,
}

impl ZstdC {
    pub fn new(level: i32) -> Self {
        ZstdC { level, compress: zstd_safe::CCtx::create(), decompress: zstd_safe::DCtx::create() }
    }
}

impl Contender for ZstdC {
    fn name(&self) -> String {
        format!("peer: zstd C {}", self.level)
    }

    fn compress(&mut self, src: &[u8], dst: &mut [u8]) -> usize {
        self.compress.compress(dst, src, self.level).expect("room for the worst case")
    }

    fn decompress(&mut self, src: &[u8], dst: &mut [u8]) {
        let size = self.decompress.decompress(dst, src).expect("its own work");
        assert_eq!(size, dst.len());
    }
}

/// All contenders: the named codecs, then the peers.
pub fn contenders(names: &[String], block: usize) -> Result<Vec<Box<dyn Contender>>, String> {
    let mut all: Vec<Box<dyn Contender>> = Vec::new();
    for name in names {
        let codec = memfold_codec::codec(name).map_err(|error| format!("{name}: {error}"))?;
        all.push(Box::new(Ours::new(codec, block)));
    }
    all.push(Box::new(Lz4C));
    all.push(Box::new(Lz4Flex));
    all.push(Box::new(ZstdC::new(-5)));
    all.push(Box::new(ZstdC::new(1)));
    Ok(all)
}
