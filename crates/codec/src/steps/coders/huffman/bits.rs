//! Streams of bits; the first bit is the lowest of the first byte.

use super::LONGEST;

/// The decoding table, indexed by the next bits. An entry is a length and a byte; a length of 0 means that no
/// code begins with these bits.
pub(super) type Table = [u16; 1 << LONGEST];

/// The number of codes that 56 loaded bits are sure to hold.
const SURE: usize = 56 / LONGEST as usize;

pub(super) struct Writer<'a> {
    out: &'a mut [u8],
    buffer: u64,
    bits: u32,
}

impl<'a> Writer<'a> {
    /// A writer into bytes that the codes will fill exactly.
    pub(super) fn new(out: &'a mut [u8]) -> Self {
        Writer { out, buffer: 0, bits: 0 }
    }

    /// Writes the codes of all bytes; each code is a length and, above 8 bits, the code.
    pub(super) fn put_all(mut self, bytes: &[u8], codes: &[u32; 256]) {
        for few in bytes.chunks(SURE) {
            for &byte in few {
                let code = codes[usize::from(byte)];
                self.buffer |= u64::from(code >> 8) << self.bits;
                self.bits += code & 0xFF;
            }
            self.flush();
        }
        let last = self.buffer.to_le_bytes();
        for (to, byte) in self.out.iter_mut().zip(last) {
            *to = byte;
        }
    }

    /// Writes whole bytes, so that fewer than eight bits are left.
    #[inline(always)]
    fn flush(&mut self) {
        let bytes = (self.bits / 8) as usize;
        let out = core::mem::take(&mut self.out);
        if let Some(to) = out.first_chunk_mut() {
            *to = self.buffer.to_le_bytes();
        } else {
            for (to, byte) in out.iter_mut().zip(self.buffer.to_le_bytes()) {
                *to = byte;
            }
        }
        self.out = out.get_mut(bytes..).unwrap_or_default();
        self.buffer >>= 8 * bytes;
        self.bits %= 8;
    }
}

#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    src: &'a [u8],
    /// The next byte to load; after the end, zeros are loaded.
    at: usize,
    buffer: u64,
    bits: u32,
}

impl<'a> Reader<'a> {
    pub(super) fn new(src: &'a [u8]) -> Self {
        Reader { src, at: 0, buffer: 0, bits: 0 }
    }

    /// Makes sure that at least 56 bits are loaded.
    #[inline(always)]
    fn load(&mut self) {
        if let Some(bytes) = self.src.get(self.at..).and_then(|rest| rest.first_chunk()) {
            self.buffer |= u64::from_le_bytes(*bytes) << self.bits;
            self.at += (63 - self.bits as usize) / 8;
            self.bits |= 56;
            return;
        }
        while self.bits <= 56 {
            let byte = self.src.get(self.at).copied().unwrap_or(0);
            self.buffer |= u64::from(byte) << self.bits;
            self.at += 1;
            self.bits += 8;
        }
    }

    /// The next byte, from loaded bits. If no code matches, it is an arbitrary byte and no bits are consumed.
    #[inline(always)]
    fn next(&mut self, table: &Table) -> u8 {
        let entry = table[(self.buffer & ((1 << LONGEST) - 1)) as usize];
        let length = u32::from(entry & 0xF);
        self.buffer >>= length;
        self.bits = self.bits.wrapping_sub(length);
        (entry >> 8) as u8
    }

    /// Fills `to`.
    pub(super) fn read(&mut self, to: &mut [u8], table: &Table) {
        for few in to.chunks_mut(SURE) {
            self.load();
            for to in few {
                *to = self.next(table);
            }
        }
    }

    /// Whether exactly the bits of the stream were consumed, up to less than a byte of zeros.
    pub(super) fn is_at_end(&self) -> bool {
        let used = (8 * self.at).wrapping_sub(self.bits as usize);
        used.div_ceil(8) == self.src.len() && self.buffer & ((1 << (8 * self.src.len() - used)) - 1) == 0
    }
}

/// Fills the beginnings of all four in parallel, as far as the shortest allows, and leaves the unfilled rest
/// of each in `to`.
pub(super) fn read_side_by_side(readers: &mut [Reader<'_>; 4], to: &mut [&mut [u8]; 4], table: &Table) {
    let [a, b, c, d] = readers;
    let rounds = to.iter().map(|to| to.len()).min().unwrap_or(0) / SURE;
    let [mut ta, mut tb, mut tc, mut td] = to.each_mut().map(|to| {
        let (now, after) = core::mem::take(to).split_at_mut(rounds * SURE);
        *to = after;
        now.chunks_exact_mut(SURE)
    });
    while let (Some(ta), Some(tb), Some(tc), Some(td)) = (ta.next(), tb.next(), tc.next(), td.next()) {
        a.load();
        b.load();
        c.load();
        d.load();
        for i in 0..SURE {
            ta[i] = a.next(table);
            tb[i] = b.next(table);
            tc[i] = c.next(table);
            td[i] = d.next(table);
        }
    }
}
