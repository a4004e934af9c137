//! The chance that pages compress worse than planned for (CRAMES, section 6.3).
//!
//! The paper convolves the distribution of one page's compressed size with itself, once for each page. This
//! module computes the tail of that convolution by its saddlepoint approximation (Lugannani and Rice, 1980),
//! which has a small relative error however improbable the event is; a convolution by Fourier transform would
//! lose everything below 1e-16. It includes two effects that the paper assumes away:
//!
//! - Neighbours are similar: `n` pages count as `n / inflation` independent ones, each standing for `inflation`
//!   pages ([`crate::depend`]).
//! - The distribution comes from a sample, so its mean has a normally distributed error. The chance is
//!   averaged over this error.
//!
//! The result is the chance that as many other pages of the same kind take more. It does not cover a program
//! that changes its behaviour.

use std::f64::consts::{LN_10, PI};

use serde::Serialize;

use crate::PAGE;
use crate::measure::Page;

/// Closer to the mean than this, the normal approximation is used, because the saddlepoint formula is 0 / 0
/// there.
const MIDDLE: f64 = 1e-5;
/// Points over which the mean's error is averaged, and the standard deviations covered on each side.
const POINTS: i32 = 200;
const DEVIATIONS: f64 = 10.0;

/// The distribution of the mean compressed size of many pages, as a share of a page.
#[derive(Debug, Clone)]
pub struct Odds {
    /// Sizes as shares of a page, in order, with their frequencies.
    sizes: Vec<(f64, f64)>,
    /// The equivalent number of independent pages.
    units: f64,
    /// The standard deviation of the sample's mean.
    error: f64,
}

/// A probability by its natural logarithm, since it may be too small for a floating-point number.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Chance(pub f64);

impl Chance {
    /// As a number; 0 if it is too small.
    pub fn value(self) -> f64 {
        self.0.exp()
    }

    /// Its decimal logarithm, at least -1e9, because JSON has no infinity.
    pub fn log10(self) -> f64 {
        (self.0 / LN_10).max(-1e9)
    }
}

impl std::fmt::Display for Chance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let log = self.0 / LN_10;
        match self.value() {
            _ if log == f64::NEG_INFINITY => write!(f, "0"),
            p if p >= 0.0995 => write!(f, "{:.0} %", p * 100.0),
            p if p >= 0.000_995 => write!(f, "{:.1} %", p * 100.0),
            _ => write!(f, "10^{log:.0}"),
        }
    }
}

impl Serialize for Chance {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.log10())
    }
}

impl Odds {
    /// The distribution for `count` pages like these. `None` if there are none.
    pub fn new(pages: &[Page], count: f64, inflation: f64, error: f64) -> Option<Self> {
        let sizes = histogram(pages);
        let units = (count / inflation).max(1.0);
        (!sizes.is_empty()).then_some(Odds { sizes, units, error })
    }

    /// The distribution for one page, for comparison.
    pub fn of_one(pages: &[Page]) -> Option<Self> {
        Self::new(pages, 1.0, 1.0, 0.0)
    }

    /// The frequency of each size, as a share of a page.
    pub fn sizes(&self) -> &[(f64, f64)] {
        &self.sizes
    }

    /// The mean share.
    pub fn mean(&self) -> f64 {
        self.sizes.iter().map(|(size, weight)| size * weight).sum()
    }

    /// Its standard deviation.
    pub fn deviation(&self) -> f64 {
        (self.variance() / self.units + self.error * self.error).sqrt()
    }

    fn variance(&self) -> f64 {
        let mean = self.mean();
        self.sizes.iter().map(|(size, weight)| (size - mean).powi(2) * weight).sum()
    }

    /// The chance that the mean share exceeds `share`.
    pub fn exceeds(&self, share: f64) -> Chance {
        if self.error == 0.0 {
            return Chance(self.tail(share));
        }
        // The largest value of the integrand need not be near zero: perhaps only the error makes the event
        // possible.
        let step = 2.0 * DEVIATIONS / f64::from(POINTS);
        let terms = (-POINTS / 2..=POINTS / 2).map(|i| {
            let z = f64::from(i) * step;
            self.tail(share - z * self.error) - z * z / 2.0
        });
        let terms: Vec<f64> = terms.collect();
        let within = log_sum(&terms) + (step / (2.0 * PI).sqrt()).ln();
        // An error beyond that range would cause the event by itself.
        let beyond = log_normal_tail(DEVIATIONS);
        Chance(log_sum(&[within, beyond.min(log_normal_tail((share - self.mean()) / self.error))]).min(0.0))
    }

