//! Every target with its seeds, among them what was found before, and with changes of them.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use cairn_fuzz::{TARGETS, Target};
use fastrand::Rng;

/// Changed inputs for each seed.
const CHANGES: usize = 40;

/// Longer inputs are cut: what is quadratic is found by libFuzzer, not here.
const LONGEST: usize = 3_000;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn names(dir: PathBuf) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("is listed").path());
    entries.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect()
}

/// The seeds of a target, by name.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let dir = here().join("seeds").join(target);
    let read = |name: &String| (name.clone(), fs::read(dir.join(name)).expect("a seed"));
    names(dir.clone()).iter().map(read).collect()
}

/// Whether a target takes an input; an input that it does not take is shown as a seed to keep.
fn holds(target: Target, input: &[u8], what: &str) -> bool {
    let held = catch_unwind(|| target(input)).is_ok();
    if !held {
        eprintln!("{what}: {}", input.escape_ascii());
    }
    held
}

/// One to four changes: bits, bytes, stretches taken out, doubled, or taken from another seed.
fn changed(rng: &mut Rng, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut out = seed.to_vec();
    for _ in 0..rng.usize(1..=4) {
        let at = rng.usize(0..=out.len());
        let end = (at + rng.usize(1..=16)).min(out.len());
        match rng.u8(0..6) {
            0 if at < out.len() => out[at] ^= 1 << rng.u8(0..8),
            1 => out.insert(at, rng.u8(..)),
            2 => drop(out.drain(at..end)),
            3 => out.extend_from_within(at..end),
            4 => {
                let from = rng.usize(0..=other.len());
                let to = (from + rng.usize(1..=40)).min(other.len());
                out.splice(at..at, other[from..to].iter().copied());
            }
            _ => {
                let signs =
                    [&b"\""[..], b"`", b"```", b"\n", b"{", b"]", b"(", b"@", b"<", b"\\", b"0", b"\xc3"];
                out.splice(at..at, signs[rng.usize(..signs.len())].iter().copied());
            }
        }
    }
    out.truncate(LONGEST);
    out
}

#[test]
fn every_target_has_seeds_and_a_program_of_libfuzzer() {
    let all: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(here().join("seeds")), all);
    assert_eq!(names(here().join("libfuzzer/fuzz_targets")), all);
    let manifest = fs::read_to_string(here().join("libfuzzer/Cargo.toml")).unwrap();
    for name in &all {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name} is not built");
        assert!(seeds(name).len() >= 3, "{name} has hardly a seed");
    }
}

#[test]
fn every_seed_holds() {
    let held = TARGETS.iter().flat_map(|(name, target)| {
        seeds(name).into_iter().map(move |(seed, input)| holds(*target, &input, &format!("{name}/{seed}")))
    });
    assert_eq!(held.filter(|held| !held).count(), 0, "see what is told of each above");
}

#[test]
fn what_is_like_a_seed_holds() {
    let mut rng = Rng::with_seed(1);
    let mut n_lost = 0;
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        for (idx, (seed, input)) in seeds.iter().enumerate() {
            for n in 0..CHANGES {
                let other = &seeds[(idx + n) % seeds.len()].1;
                let input = changed(&mut rng, input, other);
                n_lost += usize::from(!holds(target, &input, &format!("like {name}/{seed}")));
            }
        }
    }
    assert_eq!(n_lost, 0, "see what is told of each above");
}
