//! `chats CAIRN [MESSAGES] [SEED]`: both chat networks under load, trouble and kills. `chats speed CAIRN`: how quickly
//! messages go through.

use std::path::PathBuf;

use cairn_bench::chats::{Plan, run, speed};
use cairn_bench::kills::fresh;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let dir = fresh(&std::env::temp_dir().join(format!("cairn-chats-{}", std::process::id())))?;
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["speed", cairn] => println!("{:#?}", speed(&PathBuf::from(cairn), &dir, 100, 20).await?),
        [cairn, rest @ ..] if rest.len() <= 2 => {
            let number =
                |at: usize, default| rest.get(at).and_then(|arg| arg.parse().ok()).unwrap_or(default);
            let plan = Plan {
                cairn: PathBuf::from(cairn),
                dir: dir.clone(),
                n_places: 10,
                n_messages: number(0, 1_000),
                window: 4_000,
                n_kills: 3,
                seed: number(1, 1) as u64,
            };
            println!("{:#?}", run(&plan).await?);
        }
        _ => return Err(std::io::Error::other("usage: chats CAIRN [MESSAGES] [SEED] | chats speed CAIRN")),
    }
    std::fs::remove_dir_all(dir)
}
