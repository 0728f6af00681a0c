//! Measurements that need data or a reference which the program itself does without.

use std::path::Path;

use cairn_bench::estimate::{Errors, errors, from_files, kinds};
use cairn_bench::locomo::{Kept, kept_by_chance, kept_by_digest, load};
use cairn_types::tokens::WEIGHTS;

pub(crate) fn digest(file: &Path, share: f64) -> Result<(), Box<dyn std::error::Error>> {
    let conversations = load(file)?;
    let (mut digests, mut chance) = (Kept::default(), Kept::default());
    for conversation in &conversations {
        digests += kept_by_digest(conversation, share);
        (0..10).for_each(|seed| chance += kept_by_chance(conversation, share, seed));
    }
    println!("at a share of {share}      size   evidence turns   answer words");
    for (name, kept) in [("digest", digests), ("chance", chance)] {
        println!(
            "{name:<20} {:>5.1} %   {:>10.1} %   {:>10.1} %",
            percent(kept.tokens_kept as f64, kept.tokens as f64),
            percent(kept.evidence_kept as f64, kept.evidence as f64),
            percent(kept.answer_words_kept as f64, kept.answer_words as f64),
        );
    }
    Ok(())
}

pub(crate) fn estimate(files: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let mut kinds = kinds();
    kinds.extend(from_files(files)?);
    for (name, tokenizer) in
        [("o200k", tiktoken_rs::o200k_base_singleton()), ("cl100k", tiktoken_rs::cl100k_base_singleton())]
    {
        println!("{name:<16} pieces of 400     bias   corrected   shortfall   (bytes / 4)");
        let all: Vec<Errors> = kinds.iter().map(|kind| errors(kind, tokenizer)).collect();
        for (kind, errors) in kinds.iter().zip(&all) {
            row(&kind.name, errors);
        }
        let mean = |of: fn(&Errors) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        row(
            "mean",
            &Errors {
                pieces: mean(|errors| errors.pieces),
                bias: mean(|errors| errors.bias),
                corrected: mean(|errors| errors.corrected),
                shortfall: mean(|errors| errors.shortfall),
                by_bytes: mean(|errors| errors.by_bytes),
            },
        );
        println!();
    }
    Ok(())
}

fn row(name: &str, errors: &Errors) {
    println!(
        "{name:<16} {:>11.1} % {:>+7.1} % {:>9.1} % {:>9.1} % {:>11.1} %",
        errors.pieces, errors.bias, errors.corrected, errors.shortfall, errors.by_bytes
    );
}

pub(crate) fn fit(files: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let mut kinds = kinds();
    kinds.extend(from_files(files)?);
    let before = WEIGHTS;
    let fitted = cairn_bench::estimate::fit(
        &kinds,
        tiktoken_rs::o200k_base_singleton(),
        &before.map(|(_, milli)| f64::from(milli) / 1000.0),
    );
    for ((unit, _), weight) in before.iter().zip(fitted) {
        println!("    (Unit::{unit:?}, {:.0}),", weight * 1000.0);
    }
    Ok(())
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}
