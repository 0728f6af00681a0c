//! `kills CAIRN [N] [SEED]`: kills a replaying daemon N times (100) and checks after each kill that nothing is lost.

use std::path::PathBuf;

use cairn_bench::kills::{Plan, fresh, run};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let Some(cairn) = args.next() else {
        return Err(std::io::Error::other("usage: kills CAIRN [N] [SEED]"));
    };
    let number = |arg: Option<String>, default| arg.and_then(|arg| arg.parse().ok()).unwrap_or(default);
    let n_kills = number(args.next(), 100);
    let seed = number(args.next(), 1) as u64;
    let dir = fresh(&std::env::temp_dir().join(format!("cairn-kills-{}", std::process::id())))?;
    let plan = Plan { cairn: PathBuf::from(cairn), dir: dir.clone(), n_kills, n_messages: 400, seed };
    println!("{:?}", run(&plan).await?);
    std::fs::remove_dir_all(dir)
}
