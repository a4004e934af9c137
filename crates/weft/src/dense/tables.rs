//! The Huffman codes: nine families with fifteen tables each.
//!
//! `tables.txt` has a line for each table, family by family: the length of each symbol's code as a letter,
//! `b` for 1 bit to `k` for 10. Codes are canonical: shorter ones first, among equals in the order of the
//! symbols. In a stream the first bit of a code comes first.

use super::FAMILIES;

/// The longest code, in bits.
pub(crate) const MOST_BITS: usize = 10;
/// Tables of a family.
pub(crate) const TABLES: usize = 15;
/// Where the length of a code begins in an entry of [`CODES`].
const SHIFT: u32 = 12;

const TEXT: &[u8] = include_bytes!("tables.txt");

/// The lengths of each symbol's codes, in all tables of a family; a row has one more, for vectors.
pub(crate) static LENGTHS: [[[u8; TABLES + 1]; 256]; FAMILIES] = {
    let mut lengths = [[[0; TABLES + 1]; 256]; FAMILIES];
    let mut at = 0;
    while at < FAMILIES * TABLES * 256 {
        let (table, symbol) = (at / 256, at % 256);
        lengths[table / TABLES][symbol][table % TABLES] = TEXT[table * 257 + symbol] - b'a';
        at += 1;
    }
    lengths
};

/// For each symbol of each table ([`codes_at`]): the length of its code in the upper four bits, and the code.
pub(crate) static CODES: [u16; NO_CODE + 1] = make_codes();
/// An entry of [`CODES`] that takes no bits.
pub(crate) const NO_CODE: usize = FAMILIES * TABLES * 256;

/// Where the codes of a table begin.
#[inline(always)]
pub(crate) const fn codes_at(family: usize, table: u8) -> usize {
    (family * TABLES + table as usize) * 256
}

/// For each ten bits of a stream: the symbol in the upper byte, and the length of its code.
pub(crate) static SYMBOLS: [[[u16; 1 << MOST_BITS]; TABLES]; FAMILIES] = make_symbols();

#[allow(long_running_const_eval)]
const fn make_codes() -> [u16; NO_CODE + 1] {
    let mut codes = [0; NO_CODE + 1];
    let mut number = 0;
    while number < FAMILIES * TABLES {
        let (mut next, mut length) = (0u32, 1);
        while length <= MOST_BITS as u32 {
            let mut symbol = 0;
            while symbol < 256 {
                if (TEXT[number * 257 + symbol] - b'a') as u32 == length {
                    // The code with its first bit lowest.
                    let code = next.reverse_bits() >> (32 - length);
                    codes[number * 256 + symbol] = (length << SHIFT | code) as u16;
                    next += 1;
                }
                symbol += 1;
            }
            next *= 2;
            length += 1;
        }
        // Every row of bits is a code.
        assert!(next == 2 << MOST_BITS);
        number += 1;
    }
    codes
}

#[allow(long_running_const_eval)]
const fn make_symbols() -> [[[u16; 1 << MOST_BITS]; TABLES]; FAMILIES] {
    let codes = make_codes();
    let mut symbols = [[[0; 1 << MOST_BITS]; TABLES]; FAMILIES];
    let mut number = 0;
    while number < FAMILIES * TABLES {
        let mut symbol = 0;
        while symbol < 256 {
            let code = codes[number * 256 + symbol];
            let (length, mut bits) = (code >> SHIFT, (code & ((1 << SHIFT) - 1)) as usize);
            while bits < 1 << MOST_BITS {
                symbols[number / TABLES][number % TABLES][bits] = (symbol as u16) << 8 | length;
                bits += 1 << length;
            }
            symbol += 1;
        }
        number += 1;
    }
    symbols
}

/// The length of a code, and the code.
#[inline(always)]
pub(crate) const fn code(entry: u16) -> (u32, u64) {
    ((entry >> SHIFT) as u32, (entry & ((1 << SHIFT) - 1)) as u64)
}
