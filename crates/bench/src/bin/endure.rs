//! `endure CAIRN [MINUTES]`: mixed load for so long (60), memory and descriptors sampled, their slopes at the end.

use std::path::PathBuf;
use std::time::Duration;

use cairn_bench::endure::{End, Plan, run};
use cairn_bench::kills::fresh;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let Some(cairn) = args.next() else {
        return Err(std::io::Error::other("usage: endure CAIRN [MINUTES]"));
    };
    let minutes = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(60.0);
    let dir = fresh(&std::env::temp_dir().join(format!("cairn-endure-{}", std::process::id())))?;
    let end = End::After(Duration::from_secs_f64(minutes * 60.0));
    println!("{}", run(&Plan { cairn: PathBuf::from(cairn), dir: dir.clone(), end }).await?);
    std::fs::remove_dir_all(dir)
}
