//! The parts of `.ci/soak`. What a part prints is its result; it fails when something is lost, and then leaves its folder.

mod figures;
mod grow;
mod kept;
mod measure;
mod recall;
mod stories;

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use cairn_bench::faults::{Campaign, Outcome};
use cairn_bench::{chats, endure, faults, kills, load, locomo, providers};
use cairn_testkit::disk::Fault;

const USAGE: &str = "\
usage: cairn-bench PART …
  kills CAIRN [N] [SEED]           kill -9 of an answering daemon, N times (100)
  chats CAIRN [MESSAGES] [SEED]    both chat networks under load, trouble and kills
  chats speed CAIRN                how quickly messages go through
  cluster CAIRN [MESSAGES] [SECONDS] [SEED]  three daemons with one database, a trouble every few SECONDS; then its figures
  cluster figures CAIRN [CHANNELS] its figures alone, with a takeover of CHANNELS (1,000)
  faults CAIRN [KIND] [N] [SEED] [PLACE]  N (25) seeds of each place of a kind of faults, or of all
  faults CAIRN disk [N] [PART] [FAULT]    N runs (20) of each fault of each part of the state, of 0.5 to 30 seconds
  load CAIRN [TURNS] [SEED] [KEYS] a long conversation at a window of 32,000, by each provider's cache rule; KEYS: more of
                                   [defaults.compaction], as TOML
  providers CAIRN [TURNS]          TURNS (200) with stand-ins for providers that want back what they gave
  endure CAIRN [MINUTES]           mixed load (60), memory and descriptors sampled, their slopes at the end;
                                   fails at 1 MB an hour or more, if it runs 30 minutes
  figures CAIRN [start|turns|during|channels …]
  grow CAIRN [ENTRIES] [CHANNELS]  what a state costs as it grows to ENTRIES (100,000) in CHANNELS (2,000)
  recall CAIRN FILE [OPTION …]     evidence recall through `cairn search`, on a file in LoCoMo's or BEAM's format
  stories CAIRN FILE               stories of facts that change: what stands in the request that a question makes
  kept CAIRN FILE                  what summaries keep of conversations in LoCoMo's or BEAM's format
  locomo FILE [N]                  conversation N (0) of such a file as lines for `cairn import`
  digest FILE [SHARE]              what a digest keeps of such conversations
  estimate [FILE…]                 errors of the token estimate by kind of text, before and after correction
  fit [FILE…]                      weights of the estimate, fitted to the same kinds";

/// The shortest and the longest fault, in seconds.
const FAULT_SECS: [f64; 2] = [0.5, 30.0];

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let dir = std::env::temp_dir().join(format!("cairn-bench-{}", std::process::id()));
    let done = async {
        std::fs::create_dir(&dir)?;
        run(&args, &dir).await?;
        Ok::<_, Box<dyn Error>>(std::fs::remove_dir_all(&dir)?)
    };
    match done.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Goes only where nothing was begun in it.
            drop(std::fs::remove_dir(&dir));
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// The argument at a position, or what stands for it.
fn arg<T: FromStr>(args: &[&str], at: usize, default: T) -> Result<T, Box<dyn Error>> {
    match args.get(at) {
        Some(arg) => arg.parse().map_err(|_| format!("`{arg}` is not a number\n{USAGE}").into()),
        None => Ok(default),
    }
}

async fn provider_talks(cairn: &Path, dir: &Path, n_turns: usize) -> Result<(), Box<dyn Error>> {
    for stand_in in providers::STAND_INS {
        let home = dir.join(stand_in.name.replace(' ', "-"));
        std::fs::create_dir(&home)?;
        let plan = providers::Plan { cairn: cairn.to_owned(), dir: home, stand_in, n_turns };
        println!("{}: {:?}", stand_in.name, providers::run(&plan).await?);
    }
    Ok(())
}

