//! Formats numbers and times.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use memfold::size::Grouped;

use crate::entry::{BLOCK, MOST_BLOCKS};

/// The widths of a size, a count, and a time.
pub const SIZE: usize = 9;
/// See [`SIZE`].
pub const ITEMS: usize = 6;
/// See [`SIZE`].
pub const TIME: usize = 25;

/// A size in nine columns: `  2.6 MiB`, or `  2.7  MB` with powers of 1000.
pub fn size(bytes: u64, si: bool) -> String {
    let (step, units) = match si {
        true => (1000.0, ["B", "kB", "MB", "GB", "TB", "PB", "EB"]),
        false => (1024.0, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]),
    };
    let (mut value, mut unit) = (bytes as f64, 0);
    // At most three digits before the point, after rounding.
    while value >= 999.95 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let width = if si { 2 } else { 3 };
    // The true value of a sum that has reached the maximum may be larger.
    let more = if bytes >= MOST_BLOCKS * BLOCK { "≥" } else { "" };
    format!("{:>1$}", format!("{more}{value:.1} {:>width$}", units[unit]), SIZE)
}

/// A number with commas between groups of three digits.
pub fn number(number: u64) -> String {
    Grouped(number).to_string()
}

/// A count in six columns.
pub fn items(count: u64) -> String {
    if count < 100_000 {
        return format!("{:>1$}", number(count), ITEMS);
    }
    let (mut value, mut units) = (count as f64 / 1e3, "kMGTPE".chars());
    let mut unit = units.next().unwrap_or(' ');
    while value >= 999.95 {
        value /= 1e3;
        unit = units.next().unwrap_or(' ');
    }
    format!("{:>1$}", format!("{value:.1}{unit}"), ITEMS)
}

/// A time in seconds since 1970, in 25 columns and in the user's time zone.
pub fn time(seconds: i64, zone: &TimeZone) -> String {
    match Timestamp::from_second(seconds) {
        Ok(time) => {
            format!("{:>1$}", time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %z").to_string(), TIME)
        }
        // The time is outside of the calendar.
        Err(_) => format!("{:>1$}", format!("@{seconds}"), TIME),
    }
}

/// The duration of an operation so far.
pub fn elapsed(seconds: u64) -> String {
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    match minutes / 60 {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{:02}:{seconds:02}", minutes % 60),
    }
}

/// Type and permissions, as `ls` shows them.
pub fn mode(mode: u16) -> String {
    let kind = match mode & 0o170_000 {
        0o040_000 => 'd',
        0o100_000 => '-',
        0o120_000 => 'l',
        0o010_000 => 'p',
        0o140_000 => 's',
        0o020_000 => 'c',
        0o060_000 => 'b',
        _ => '?',
    };
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_nine_columns() {
        assert_eq!(size(i64::MAX as u64, false), " ≥8.0 EiB");
        assert_eq!(size((i64::MAX as u64) / 512 * 512, true), "  ≥9.2 EB");
        assert_eq!(size((1 << 63) - 1024, false), "  8.0 EiB");
        assert_eq!(size(0, false), "  0.0   B");
        assert_eq!(size(4096, false), "  4.0 KiB");
        assert_eq!(size(999, false), "999.0   B");
        assert_eq!(size(1000, false), "  1.0 KiB");
        assert_eq!(size(1_000_000, true), "   1.0 MB");
        assert_eq!(size(u64::MAX, false), "≥16.0 EiB");
        assert_eq!(size(1023 << 20, false), "  1.0 GiB");
        for shift in 0..64 {
            for bytes in [1 << shift, (1 << shift) - 1, (1u64 << shift).wrapping_mul(999)] {
                assert_eq!(size(bytes, false).chars().count(), SIZE, "{bytes}");
                assert_eq!(size(bytes, true).chars().count(), SIZE, "{bytes}");
            }
        }
    }

    #[test]
    fn counts_have_six_columns() {
        assert_eq!(items(7), "     7");
        assert_eq!(items(99_999), "99,999");
        assert_eq!(items(100_000), "100.0k");
        assert_eq!(items(999_990), "  1.0M");
        for shift in 0..64 {
            assert_eq!(items(1 << shift).len(), ITEMS, "2^{shift}");
        }
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(number(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn times_have_their_columns_whatever_they_are() {
        assert_eq!(time(1_700_000_000, &TimeZone::UTC), "2023-11-14 22:13:20 +0000");
        for seconds in [i64::MIN, -1, 0, i64::MAX] {
            assert_eq!(time(seconds, &TimeZone::UTC).len(), TIME, "{seconds}");
        }
        assert_eq!(elapsed(59), "0:59");
        assert_eq!(elapsed(3723), "1:02:03");
    }

    #[test]
    fn modes_are_as_ls_shows_them() {
        assert_eq!(mode(0o100_644), "-rw-r--r--");
        assert_eq!(mode(0o041_777), "drwxrwxrwt");
        assert_eq!(mode(0o104_755), "-rwsr-xr-x");
        assert_eq!(mode(0o102_640), "-rw-r-S---");
    }
}
