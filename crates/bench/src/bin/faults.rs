//! `faults CAIRN [N] [PART] [FAULT]`: N runs (20) of each fault of each part of the state, of 0.5 to 30 seconds.

use std::path::PathBuf;
use std::time::Duration;

use cairn_bench::faults::{Plan, run};
use cairn_testkit::disk::Fault;

const SHORTEST: f64 = 0.5;
const LONGEST: f64 = 30.0;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let Some(cairn) = args.next() else {
        return Err(std::io::Error::other("usage: faults CAIRN [N] [PART] [FAULT]"));
    };
    let n_runs: u32 = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(20);
    let (only_part, only_fault) = (args.next(), args.next());
    let mut n_failed = 0;
    for part in ["journal", "views", "index"] {
        for fault in Fault::ALL {
            let name = format!("{fault:?}").to_lowercase();
            if only_part.as_ref().is_some_and(|only| only != part)
                || only_fault.as_ref().is_some_and(|only| *only != name)
            {
                continue;
            }
            for n in 0..n_runs {
                // Each is as much longer than the one before.
                let share = f64::from(n) / f64::from(n_runs.max(2) - 1);
                let lasts = Duration::from_secs_f64(SHORTEST * (LONGEST / SHORTEST).powf(share));
                let plan = Plan { cairn: PathBuf::from(&cairn), part, fault, lasts };
                match run(&plan).await {
                    Ok(findings) => println!("{part} {name} {lasts:.1?}: {findings:?}"),
                    Err(error) => {
                        n_failed += 1;
                        println!("{part} {name} {lasts:.1?}: FAILED: {error}");
                    }
                }
            }
        }
    }
    if n_failed > 0 { Err(std::io::Error::other(format!("{n_failed} runs failed"))) } else { Ok(()) }
}
