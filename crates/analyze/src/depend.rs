//! Measures how much pages depend on their neighbours.
//!
//! The variance of the sum of `n` independent pages is `n` times the variance of one. Pages of one array are
//! similar. This multiplies the variance by `1 + 2 * (sum of the correlations at all distances)`, as if there
//! were fewer pages, each counting for several. CRAMES (section 6.3) assumes that the correlation is weak;
//! this module measures it.
//!
//! ```text
//!   correlation
//!   1 |#
//!     |##.                     distances 1 to 15: within clusters, exactly
//!     |####...                 from 16, 32, 64 ... on: between clusters, the mean of each doubling
//!     +-----------------> distance
//! ```

use crate::measure::Page;
use crate::sample::CLUSTER;

/// The number of pairs of pages that a correlation needs.
const PAIRS: usize = 256;

/// How much pages depend on their neighbours.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Dependence {
    /// Correlations by distance in pages, beginning with adjacent pages.
    pub correlations: Vec<(u64, f64)>,
    /// The factor by which the variance of the sum of many pages exceeds that of independent pages.
    pub inflation: f64,
}

/// Measures the dependence on sampled pages; `all` is the number of pages that they were sampled from.
pub fn measure(pages: &[Page], all: u64) -> Dependence {
    let mut pages = pages.to_vec();
    pages.sort_unstable_by_key(|page| page.number);
    let count = pages.len() as f64;
    let none = Dependence { correlations: Vec::new(), inflation: 1.0 };
    if pages.len() < 2 {
        return none;
    }
    let mean = pages.iter().map(|page| f64::from(page.bytes)).sum::<f64>() / count;
    let off = |page: &Page| f64::from(page.bytes) - mean;
    let variance = pages.iter().map(|page| off(page).powi(2)).sum::<f64>() / count;
    if variance <= f64::EPSILON * mean * mean {
        return none;
    }

    // Within clusters: each distance. Pages may be missing.
    let mut correlations = Vec::new();
    let mut sum = 0.0;
    let all = all as f64;
    let mut ended = false;
    for distance in 1..CLUSTER as u64 {
        let (mut products, mut pairs) = (0.0, 0_u64);
        for (at, page) in pages.iter().enumerate() {
            let others = pages[at + 1..].iter().take(distance as usize);
            for other in others.filter(|other| other.number - page.number == distance) {
                products += off(page) * off(other);
                pairs += 1;
            }
        }
        if pairs == 0 {
            ended = true;
            break;
        }
        let correlation = products / pairs as f64 / variance;
        correlations.push((distance, correlation));
        sum += correlation * (1.0 - distance as f64 / all).max(0.0);
    }

    // Farther away: one mean for each doubling, as long as the correlation exceeds chance.
    let clusters = clusters(&pages, off);
    let mut from = CLUSTER as u64;
    let mut state = 1_u64;
    while !ended && (from as f64) < all / 4.0 {
        let (mut products, mut pairs) = (0.0, 0_usize);
        for page in &pages {
            // Any distance in the doubling is equally likely. If that page was not sampled, take the next one
            // that was.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let wanted = page.number + from + (state >> 33) % from;
            let at = pages.partition_point(|other| other.number < wanted);
            if let Some(other) = pages.get(at).filter(|other| other.number - page.number < 2 * from) {
                products += off(page) * off(other);
                pairs += 1;
            }
        }
        if pairs >= PAIRS {
            let correlation = products / pairs as f64 / variance;
            // The correlation that independent pages might show by chance.
            let chance = 2.0 * clusters.1 / variance / (pairs.min(clusters.0) as f64).sqrt();
            if correlation < chance {
                break;
            }
            correlations.push((from * 3 / 2, correlation));
            sum += correlation * from as f64 * (1.0 - from as f64 * 1.5 / all);
        } else if let Some((_, last)) = correlations.last() {
            // The sample is too thin for this distance: assume that the correlation falls by half, as an
            // exponential decay would.
            let guess = last / 2.0;
            if guess < 0.01 {
                break;
            }
            correlations.push((from * 3 / 2, guess));
            sum += guess * from as f64 * (1.0 - from as f64 * 1.5 / all);
        }
        from *= 2;
    }
    Dependence { correlations, inflation: (1.0 + 2.0 * sum).clamp(1.0, all) }
}

/// The number of clusters, and the variance of their means.
fn clusters(pages: &[Page], off: impl Fn(&Page) -> f64) -> (usize, f64) {
    let cluster = |page: &Page| page.number / CLUSTER as u64;
    let means = pages
        .chunk_by(|a, b| cluster(a) == cluster(b))
        .map(|pages| pages.iter().map(&off).sum::<f64>() / pages.len() as f64);
    let (count, squares) = means.fold((0, 0.0), |(count, sum), mean| (count + 1, sum + mean * mean));
    (count, squares / count.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);

    impl Random {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    /// Pages of two kinds; each is of the same kind as the one before with probability `stays`. The
    /// correlation at distance d is (2 stays - 1)^d, so the inflation is known.
    fn chain(random: &mut Random, count: u64, stays: f64) -> Vec<Page> {
        let mut kind = random.unit() < 0.5;
        let pages = (0..count).map(|number| {
            kind ^= random.unit() >= stays;
            Page { number, mapping: 0, bytes: if kind { 3000 } else { 500 } }
        });
        pages.collect()
    }

    #[test]
    fn the_inflation_of_a_known_process_is_found() {
        let mut random = Random(3);
        for stays in [0.5, 0.75, 0.9, 0.98] {
            let r = 2.0 * stays - 1.0;
            let truth = (1.0 + r) / (1.0 - r);
            let found: Vec<f64> =
                (0..8).map(|_| measure(&chain(&mut random, 60_000, stays), 60_000).inflation).collect();
            let mean = found.iter().sum::<f64>() / 8.0;
            assert!((0.8..1.25).contains(&(mean / truth)), "{stays}: {found:?} for {truth}");
        }
    }

    #[test]
    fn a_thin_sample_finds_it_too() {
        let mut random = Random(5);
        // A sample of one cluster in 16.
        let pages: Vec<Page> =
            chain(&mut random, 600_000, 0.9).into_iter().filter(|it| it.number / 16 % 16 == 0).collect();
        let found = measure(&pages, 600_000).inflation;
        assert!((7.0..11.5).contains(&found), "{found}, and 9 is right");
    }

    #[test]
    fn few_or_equal_samples_are_not_an_error() {
        let page = |number, bytes| Page { number, mapping: 0, bytes };
        assert_eq!(measure(&[], 0).inflation, 1.0);
        assert_eq!(measure(&[page(0, 7)], 1).inflation, 1.0);
        assert_eq!(measure(&[page(0, 7), page(1, 7), page(2, 7)], 3).inflation, 1.0);
        let two = measure(&[page(0, 7), page(1, 9)], 2);
        assert!(two.inflation >= 1.0 && two.inflation.is_finite());
    }
}