#[expect(clippy::too_many_lines, reason = "an arm for each part")]
async fn run(args: &[&str], dir: &Path) -> Result<(), Box<dyn Error>> {
    match *args {
        ["kills", cairn, ref rest @ ..] => {
            let (n_kills, seed) = (arg(rest, 0, 100)?, arg(rest, 1, 1)?);
            let plan =
                kills::Plan { cairn: cairn.into(), dir: dir.to_owned(), n_kills, n_messages: 400, seed };
            println!("{:?}", kills::run(&plan).await?);
        }
        ["chats", "speed", cairn] => println!("{:#?}", chats::speed(cairn.as_ref(), dir, 100, 20).await?),
        ["chats", cairn, ref rest @ ..] => {
            let plan = chats::Plan {
                cairn: cairn.into(),
                dir: dir.to_owned(),
                n_places: 10,
                n_messages: arg(rest, 0, 1_000)?,
                window: 4_500,
                n_kills: 3,
                seed: arg(rest, 1, 1)?,
            };
            println!("{:#?}", chats::run(&plan).await?);
        }
        ["cluster", "figures", cairn, ref rest @ ..] => {
            print!("{}", chats::cluster::figures(cairn.as_ref(), dir, arg(rest, 0, 1_000)?).await?);
        }
        ["cluster", cairn, ref rest @ ..] => cluster(cairn.as_ref(), dir, rest).await?,
        ["faults", cairn, "disk", ref rest @ ..] => disk_faults(cairn.as_ref(), rest).await?,
        ["faults", cairn, ref rest @ ..] => campaign(cairn.as_ref(), dir, rest).await?,
        ["load", cairn, ref rest @ ..] => {
            let plan = load::Plan {
                cairn: cairn.into(),
                dir: dir.to_owned(),
                n_turns: arg(rest, 0, 10_000)?,
                window: 32_000,
                max_output_tokens: 1_024,
                seed: arg(rest, 1, 1)?,
                rule: load::CacheRule::Anthropic,
                compaction: rest.get(2).copied().unwrap_or_default().to_owned(),
            };
            for report in load::run_all(&plan).await? {
                println!("{report}");
            }
        }
        ["providers", cairn, ref rest @ ..] => {
            provider_talks(cairn.as_ref(), dir, arg(rest, 0, 200)?).await?;
        }
        ["endure", cairn, ref rest @ ..] => {
            let end = endure::End::After(Duration::from_secs_f64(arg(rest, 0, 60.0)? * 60.0));
            let plan = endure::Plan { cairn: cairn.into(), dir: dir.to_owned(), asleep: 50_000, end };
            let report = endure::run(&plan).await?;
            println!("{report}");
            report.check()?;
        }
        ["figures", cairn, ref parts @ ..] => figures::run(cairn.as_ref(), dir, parts).await?,
        ["grow", cairn, ref rest @ ..] => {
            let (n_entries, n_channels) = (arg(rest, 0, 100_000)?, arg(rest, 1, 2_000)?);
            grow::run(&grow::Plan { cairn: cairn.as_ref(), dir, n_entries, n_channels }).await?;
        }
        ["recall", cairn, file, ref options @ ..] => {
            recall::run(cairn.as_ref(), file.as_ref(), options, dir).await?;
        }
        ["stories", cairn, file] => stories::run(cairn.as_ref(), file.as_ref(), dir).await?,
        ["kept", cairn, file] => kept::run(cairn.as_ref(), file.as_ref(), dir).await?,
        ["locomo", file, ref rest @ ..] => {
            let (all, n) = (locomo::load(file.as_ref())?, arg(rest, 0, 0)?);
            let found = all.get(n).ok_or_else(|| format!("the file has {} conversations", all.len()))?;
            print!("{}", locomo::talk_lines(found));
        }
        ["digest", file, ref rest @ ..] => measure::digest(file.as_ref(), arg(rest, 0, 0.2)?)?,
        ["estimate", ref files @ ..] => measure::estimate(files)?,
        ["fit", ref files @ ..] => measure::fit(files)?,
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

/// A line for each trouble, a table at the end, and figures.
async fn cluster(cairn: &Path, dir: &Path, args: &[&str]) -> Result<(), Box<dyn Error>> {
    let plan = chats::cluster::Plan {
        cairn: cairn.to_owned(),
        dir: dir.to_owned(),
        n_places: 25,
        n_messages: arg(args, 0, 10_000)?,
        every: Duration::from_secs_f64(arg(args, 1, 5.0)?),
        seed: arg(args, 2, 1)?,
    };
    print!("{}", chats::cluster::run(&plan).await?);
    print!("{}", chats::cluster::figures(cairn, dir, 1_000).await?);
    Ok(())
}

/// A line for each fault, and a table at the end.
async fn campaign(cairn: &Path, dir: &Path, args: &[&str]) -> Result<(), Box<dyn Error>> {
    let kinds: Vec<&str> = match args.first() {
        None | Some(&"all") => Campaign::kinds().collect(),
        Some(kind) => vec![*kind],
    };
    let (n, seed): (u64, u64) = (arg(args, 1, 25)?, arg(args, 2, 1)?);
    let campaign = Campaign::prepare(cairn, dir).await?;
    let mut table: BTreeMap<(&str, &str), [usize; 4]> = BTreeMap::new();
    for kind in kinds {
        let places =
            Campaign::places(kind).ok_or_else(|| format!("no faults are called `{kind}`\n{USAGE}"))?;
        for place in places.iter().filter(|place| args.get(3).is_none_or(|only| only == *place)) {
            for seed in seed..seed + n {
                let outcome = campaign.run(kind, place, seed).await;
                let column = match &outcome {
                    Ok(Outcome::Harmless) => 0,
                    Ok(Outcome::Mended(_)) => 1,
                    Ok(Outcome::NotMet) => 2,
                    Err(_) => 3,
                };
                table.entry((kind, place)).or_default()[column] += 1;
                match outcome {
                    Ok(outcome) => println!("{kind} {place} {seed}: {outcome:?}"),
                    Err(error) => println!("{kind} {place} {seed}: FAILED: {error}"),
                }
            }
        }
    }
    println!(
        "{:<8} {:<11} {:>9} {:>9} {:>9} {:>9}",
        "fault", "place", "harmless", "mended", "not met", "FAILED"
    );
    for ((kind, place), [harmless, mended, not_met, failed]) in &table {
        println!("{kind:<8} {place:<11} {harmless:>9} {mended:>9} {not_met:>9} {failed:>9}");
    }
    match table.values().map(|counts| counts[3]).sum::<usize>() {
        0 => Ok(()),
        failed => Err(format!("{failed} faults did harm").into()),
    }
}

async fn disk_faults(cairn: &Path, args: &[&str]) -> Result<(), Box<dyn Error>> {
    let n_runs: u32 = arg(args, 0, 20)?;
    let is_wanted = |at: usize, name: &str| args.get(at).is_none_or(|only| *only == name);
    let mut n_failed = 0;
    for part in ["journal", "views", "index"] {
        for fault in Fault::ALL {
            let name = format!("{fault:?}").to_lowercase();
            let n_runs = if is_wanted(1, part) && is_wanted(2, &name) { n_runs } else { 0 };
            for n in 0..n_runs {
                // Each is as much longer than the one before.
                let share = f64::from(n) / f64::from(n_runs.max(2) - 1);
                let secs = FAULT_SECS[0] * (FAULT_SECS[1] / FAULT_SECS[0]).powf(share);
                let lasts = Duration::from_secs_f64(secs);
                match faults::disk::run(&faults::disk::Plan { cairn: cairn.to_owned(), part, fault, lasts })
                    .await
                {
                    Ok(findings) => println!("{part} {name} {lasts:.1?}: {findings:?}"),
                    Err(error) => {
                        n_failed += 1;
                        println!("{part} {name} {lasts:.1?}: FAILED: {error}");
                    }
                }
            }
        }
    }
    if n_failed > 0 { Err(io::Error::other(format!("{n_failed} runs failed")).into()) } else { Ok(()) }
}
