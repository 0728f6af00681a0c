//! How far estimates of tokens are from the true counts, and the fit of their weights.

mod fit;
mod kinds;

use cairn_types::tokens::{Correction, estimate};
use tiktoken_rs::CoreBPE;

pub use fit::fit;
pub use kinds::{Kind, from_files, kinds};

/// Length of the pieces that are measured, in characters, and the step from one to the next.
const PIECE: usize = 400;
const STEP: usize = 200;

const PIECES_MAX: usize = 60;

/// Turns that the correction may learn from before it is judged.
const LEARNING: usize = 4;

/// The pieces of a text. A rest of less than half a piece is left out, unless it is all there is.
pub fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let starts =
        (0..chars.len()).step_by(STEP).filter(|start| *start == 0 || chars.len() - start >= PIECE / 2);
    let all: Vec<String> =
        starts.map(|start| chars[start..chars.len().min(start + PIECE)].iter().collect()).collect();
    let step = all.len().div_ceil(PIECES_MAX).max(1);
    all.into_iter().step_by(step).collect()
}

/// Errors over one kind of text, in percent of the true count.
#[derive(Debug, Clone, Copy)]
pub struct Errors {
    /// Mean of the absolute errors of pieces.
    pub pieces: f64,
    /// Error of all pieces together: negative when too few are estimated.
    pub bias: f64,
    /// Error of a window of such text after correction, mean over the turns.
    pub corrected: f64,
    /// The largest shortfall of those after the first turns: how far too few were estimated after correction.
    pub shortfall: f64,
    /// Mean of the absolute errors of a count by bytes ÷ 4, for comparison.
    pub by_bytes: f64,
}

/// Measures the estimate over a kind of text.
pub fn errors(kind: &Kind, tokenizer: &CoreBPE) -> Errors {
    let pieces = pieces(&kind.text);
    let truth: Vec<f64> = pieces.iter().map(|piece| tokenizer.encode_ordinary(piece).len() as f64).collect();
    let guess: Vec<f64> = pieces.iter().map(|piece| f64::from(estimate(piece))).collect();
    let share = |guess: f64, truth: f64| 100.0 * (guess - truth) / truth;
    let mean = |of: &dyn Fn(usize) -> f64| (0..pieces.len()).map(of).sum::<f64>() / pieces.len() as f64;
    let (corrected, shortfall) = corrected(&guess, &truth);
    Errors {
        pieces: mean(&|idx| share(guess[idx], truth[idx]).abs()),
        bias: share(guess.iter().sum(), truth.iter().sum()),
        corrected,
        shortfall,
        by_bytes: mean(&|idx| share(pieces[idx].len() as f64 / 4.0, truth[idx]).abs()),
    }
}

/// A window that grows by a piece a turn: each request is estimated with what the reports before it taught.
fn corrected(guess: &[f64], truth: &[f64]) -> (f64, f64) {
    let mut correction = Correction::default();
    let (mut estimated, mut reported) = (0.0, 0.0);
    let (mut errors, mut shortfall) = (Vec::new(), 0.0f64);
    // Few pieces are gone through again, as a conversation that stays with its kind.
    for turn in 0..guess.len().max(40) {
        estimated += guess[turn % guess.len()];
        reported += truth[turn % truth.len()];
        if turn >= LEARNING {
            let error = 100.0 * (correction.apply(estimated as u64) as f64 - reported) / reported;
            errors.push(error.abs());
            shortfall = shortfall.max(-error);
        }
        correction.observe(estimated as u64, reported as u64);
    }
    (errors.iter().sum::<f64>() / errors.len() as f64, shortfall)
}
