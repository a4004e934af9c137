//! The named workloads, one for each level, for the whole process.

use super::Dictionaries;
use crate::codecs::zstd::{self, LEVELS as PLAIN};

macro_rules! levels {
    ($($level:literal),* $(,)?) => {{
        let mut at = 0;
        [$({
            let plain = &PLAIN[at];
            assert!(plain.level() == $level, "the levels of zstd");
            at += 1;
            let _ = at;
            Dictionaries::named(concat!("zstd-dict:", $level), plain)
        }),*]
    }};
}

/// The workloads of all levels of `zstd`, in its order.
#[rustfmt::skip]
pub(crate) static LEVELS: [Dictionaries; zstd::COUNT] = levels![
    -50, -49, -48, -47, -46, -45, -44, -43, -42, -41, -40, -39, -38, -37, -36, -35, -34, -33, -32, -31,
    -30, -29, -28, -27, -26, -25, -24, -23, -22, -21, -20, -19, -18, -17, -16, -15, -14, -13, -12, -11,
    -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
    18, 19, 20, 21, 22,
];