    /// The share that is exceeded with this chance.
    pub fn exceeded_with(&self, chance: f64) -> f64 {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.exceeds(middle).0 > chance.ln() { low = middle } else { high = middle }
        }
        high
    }

    /// The density of the mean share, without the sample's error.
    pub fn density(&self, share: f64) -> f64 {
        let (least, most) = self.range();
        if share <= least || share >= most {
            return 0.0;
        }
        let theta = self.saddle(share);
        let [k, _, curvature] = self.cumulants(theta);
        if curvature <= 0.0 {
            return 0.0;
        }
        (self.units / (2.0 * PI * curvature)).sqrt() * (self.units * (k - theta * share)).exp()
    }

    fn range(&self) -> (f64, f64) {
        let ends = (self.sizes.first(), self.sizes.last());
        (ends.0.map_or(0.0, |it| it.0), ends.1.map_or(0.0, |it| it.0))
    }

    /// The logarithm of the chance of exceeding `share`.
    fn tail(&self, share: f64) -> f64 {
        let (least, most) = self.range();
        if share < least {
            return 0.0;
        }
        if share >= most {
            return f64::NEG_INFINITY;
        }
        let n = self.units;
        let theta = self.saddle(share);
        let [k, _, curvature] = self.cumulants(theta);
        let exponent = n * (theta * share - k).max(0.0);
        let r = (2.0 * exponent).sqrt() * theta.signum();
        let u = theta * (n * curvature).sqrt();
        if r.abs() < MIDDLE || u == 0.0 {
            return log_normal_tail((share - self.mean()) / (self.variance() / n).sqrt());
        }
        // Below the mean, compute the other tail. It is at most about a half. With few sizes the
        // approximation may give more; the result is then capped.
        let (r, u, above) = (r.abs(), u.abs(), r > 0.0);
        let factor = mills(r) - 1.0 / r + 1.0 / u;
        let factor = if factor > 0.0 { factor } else { mills(r) };
        let log = (-r * r / 2.0 - (2.0 * PI).sqrt().ln() + factor.ln()).min(0.0);
        if above { log } else { (-log.exp()).ln_1p().max(-std::f64::consts::LN_2) }
    }

    /// The point where the slope of the cumulant function is `share`, which must be within the range: by Newton's
    /// method, with bisection where that fails.
    fn saddle(&self, share: f64) -> f64 {
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        let mut theta = 0.0;
        for _ in 0..200 {
            let [_, slope, curvature] = self.cumulants(theta);
            let off = slope - share;
            if off.abs() < 1e-13 {
                break;
            }
            if off < 0.0 {
                low = theta
            } else {
                high = theta
            }
            let newton = theta - off / curvature;
            theta = match (low.is_finite(), high.is_finite()) {
                _ if newton.is_finite()
                    && newton > low
                    && newton < high
                    && (newton - theta).abs() < 1.0 + theta.abs() =>
                {
                    newton
                }
                (true, true) => (low + high) / 2.0,
                (true, false) => low + 1.0 + low.abs(),
                (false, true) => high - 1.0 - high.abs(),
                (false, false) => break,
            };
            if theta.abs() > 1e13 || high - low < 1e-14 * theta.abs() {
                break;
            }
        }
        theta
    }

    /// The cumulant function and its first two derivatives.
    fn cumulants(&self, theta: f64) -> [f64; 3] {
        let (least, most) = self.range();
        let top = if theta > 0.0 { theta * most } else { theta * least };
        let (mut zero, mut one, mut two) = (0.0, 0.0, 0.0);
        for (size, weight) in &self.sizes {
            let term = weight * (theta * size - top).exp();
            (zero, one, two) = (zero + term, one + term * size, two + term * size * size);
        }
        let slope = one / zero;
        [zero.ln() + top, slope, (two / zero - slope * slope).max(0.0)]
    }
}

