//! The fit of the weights: least relative error over pieces of all kinds, by reweighted least squares.

use cairn_types::tokens::{UNITS, count};
use tiktoken_rs::CoreBPE;

use super::{Kind, pieces};

/// Rounds of reweighting, which turn squared errors into absolute ones.
const ROUNDS: usize = 30;

/// How strongly a weight is held near the one before: what hardly occurs stays as it was.
const HOLD: f64 = 2e-3;

/// Weights in tokens, fitted to the kinds, each of which counts the same. No weight is below zero.
pub fn fit(kinds: &[Kind], tokenizer: &CoreBPE, before: &[f64; UNITS]) -> [f64; UNITS] {
    let mut rows: Vec<([f64; UNITS], f64)> = Vec::new();
    for kind in kinds {
        let pieces = pieces(&kind.text);
        let share = 1.0 / pieces.len() as f64;
        for piece in pieces {
            let truth = tokenizer.encode_ordinary(&piece).len() as f64;
            rows.push((count(&piece).0.map(|n| f64::from(n) / truth), share));
        }
    }
    let mut weights = *before;
    for _ in 0..ROUNDS {
        let importance: Vec<f64> =
            rows.iter().map(|(row, share)| share / (dot(row, &weights) - 1.0).abs().max(0.05)).collect();
        weights = not_negative(&rows, &importance, before);
    }
    weights
}

fn dot(a: &[f64; UNITS], b: &[f64; UNITS]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Solves, fixing at zero whatever comes out below.
fn not_negative(rows: &[([f64; UNITS], f64)], importance: &[f64], before: &[f64; UNITS]) -> [f64; UNITS] {
    let mut fixed = [false; UNITS];
    loop {
        let weights = solve(rows, importance, before, &fixed);
        let negative: Vec<usize> = (0..UNITS).filter(|unit| weights[*unit] < 0.0).collect();
        if negative.is_empty() {
            return weights;
        }
        negative.iter().for_each(|unit| fixed[*unit] = true);
    }
}

/// The normal equations, held near `before`, by elimination.
fn solve(
    rows: &[([f64; UNITS], f64)],
    importance: &[f64],
    before: &[f64; UNITS],
    fixed: &[bool; UNITS],
) -> [f64; UNITS] {
    let mut matrix = vec![[0.0; UNITS + 1]; UNITS];
    for ((row, _), weight) in rows.iter().zip(importance) {
        for i in (0..UNITS).filter(|i| row[*i] != 0.0 && !fixed[*i]) {
            for j in (0..UNITS).filter(|j| !fixed[*j]) {
                matrix[i][j] += weight * row[i] * row[j];
            }
            matrix[i][UNITS] += weight * row[i];
        }
    }
    for i in 0..UNITS {
        let hold = if fixed[i] { 1.0 } else { HOLD };
        matrix[i][i] += hold;
        matrix[i][UNITS] += if fixed[i] { 0.0 } else { hold * before[i] };
    }
    for i in 0..UNITS {
        let pivot = matrix[i];
        for (k, row) in matrix.iter_mut().enumerate() {
            if k != i && row[i] != 0.0 {
                let factor = row[i] / pivot[i];
                row.iter_mut().zip(pivot).for_each(|(cell, other)| *cell -= factor * other);
            }
        }
    }
    std::array::from_fn(|i| matrix[i][UNITS] / matrix[i][i])
}
