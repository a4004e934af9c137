//! Finds a small set of candidates that is nearly as good as all of them.

use crate::matrix::Matrix;
use crate::refuse;

/// Adds `count` candidates to those of `from`, each time the one that minimises the mean loss over the
/// corpora, and prints the mean and the worst loss after each.
pub fn cover(matrix: &Matrix, best: &[Vec<u32>], from: &[String], count: usize) {
    let total = |sizes: &[u32]| sizes.iter().map(|&size| u64::from(size)).sum::<u64>() as f64;
    let wanted: Vec<f64> = best.iter().map(|sizes| total(sizes)).collect();
    let mut now: Vec<Vec<u32>> = best.iter().map(|sizes| vec![u32::MAX >> 8; sizes.len()]).collect();
    let losses = |now: &[Vec<u32>], row: usize| -> Vec<f64> {
        let corpora = now.iter().zip(&matrix.rows[row].corpora).zip(&wanted);
        let with = corpora.map(|((now, (_, sizes)), wanted)| {
            let with: u64 = now.iter().zip(sizes).map(|(a, b)| u64::from(*a.min(b))).sum();
            100.0 * (1.0 - wanted / with as f64)
        });
        with.collect()
    };
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let row = |name: &String| {
        matrix
            .rows
            .iter()
            .position(|row| row.name == *name)
            .unwrap_or_else(|| refuse(&format!("{name} is not a candidate")))
    };
    let given: Vec<usize> = from.iter().map(row).collect();
    for step in 0..given.len() + count {
        let next = match given.get(step) {
            Some(&row) => row,
            None => {
                let rows = 0..matrix.rows.len();
                rows.min_by(|&a, &b| mean(&losses(&now, a)).total_cmp(&mean(&losses(&now, b)))).unwrap_or(0)
            }
        };
        let after = losses(&now, next);
        let worst = after.iter().copied().fold(0.0, f64::max);
        for (now, (_, sizes)) in now.iter_mut().zip(&matrix.rows[next].corpora) {
            for (a, b) in now.iter_mut().zip(sizes) {
                *a = (*a).min(*b);
            }
        }
        println!("{:<44} mean {:6.2}%  worst {:6.2}%", matrix.rows[next].name, mean(&after), worst);
    }
}
