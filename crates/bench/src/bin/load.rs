//! `load CAIRN [TURNS] [SEED] [KEYS]`: a long conversation of mixed texts at a window of 32,000 tokens, and its figures. KEYS:
//! more lines of `[defaults.compaction]`, as TOML.

use std::path::PathBuf;

use cairn_bench::kills::fresh;
use cairn_bench::load::{Plan, run};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(cairn) = args.first().filter(|_| args.len() <= 4) else {
        return Err(std::io::Error::other("usage: load CAIRN [TURNS] [SEED] [KEYS]"));
    };
    let number = |at: usize, default: u64| args.get(at).and_then(|arg| arg.parse().ok()).unwrap_or(default);
    let dir = fresh(&std::env::temp_dir().join(format!("cairn-load-{}", std::process::id())))?;
    let plan = Plan {
        cairn: PathBuf::from(cairn),
        dir: dir.clone(),
        n_turns: number(1, 10_000) as usize,
        window: 32_000,
        max_output_tokens: 1_024,
        seed: number(2, 1),
        compaction: args.get(3).cloned().unwrap_or_default(),
    };
    print!("{}", run(&plan).await?);
    std::fs::remove_dir_all(dir)
}
