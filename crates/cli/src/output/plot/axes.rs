//! Axes: round steps, their labels, and numbers in words.

use memfold::size::Human;

use crate::output::text::grouped;

/// The end of an axis of bytes that begins at zero, and its labels.
pub fn bytes_axis(largest: u64) -> (u64, Vec<(f64, String)>) {
    let step = step_of_bytes(largest.max(1 << 20));
    let end = largest.max(1 << 20).div_ceil(step) * step;
    let text = |bytes: u64| if bytes == 0 { "0".to_owned() } else { Human(bytes).to_string() };
    let words = (0..=end).step_by(step as usize).map(|bytes| (bytes as f64 / end as f64, text(bytes)));
    (end, words.collect())
}

/// A round number of bytes that divides `top` into 2 to 6 parts.
fn step_of_bytes(top: u64) -> u64 {
    let mut unit = 1u64;
    while top / unit >= 1024 {
        unit *= 1024;
    }
    let steps = [1, 2, 4, 5, 10, 20, 25, 50, 100, 128, 200, 256];
    let step = steps.into_iter().find(|step| top.div_ceil(unit * step) <= 6);
    // Less than three units need steps of a fraction of one.
    match top / unit {
        0..=2 if unit > 1 => unit / 2,
        _ => unit * step.unwrap_or(256),
    }
}

/// The end of an axis of numbers that begins at zero, and its labels.
pub fn count_axis(largest: f64, text: impl Fn(f64) -> String) -> (f64, Vec<(f64, String)>) {
    let largest = largest.max(1e-6);
    let step = round_step(largest, 4.0);
    let parts = (largest / step).ceil();
    let words = (0..=parts as u32).map(|part| {
        let value = f64::from(part) * step;
        (f64::from(part) / parts, if part == 0 { "0".to_owned() } else { text(value) })
    });
    (parts * step, words.collect())
}

/// Labels for the time axis.
pub fn time_axis(seconds: f64) -> Vec<(f64, String)> {
    let (unit, name) = match seconds {
        0.0..300.0 => (1.0, "s"),
        0.0..10_800.0 => (60.0, "min"),
        _ => (3600.0, "h"),
    };
    let step = round_step(seconds / unit, 9.0);
    let digits = (-step.log10().floor()).max(0.0) as usize;
    let count = (seconds / unit / step * (1.0 + 1e-9)) as u32;
    (0..=count)
        .map(|number| {
            let value = f64::from(number) * step;
            (value * unit / seconds, format!("{value:.digits$} {name}"))
        })
        .collect()
}

/// The smallest of 1, 2 or 5 times a power of ten that gives no more than `most` steps.
pub fn round_step(largest: f64, most: f64) -> f64 {
    let power = 10f64.powf((largest / most).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| largest / step <= most * (1.0 + 1e-9)).unwrap_or(largest)
}

/// The products of powers of ten and these steps that lie between two numbers.
pub fn decades(low: f64, high: f64, steps: &[f64]) -> Vec<f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
    all.filter(|value| (low..=high).contains(value)).collect()
}

/// Powers of ten between two numbers and, if these are few, also their doubles and quintuples.
pub fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    decades(low, high, if high / low > 300.0 { &[1.0] } else { &[1.0, 2.0, 5.0] })
}

/// A time in microseconds, in words.
pub fn us_text(us: f64) -> String {
    match us {
        0.0..1.0 => format!("{us:.2}\u{a0}µs"),
        1.0..10.0 => format!("{us:.1}\u{a0}µs"),
        10.0..999.5 => format!("{us:.0}\u{a0}µs"),
        0.0..9950.0 => format!("{:.1}\u{a0}ms", us / 1e3),
        0.0..999_500.0 => format!("{:.0}\u{a0}ms", us / 1e3),
        _ => format!("{:.1}\u{a0}s", us / 1e6),
    }
}

/// A rate or a count in short form.
pub fn short(value: f64) -> String {
    match value {
        0.0..1.0 => format!("{value:.1}"),
        1.0..1e4 => grouped(value.round() as u64),
        1e4..1e6 => format!("{:.0}k", value / 1e3),
        _ => format!("{:.1}M", value / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_of_bearable_size_and_end_beyond_the_largest() {
        for top in [0, 1 << 20, 3 << 20, 100 << 20, 999 << 20, 1 << 30, 5 << 29, 700 << 30, 1 << 42] {
            let (end, words) = bytes_axis(top);
            assert!(end >= top && (3..=7).contains(&words.len()), "{top}: {words:?}");
        }
        for seconds in [0.001, 0.05, 1.0, 7.3, 60.0, 299.0, 4000.0, 99_999.0] {
            let words = time_axis(seconds);
            assert!((3..=11).contains(&words.len()), "{seconds}: {words:?}");
            assert!(words.is_sorted_by(|a, b| a.0 < b.0) && words.iter().all(|word| word.0 <= 1.001));
        }
        assert_eq!(log_ticks(3.0, 2000.0), [10.0, 100.0, 1000.0]);
        assert_eq!(log_ticks(4.0, 60.0), [5.0, 10.0, 20.0, 50.0]);
        for largest in [0.0, 0.3, 7.0, 123_456.0] {
            let (end, words) = count_axis(largest, short);
            assert!(end >= largest && (2..=6).contains(&words.len()), "{largest}: {words:?}");
        }
    }
}
