//! Which predictions pay.

use std::vec::Vec;

use super::super::Shape;
use super::{Fields, MOST_COLUMNS, Member, Of, Plan, Predictor, WORD, fold, word};

/// Predicts the words of members, one member after the other.
pub(super) struct Predictions {
    /// The columns that have a predictor.
    columns: [(usize, Predictor); MOST_COLUMNS],
    count: usize,
    last: [u64; MOST_COLUMNS],
}

impl Predictions {
    pub(super) fn new(predictors: impl Iterator<Item = Predictor>) -> Self {
        let mut all =
            Predictions { columns: [(0, Predictor::Zero); MOST_COLUMNS], count: 0, last: [0; MOST_COLUMNS] };
        for predicted in predictors.enumerate().filter(|&(_, predictor)| predictor != Predictor::Zero) {
            all.columns[all.count] = predicted;
            all.count += 1;
        }
        all
    }

    /// Calls `each` with each column of a member's row and its prediction; `each` returns the word.
    #[inline(always)]
    pub(super) fn each(
        &mut self,
        of: Of,
        members: &[Member],
        i: usize,
        mut each: impl FnMut(usize, u64) -> u64,
    ) {
        let handle = |i: usize| members.get(i).map_or(0, |member| of.handle + u64::from(member.place));
        for &(column, predictor) in &self.columns[..self.count] {
            let prediction = match predictor {
                Predictor::Zero => 0,
                Predictor::Same => self.last[column],
                Predictor::Next => handle(i + 1),
                Predictor::Previous => handle(i.wrapping_sub(1)),
            };
            self.last[column] = each(column, prediction);
        }
    }
}

impl Fields {
    /// A plan for blocks like this one, with as many columns as most nodes have words for.
    pub fn plan(&mut self, of: Of, block: &[u8]) -> Option<Plan> {
        let mut plan = Plan::default();
        if let Shape::Equal(shape) = of.shape
            && of.shape.is_alone()
        {
            // While the length of an array's rows is unknown, so is what the rows have in common.
            let columns = MOST_COLUMNS.min(shape.stride() / WORD) as u8;
            return Some(Plan { columns, predictors: [Predictor::Same; MOST_COLUMNS] });
        }
        self.walk(block, of, 0)?;
        let (nodes, mut words) = (self.members.len(), Vec::new());
        let most = match of.shape {
            Shape::Mixed(_) => MOST_COLUMNS,
            Shape::Equal(shape) => shape.stride().div_ceil(WORD).min(MOST_COLUMNS),
        };
        for column in 0..most {
            self.walk(block, of, column + 1)?;
            if self.members.len() * 2 <= nodes {
                break;
            }
            let mut cost = |predictor| {
                let taken = of.taken(column + 1) - column * WORD;
                let mut predictions = Predictions::new(std::iter::once(predictor));
                words.clear();
                for (i, member) in self.members.iter().enumerate() {
                    let mut row = [0; WORD];
                    row[..taken]
                        .copy_from_slice(block.get(member.at as usize + column * WORD..)?.get(..taken)?);
                    let mut left = word(&row, 0);
                    predictions.each(of, &self.members, i, |_, prediction| {
                        let word = left;
                        left = fold(word.wrapping_sub(prediction));
                        word
                    });
                    words.push(left);
                }
                Some(bits(&words))
            };
            let mut best = (cost(Predictor::Zero)?, Predictor::Zero);
            for predictor in &Predictor::ALL[1..] {
                let bits = cost(*predictor)?;
                best = if bits < best.0 { (bits, *predictor) } else { best };
            }
            plan.predictors[column] = best.1;
            plan.columns += 1;
        }
        Some(plan)
    }
}

/// The fewest bits that the planes of a column take.
fn bits(words: &[u64]) -> f64 {
    let base = words.first().copied().unwrap_or(0);
    let differences = words.iter().fold(0, |all, word| all | word ^ base);
    let of_plane = |byte| {
        let mut counts = [0_u32; 256];
        words.iter().for_each(|word| counts[usize::from((word >> (8 * byte)) as u8)] += 1);
        let (all, some) = (words.len() as f64, counts.iter().filter(|&&count| count > 0));
        some.map(|&count| f64::from(count) * (all / f64::from(count)).log2()).sum::<f64>()
    };
    (0..WORD).filter(|byte| differences >> (8 * byte) & 0xff != 0).map(of_plane).sum()
}
