//! Measurements that need data or a reference which the program itself does without.
//!
//! - `measure digest FILE [SHARE]`: what a digest keeps of conversations in the format of LoCoMo.

use std::path::Path;
use std::process::ExitCode;

use cairn_testkit::locomo::{Kept, kept_by_chance, kept_by_digest, load};

const USAGE: &str = "usage: measure digest FILE [SHARE]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["digest", file] => digest(Path::new(file), 0.2),
        ["digest", file, share] => match share.parse() {
            Ok(share) => digest(Path::new(file), share),
            Err(_) => Err(USAGE.into()),
        },
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn digest(file: &Path, share: f64) -> Result<(), Box<dyn std::error::Error>> {
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

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}