fn histogram(pages: &[Page]) -> Vec<(f64, f64)> {
    let mut sizes: Vec<u16> = pages.iter().map(|page| page.bytes).collect();
    sizes.sort_unstable();
    let all = sizes.len() as f64;
    let group = |same: &[u16]| (f64::from(same[0]) / PAGE as f64, same.len() as f64 / all);
    sizes.chunk_by(|a, b| a == b).map(group).collect()
}

/// The tail of the normal distribution beyond `x` divided by the density at `x`, for `x` of at least 0.
fn mills(x: f64) -> f64 {
    if x < 25.0 {
        return libm::erfc(x / std::f64::consts::SQRT_2) / 2.0 * (2.0 * PI).sqrt() * (x * x / 2.0).exp();
    }
    let square = 1.0 / (x * x);
    (1.0 - square * (1.0 - 3.0 * square * (1.0 - 5.0 * square))) / x
}

fn log_normal_tail(x: f64) -> f64 {
    if x < 0.0 {
        return (libm::erfc(x / std::f64::consts::SQRT_2) / 2.0).ln();
    }
    -x * x / 2.0 - (2.0 * PI).sqrt().ln() + mills(x).ln()
}

/// The logarithm of a sum of numbers given as logarithms.
fn log_sum(terms: &[f64]) -> f64 {
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + terms.iter().map(|term| (term - top).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depend;

    fn page(number: u64, bytes: u16) -> Page {
        Page { number, mapping: 0, bytes }
    }

    /// Sizes typical of programs: many pages of few bytes, a broad hump, and some that do not compress.
    fn pages() -> Vec<Page> {
        (0..1000_u64)
            .map(|i| {
                let bytes = match i % 10 {
                    0 | 1 => 8,
                    9 => 4096,
                    k => 600 + k * 150 + i % 7 * 16,
                };
                page(i, bytes as u16)
            })
            .collect()
    }

    /// The sum of `count` pages by repeated convolution, on a grid of one byte.
    fn convolved(pages: &[Page], count: usize) -> Vec<f64> {
        let one = histogram(pages);
        let mut sum = vec![1.0];
        for _ in 0..count {
            let mut next = vec![0.0; sum.len() + PAGE];
            for (size, weight) in &one {
                let size = (size * PAGE as f64).round() as usize;
                sum.iter().zip(&mut next[size..]).for_each(|(p, to)| *to += p * weight);
            }
            sum = next;
        }
        sum
    }

    #[test]
    fn tails_are_those_of_the_convolution() {
        let pages = pages();
        for count in [16, 64] {
            let odds = Odds::new(&pages, count as f64, 1.0, 0.0).unwrap();
            let sum = convolved(&pages, count);
            for sigmas in [-2.0, -0.5, 0.3, 1.0, 2.0, 4.0, 6.0, 9.0] {
                let share = odds.mean() + sigmas * odds.deviation();
                let from = (share * (count * PAGE) as f64).floor() as usize + 1;
                let truth: f64 = sum.get(from..).map_or(0.0, |tail| tail.iter().sum());
                if truth < 1e-250 {
                    continue;
                }
                let found = odds.exceeds(share).value();
                // The approximation is less exact where nearly all pages must have the largest size.
                let most = if truth > 1e-9 { 0.05 } else { 0.5 };
                let off = (found / truth).log10().abs();
                assert!(off < most, "{count}, {sigmas}: {found:e}, and {truth:e} is right");
            }
        }
    }

    #[test]
    fn chances_may_be_smaller_than_in_the_paper() {
        // 16,384 pages whose mean is 43.8 %, and a target of 50 %: the paper finds 3.4e-158.
        let pages: Vec<Page> =
            (0..1000).map(|i| page(i, (1794 + (i % 21) as i32 * 80 - 800) as u16)).collect();
        let odds = Odds::new(&pages, 16384.0, 1.0, 0.0).unwrap();
        let chance = odds.exceeds(0.5);
        assert!(chance.log10() < -100.0 && chance.log10() > -1e5, "{chance}");
        assert!(chance.to_string().starts_with("10^-"));
        // It practically always exceeds 98 % of the mean.
        assert!((odds.exceeds(odds.mean() * 0.98).value() - 1.0).abs() < 1e-9);
        assert_eq!(odds.exceeds(0.9999).value(), 0.0);
    }

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.0 >> 33
        }
    }

    /// Pages in runs of one kind, 9 pages long on average; each kind has its own sizes.
    fn run_of_pages(random: &mut Random, count: usize) -> Vec<Page> {
        let mut kind = random.next() % 3;
        (0..count as u64)
            .map(|number| {
                if random.next().is_multiple_of(9) {
                    kind = random.next() % 3;
                }
                let bytes = [8, 1200, 2600][kind as usize] + random.next() % 400;
                page(number, bytes as u16)
            })
            .collect()
    }

    #[test]
    fn with_neighbours_that_are_alike_it_is_as_a_simulation_has_it() {
        let mut random = Random(11);
        let sample = run_of_pages(&mut random, 200_000);
        let inflation = depend::measure(&sample, 200_000).inflation;
        let count = 2000;
        let odds = Odds::new(&sample, f64::from(count), inflation, 0.0).unwrap();
        let naive = Odds::new(&sample, f64::from(count), 1.0, 0.0).unwrap();
        let times = 20_000;
        let mut sums: Vec<f64> = (0..times)
            .map(|_| {
                let pages = run_of_pages(&mut random, count as usize);
                pages.iter().map(|it| f64::from(it.bytes)).sum::<f64>() / f64::from(count) / PAGE as f64
            })
            .collect();
        sums.sort_by(f64::total_cmp);
        for wanted in [0.5, 0.1, 0.02, 0.004] {
            let share = sums[((1.0 - wanted) * f64::from(times)) as usize];
            let found = odds.exceeds(share).value();
            assert!((0.6..1.6).contains(&(found / wanted)), "{found} for {wanted}, inflation {inflation}");
        }
        // With independent pages the rare event would seem impossible.
        let rare = sums[(0.996 * f64::from(times)) as usize];
        assert!(naive.exceeds(rare).value() < 0.0001);
    }

    #[test]
    fn the_error_of_a_sample_is_part_of_it() {
        let mut random = Random(23);
        let all: Vec<Page> = (0..4000).map(|i| page(i, (500 + random.next() % 3000) as u16)).collect();
        // Repeatedly predicts a thousand pages from a hundred others.
        let (mut held, times) = (0, 2000);
        let pick = |random: &mut Random, count: usize| -> Vec<Page> {
            (0..count).map(|_| all[(random.next() % 4000) as usize]).collect()
        };
        for _ in 0..times {
            let sample = pick(&mut random, 100);
            let one = Odds::of_one(&sample).unwrap();
            let error = (one.variance() / 100.0).sqrt();
            let odds = Odds::new(&sample, 1000.0, 1.0, error).unwrap();
            let others = pick(&mut random, 1000);
            let mean = others.iter().map(|it| f64::from(it.bytes)).sum::<f64>() / 1000.0 / PAGE as f64;
            held += u32::from(odds.exceeds(mean).value() < 0.05);
        }
        // An event with a chance of one twentieth occurs one time in twenty.
        assert!((60..145).contains(&held), "{held} of {times}");
    }

    #[test]
    fn ends_and_inverses() {
        let odds = Odds::new(&pages(), 100.0, 1.0, 0.0).unwrap();
        for chance in [0.5, 1e-3, 1e-12, 1e-60] {
            let share = odds.exceeded_with(chance);
            assert!((odds.exceeds(share).log10() - chance.log10()).abs() < 0.01);
        }
        let total: f64 = (0..10_000).map(|i| odds.density(f64::from(i) / 10_000.0) / 10_000.0).sum();
        assert!((total - 1.0).abs() < 0.02, "{total}");
        assert!(Odds::new(&[], 10.0, 1.0, 0.0).is_none());
        let alike = Odds::new(&[page(0, 1000), page(1, 1000)], 10.0, 1.0, 0.0).unwrap();
        assert_eq!(alike.exceeds(0.3).value(), 0.0);
        assert_eq!(alike.exceeds(0.2).value(), 1.0);
    }
}
