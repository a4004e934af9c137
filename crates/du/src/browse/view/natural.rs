//! Names in natural order: `a9` before `a10`.
//!
//! A name is converted to bytes that sort as the names do, so that a list of bytes can keep them:
//!
//! ```text
//!   img010.png      i m g | 0, 2, 1 0 | . p n g
//!                           |  |  └── digits, without zeros before them
//!                           |  └───── how many
//!                           └──────── stands where the digits stand among other bytes
//! ```
//!
//! Names that differ only in leading zeros have the same bytes: code that needs to order them must compare
//! further.

/// The most digits that one byte can announce; for a longer number, four more bytes follow.
const FEW: usize = 255;

/// Appends the bytes of a name.
pub fn put_key(to: &mut Vec<u8>, mut name: &[u8]) {
    while let Some((first, rest)) = name.split_first() {
        if !first.is_ascii_digit() {
            to.push(*first);
            name = rest;
            continue;
        }
        let end = name.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(name.len());
        let (digits, behind) = name.split_at(end);
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        let digits = &digits[zeros..];
        to.push(b'0');
        to.push(digits.len().min(FEW) as u8);
        if digits.len() >= FEW {
            to.extend_from_slice(&(digits.len() as u32).to_be_bytes());
        }
        to.extend_from_slice(digits);
        name = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::put_key;

    fn key(name: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        put_key(&mut key, name);
        key
    }

    #[test]
    fn digits_count_as_numbers() {
        let long = [b'1'; 300];
        let longer = [b'1'; 301];
        let names: [&[u8]; 15] = [
            b"",
            b"!",
            b"0",
            b"1",
            &[b'9'; 254],
            &[b'1'; 255],
            &long,
            &longer,
            b":",
            b"a",
            b"a0",
            b"a2b",
            b"a10",
            b"a10b2",
            b"a10b10",
        ];
        for pair in names.windows(2) {
            let shown = || pair.iter().map(|name| name.escape_ascii().to_string()).collect::<Vec<_>>();
            assert!(key(pair[0]) < key(pair[1]), "{:?}", shown());
        }
        assert_eq!(key(b"a007"), key(b"a7"));
        assert_ne!(key(b"a70"), key(b"a7"));
    }
}
