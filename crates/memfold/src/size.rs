//! Sizes as people write them: `512M`, `1.5G`, `50%`, a bare number of bytes.
//!
//! Units are powers of 1024. A size may have one decimal point; the result
//! is rounded down to whole bytes.

use core::fmt;

/// A size that may depend on the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// A number of bytes.
    Bytes(u64),
    /// A share of the machine's memory, 0 to 100.
    Percent(f64),
}

/// Why a text is not a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadSize {
    /// Not of the form number and unit.
    NotASize,
    /// Zero, or so small that it rounds to zero.
    Zero,
    /// More than fits into 64 bits, or more than 100 %.
    TooLarge,
}

impl fmt::Display for BadSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotASize => "is not a size",
            Self::Zero => "is zero",
            Self::TooLarge => "is too large",
        })
    }
}

/// Reads a size.
pub fn parse(text: &str) -> Result<Size, BadSize> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if !number.bytes().any(|b| b.is_ascii_digit()) {
        return Err(BadSize::NotASize);
    }
    let unit = unit.trim_start();
    if unit == "%" {
        let share: f64 = number.parse().map_err(|_| BadSize::NotASize)?;
        return match share {
            s if s <= 0.0 => Err(BadSize::Zero),
            s if s > 100.0 => Err(BadSize::TooLarge),
            s => Ok(Size::Percent(s)),
        };
    }
    let shift = shift_of(unit).ok_or(BadSize::NotASize)?;
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(1 << shift).ok_or(BadSize::TooLarge)?,
        Err(_) => fraction(number, shift)?,
    };
    if bytes == 0 { Err(BadSize::Zero) } else { Ok(Size::Bytes(bytes)) }
}

/// A number with a decimal point, or one too long for 64 bits.
fn fraction(number: &str, shift: u32) -> Result<u64, BadSize> {
    let value: f64 = number.parse().map_err(|_| BadSize::NotASize)?;
    let bytes = value * (1u64 << shift) as f64;
    if bytes >= u64::MAX as f64 { Err(BadSize::TooLarge) } else { Ok(bytes as u64) }
}

fn shift_of(unit: &str) -> Option<u32> {
    let unit = unit.to_ascii_lowercase();
    let letter = unit.strip_suffix("ib").or_else(|| unit.strip_suffix('b')).unwrap_or(&unit);
    match letter {
        // "ib" alone is not a unit.
        "" if unit == "ib" => None,
        "" => Some(0),
        "k" => Some(10),
        "m" => Some(20),
        "g" => Some(30),
        "t" => Some(40),
        "p" => Some(50),
        "e" => Some(60),
        _ => None,
    }
}

impl Size {
    /// The size in bytes, on a machine with this much memory.
    pub fn of(self, memory: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(share) => (memory as f64 * share / 100.0) as u64,
        }
    }
}

/// Bytes for human readers: three significant digits and a binary unit.
pub struct Human(pub u64);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 999.5 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let digits = match value {
            v if unit == 0 || v >= 99.95 || v.fract() == 0.0 => 0,
            v if v >= 9.995 => 1,
            _ => 2,
        };
        write!(f, "{value:.digits$} {}", UNITS[unit])
    }
}

/// A number with commas between groups of three digits: 1,234,567.
pub struct Grouped(pub u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            small @ ..1000 => write!(f, "{small}"),
            large => write!(f, "{},{:03}", Self(large / 1000), large % 1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn sizes_of_the_contract() {
        assert_eq!(parse("512M"), Ok(Size::Bytes(512 << 20)));
        assert_eq!(parse("1.5G"), Ok(Size::Bytes(3 << 29)));
        assert_eq!(parse("4096"), Ok(Size::Bytes(4096)));
        assert_eq!(parse("50%"), Ok(Size::Percent(50.0)));
        assert_eq!(parse("12.5%").map(|s| s.of(1000)), Ok(125));
    }

    #[test]
    fn spellings_of_units() {
        for text in ["2g", "2G", "2GB", "2GiB", "2 GiB", "2048M", "2097152k", "2147483648b", " 2G "] {
            assert_eq!(parse(text), Ok(Size::Bytes(2 << 30)), "{text}");
        }
        assert_eq!(parse(".5K"), Ok(Size::Bytes(512)));
        assert_eq!(parse("1.T"), Ok(Size::Bytes(1 << 40)));
    }

    #[test]
    fn texts_that_are_not_sizes() {
        for text in [
            "", "M", "-1M", "+1M", "1e9", "0x10", "1.2.3G", "5Z", "1 2", "ib", "5ib", "inf", "nan", "%",
            "1,5G",
        ] {
            assert_eq!(parse(text), Err(BadSize::NotASize), "{text}");
        }
        for text in ["0", "0M", "0.0G", "0%", "0.1"] {
            assert_eq!(parse(text), Err(BadSize::Zero), "{text}");
        }
        for text in ["101%", "99999999999999999999", "18446744073709551615K", "1e400%", "99999999P"] {
            assert!(matches!(parse(text), Err(BadSize::TooLarge | BadSize::NotASize)), "{text}");
        }
        assert_eq!(parse("99999999P"), Err(BadSize::TooLarge));
    }

    #[test]
    fn words_for_people() {
        let cases =
            [(0, "0 bytes"), (999, "999 bytes"), (1024, "1 KiB"), (1536, "1.50 KiB"), (1000, "0.98 KiB")];
        for (bytes, text) in cases {
            assert_eq!(Human(bytes).to_string(), text);
        }
        assert_eq!(Human(512 << 20).to_string(), "512 MiB");
        assert_eq!(Human((12 << 20) + (345 << 10)).to_string(), "12.3 MiB");
        assert_eq!(Human(3 << 29).to_string(), "1.50 GiB");
        assert_eq!(Human(1000 << 20).to_string(), "0.98 GiB");
    }

    #[test]
    fn digits_in_groups() {
        let numbers = [0, 999, 1000, 1_234_567, 1_000_007, u64::MAX];
        let texts = ["0", "999", "1,000", "1,234,567", "1,000,007", "18,446,744,073,709,551,615"];
        assert_eq!(numbers.map(|number| Grouped(number).to_string()), texts);
    }
}
