//! Estimates in words, such that none claims more than its error allows.

use memfold_analyze::odds::Chance;

use super::found::Analysis;

/// Chances below this depend on how exactly the sample and the model describe the rarest pages.
const LEAST_CHANCE: f64 = 1e-9;
/// Slowdowns below this are lost in the noise of any machine.
const LEAST_SLOWDOWN: f64 = 0.0005;

/// Whether an estimate is larger than its error.
pub fn is_known(relative_error: f64) -> bool {
    relative_error < 1.0
}

/// A ratio with its 95 % interval.
pub fn ratio(ratio: f64, relative_error: f64) -> String {
    match is_known(relative_error) {
        true => format!("{ratio:.2} ± {:.2}", ratio * relative_error),
        false => "not known".into(),
    }
}

/// A share, in percent. Below `least` it is not known better.
pub fn percent(share: f64, least: f64) -> String {
    match share {
        _ if share < least => format!("less than {} %", round_up(least * 100.0)),
        _ => format!("{:.1} %", share * 100.0),
    }
}

/// A share of the pages, of which only some were sampled. Neighbours resemble each other, so the sample is worth
/// fewer pages than it has.
pub fn share_of_pages(found: &Analysis, share: f64) -> String {
    let unseen = 1.0 - found.sampled_pages as f64 / found.pages.max(1) as f64;
    if unseen <= 0.0 {
        return format!("{:.1} %", share * 100.0);
    }
    let worth = (found.sampled_pages as f64 / found.dependence.inflation.max(1.0)).max(1.0);
    // What did not occur among n has, with 95 % confidence, a share of less than 3 / n.
    let error = (1.96 * (share * (1.0 - share) * unseen / worth).sqrt()).max(3.0 / worth * unseen);
    match share > error {
        true => format!("{:.1} ± {:.1} %", share * 100.0, error * 100.0),
        false => percent(0.0, (share + error).min(1.0)),
    }
}

/// Pages per second, if the process was observed for this many seconds: less than one page in all that time
/// could not be seen.
pub fn rate(per_second: f64, seconds: f64) -> String {
    let least = 1.0 / seconds.max(0.001);
    match per_second {
        _ if per_second < least => format!("less than {}", round_up(least)),
        _ if per_second < 10.0 => format!("{per_second:.1}"),
        _ => format!("{per_second:.0}"),
    }
}

/// A share of the time, or how many times as long everything takes.
pub fn slowdown(part: f64) -> String {
    match part < LEAST_SLOWDOWN {
        true => format!("less than {} %", round_up(LEAST_SLOWDOWN * 100.0)),
        false => super::text::slowdown(part),
    }
}

/// A chance.
pub fn chance(chance: Chance) -> String {
    match chance.value() < LEAST_CHANCE {
        true => format!("less than 10^{:.0}", LEAST_CHANCE.log10()),
        false => chance.to_string(),
    }
}

/// A number with one significant digit, no smaller than it is.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let up = (value / power - 1e-9).ceil() * power;
    // The product may not be the nearest number to the decimal one.
    format!("{up:.12}").parse().unwrap_or(up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_figure_is_smaller_than_its_error() {
        assert_eq!(
            [ratio(2.0, 0.05), ratio(2.0, 1.0), ratio(2.0, f64::INFINITY)],
            ["2.00 ± 0.10", "not known", "not known"]
        );
        assert_eq!([percent(0.0001, 0.001), percent(0.02, 0.001)], ["less than 0.1 %", "2.0 %"]);
        assert_eq!([rate(0.0, 4.0), rate(0.3, 4.0), rate(31.4, 4.0)], ["less than 0.3", "0.3", "31"]);
        assert_eq!([slowdown(0.0), slowdown(0.004)], ["less than 0.05 %", "0.4 %"]);
        let chances = [f64::NEG_INFINITY, -300.0, 1e-8f64.ln(), 0.5f64.ln()].map(|it| chance(Chance(it)));
        assert_eq!(chances, ["less than 10^-9", "less than 10^-9", "10^-8", "50 %"]);
        assert_eq!([0.25, 0.05, 0.031, 7.0, 1.0].map(round_up), [0.3, 0.05, 0.04, 7.0, 1.0]);
    }
}
