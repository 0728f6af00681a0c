//! The server as a child process: what a test starts it with, and its main function.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::fault::{Fault, Strike};
use super::records::{Log, Record, Start};
use super::script::{Behaviour, Script};
use super::server::Server;
use super::stdio::{Ended, serve};

const HELP: &str = "\
A fake MCP server over its standard input and output, for tests.

  --script FILE     how it behaves, read again with every message (default: no faults, the tools of the runtime)
  --fault FAULT     one more fault: hang@initialize, exit@call, huge=100000000, exit-at-start, ...; may be repeated
  --log FILE        what it saw and did, one JSON object a line
";

/// What a child of the server does, started by [`Fault::Child`].
const LINGER: &str = "--linger";

const LINGER_FOR: Duration = Duration::from_secs(600);

/// How much is written to the standard error by [`Fault::Talkative`].
const TALK_BYTES: usize = 4 << 20;

/// How it ends where the script says so.
const TOLD_TO_EXIT: u8 = 3;

/// A server for a configuration: its arguments, its script, its log.
#[derive(Debug, Clone)]
pub struct OverStdio {
    script: PathBuf,
    log: PathBuf,
}

impl Script {
    /// A server that behaves so as a child process, with its files in that folder. The process is started by whoever is
    /// tested.
    pub fn over_stdio(&self, folder: &Path, name: &str) -> OverStdio {
        let of = |ending: &str| folder.join(format!("{name}.{ending}"));
        let server = OverStdio { script: of("script.json"), log: of("log.jsonl") };
        server.rewrite(self);
        server
    }
}

impl OverStdio {
    pub fn args(&self) -> Vec<String> {
        let of = |path: &Path| path.display().to_string();
        vec!["--script".to_owned(), of(&self.script), "--log".to_owned(), of(&self.log)]
    }

    /// Changes how it behaves from the next message, or the next start, on.
    pub fn rewrite(&self, script: &Script) {
        script.write(&self.script).unwrap_or_else(|error| panic!("{}: {error}", self.script.display()));
    }

    /// What all its processes saw and did.
    pub fn log(&self) -> Log {
        Log::at(&self.log)
    }
}

/// The whole process; its exit code.
pub fn run(args: &[String]) -> u8 {
    if args.iter().any(|arg| arg == LINGER) {
        return async_main(async {
            tokio::time::sleep(LINGER_FOR).await;
            0
        });
    }
    let server = match options(args) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            return 2;
        }
    };
    server.log.add(Record::Start(started(args)));
    let script = server.behaviour.now();
    if script.has(&Fault::Talkative) {
        talk();
    }
    if script.has(&Fault::ExitAtStart) {
        eprintln!("fake-mcp: no licence was found, and so I do not start");
        return TOLD_TO_EXIT;
    }
    if script.has(&Fault::Child) {
        linger(&server.log);
    }
    async_main(serve_all(server))
}

fn async_main(work: impl Future<Output = u8>) -> u8 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(work);
            // A thread may wait for input that never comes.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            eprintln!("no runtime: {error}");
            1
        }
    }
}

async fn serve_all(server: Server) -> u8 {
    let server = Arc::new(server);
    let asked_to_end = wait_for_signal(&server);
    tokio::select! {
        ended = serve(server.clone(), tokio::io::stdin(), tokio::io::stdout()) => match ended {
            Ended::InputClosed | Ended::OutputClosed => 0,
            Ended::AsTold => TOLD_TO_EXIT,
        },
        () = asked_to_end => 0,
    }
}

/// Returns at SIGTERM, unless the script says otherwise.
async fn wait_for_signal(server: &Server) {
    let Ok(mut signals) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    loop {
        if signals.recv().await.is_none() {
            return std::future::pending().await;
        }
        server.log.add(Record::Signal { name: "SIGTERM".to_owned() });
        if !server.behaviour.now().has(&Fault::Stubborn) {
            return;
        }
    }
}

fn options(args: &[String]) -> Result<Server, String> {
    let (mut path, mut base, mut log) = (None, Script::default(), Log::memory());
    let mut rest = args.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().ok_or(format!("{name} needs a value"))?;
        match name.as_str() {
            "--script" => path = Some(PathBuf::from(value)),
            "--fault" => base.faults.push(Strike::parse(value)?.name()),
            "--log" => {
                let opened = Log::append(Path::new(value));
                log = opened.map_err(|error| format!("the log {value} cannot be opened: {error}"))?;
            }
            _ => return Err(format!("unknown option {name}")),
        }
    }
    if let Some(path) = &path {
        Script::read(path)
            .map_err(|error| format!("the script {} cannot be read: {error}", path.display()))?;
    }
    Ok(Server { behaviour: Behaviour::new(path, base), log })
}

/// What this process was started with.
fn started(args: &[String]) -> Start {
    let env = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
    Start {
        pid: std::process::id(),
        cwd: std::env::current_dir().unwrap_or_default(),
        env: env.collect(),
        args: args.to_vec(),
        limits: limits(&std::fs::read_to_string("/proc/self/limits").unwrap_or_default()),
    }
}

/// The soft limits in `/proc/self/limits`, whose columns have fixed widths.
fn limits(text: &str) -> BTreeMap<String, String> {
    let rows = text.lines().skip(1).filter_map(|line| line.split_at_checked(26));
    let soft = rows.filter_map(|(name, rest)| {
        Some((name.trim().to_owned(), rest.split_whitespace().next()?.to_owned()))
    });
    soft.collect()
}

/// Says so much on the standard error that whoever does not read it holds this process up.
fn talk() {
    let line = "fake-mcp: and then there is this to be said, and on and on it goes\n";
    let mut stderr = io::stderr().lock();
    for _ in 0..TALK_BYTES / line.len() {
        if stderr.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}

/// Starts a process that stays when this one goes, and holds its output open.
fn linger(log: &Log) {
    let child = std::env::current_exe()
        .and_then(|program| Command::new(program).arg(LINGER).stdin(Stdio::null()).spawn());
    match child {
        Ok(child) => log.add(Record::Child { pid: child.id() }),
        Err(error) => eprintln!("no child: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max cpu time              unlimited            unlimited            seconds   \n\
                    Max open files            256                  4096                 files     \n";
        let limits = limits(text);
        assert_eq!(limits["Max open files"], "256");
        assert_eq!(limits["Max cpu time"], "unlimited");
        assert_eq!(started(&[]).limits.contains_key("Max data size"), cfg!(target_os = "linux"));
    }

    #[test]
    fn wrong_options_are_told() {
        for wrong in
            [&["--fault", "hung"][..], &["--log"], &["--what", "x"], &["--script", "/nowhere/at/all"]]
        {
            let args: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            assert!(options(&args).is_err(), "{wrong:?}");
        }
    }
}
