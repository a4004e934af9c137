//! Little-endian words in slices of bytes, and the tail that fills no word.

/// The words of a block, and the bytes after the last word.
#[cfg(feature = "papers")]
pub(crate) fn words<const W: usize>(block: &[u8]) -> (impl ExactSizeIterator<Item = [u8; W]> + '_, &[u8]) {
    let words = block.chunks_exact(W);
    let tail = words.remainder();
    (words.map(|word| word.try_into().expect("a chunk of W bytes")), tail)
}

/// An output buffer that is written from the front, as long as there is room.
pub(crate) struct Out<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Out<'a> {
    /// A buffer that writes to `bytes` after the first `len`, which something else fills. `None` if `bytes`
    /// is shorter.
    pub(crate) fn after(bytes: &'a mut [u8], len: usize) -> Option<Self> {
        (len <= bytes.len()).then_some(Out { bytes, len })
    }

    /// The position of the next byte.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Writes `N` bytes, if there is room.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Option<()> {
        self.bytes.get_mut(self.len..)?.first_chunk_mut::<N>().map(|to| *to = bytes)?;
        self.len += N;
        Some(())
    }

    /// Writes all of `bytes`, if there is room.
    #[inline]
    pub(crate) fn put_all(&mut self, bytes: &[u8]) -> Option<()> {
        self.skip(bytes.len())?.copy_from_slice(bytes);
        Some(())
    }

    /// Skips `count` bytes, which the caller fills, if there is room.
    #[inline]
    pub(crate) fn skip(&mut self, count: usize) -> Option<&mut [u8]> {
        let to = self.bytes.get_mut(self.len..)?.get_mut(..count)?;
        self.len += count;
        Some(to)
    }

    /// The next `N` bytes, if there are that many. They count as written only after [`Out::skip`].
    #[inline(always)]
    pub(crate) fn room<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        self.bytes.get_mut(self.len..)?.first_chunk_mut()
    }

    /// All bytes, including those that something else fills.
    #[cfg(feature = "papers")]
    pub(crate) fn all(&mut self) -> &mut [u8] {
        self.bytes
    }
}
