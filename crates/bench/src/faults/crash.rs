//! `kill -9` at named points: before a call, within it or behind it; and errors that commands meet. After each the state is
//! sound, whatever was acknowledged is there and comes to its end, and what was under way can be done again.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};

use cairn_testkit::daemon::{Daemon, PATIENCE};
use cairn_testkit::disk::{Calls, Fault};
use cairn_testkit::model::Kind;
use cairn_testkit::random::Random;

use super::damage::first_line;
use super::lost::{are_kept, is_in, lost_records, words_of};
use super::prepared::{BERTS, Entries, FORGOTTEN, entries_in, is_packed, shown, shown_as};
use super::scene::Scene;
use super::{Case, Outcome, Ran, files, require};

pub(super) const POINTS: [&str; 22] = [
    "accept",
    "sync",
    "ack",
    "model",
    "tool",
    "outbox",
    "send",
    "receipt",
    "run",
    "summary",
    "commit",
    "swap",
    "views",
    "index",
    "start",
    "rewrite",
    "pack",
    "backup",
    "restore",
    "rebuild",
    "quarantine",
    "migration",
];

/// What a daemon at work does there.
enum Point {
    /// Calls on files of a part of the state, with these bytes in them; one of so many is the last.
    Write { part: &'static str, kinds: &'static str, bytes: &'static str, of: u64 },
    /// The model is asked.
    Model(Kind),
    /// A message is sent.
    Send,
}

fn journal(bytes: &'static str, of: u64) -> Point {
    Point::Write { part: "/journal/", kinds: "w", bytes, of }
}

pub(super) async fn run(case: &Case<'_>, point: &str, seed: u64) -> io::Result<Outcome> {
    let mut random = Random::new(seed);
    let mut fault = Fault::KILLS[random.below(3) as usize];
    let point = match point {
        "accept" => journal("\"type\":\"accepted\"", 12),
        "sync" => Point::Write { part: "/journal/", kinds: "s", bytes: "", of: 40 },
        "ack" => {
            fault = Fault::KillAfter;
            Point::Write { part: "/journal/", kinds: "s", bytes: "", of: 40 }
        }
        "model" => Point::Model(Kind::Reply),
        "tool" => journal("\"type\":\"tool_used\"", 4),
        "outbox" => journal("\"type\":\"outbox_intended\"", 8),
        "send" => Point::Send,
        "receipt" => journal("\"type\":\"outbox_s", 12),
        "run" => journal("\"type\":\"run_started\"", 2),
        "summary" => Point::Model(Kind::Compaction),
        "commit" => journal("\"type\":\"run_ended\"", 2),
        "swap" => {
            fault = Fault::KillAfter;
            journal("\"type\":\"run_ended\"", 2)
        }
        "views" => Point::Write { part: "/views/", kinds: "wsortu", bytes: "", of: 60 },
        "index" => Point::Write { part: "/index/", kinds: "wsortu", bytes: "", of: 60 },
        "start" => Point::Write { part: "/state/", kinds: "wsortu", bytes: "", of: 40 },
        "migration" => return migration(case, fault, &mut random).await,
        command => return at_command(case, command, (fault, PATIENCE), &mut random).await,
    };
    at_work(case, &point, fault, &mut random).await
}

async fn at_work(case: &Case<'_>, point: &Point, fault: Fault, random: &mut Random) -> io::Result<Outcome> {
    let scene = Scene::set(case, "").await?;
    if let Point::Write { part, kinds, bytes, of } = point {
        case.disk.fail_at(&Calls { part, kinds, bytes, from: 1 + random.below(*of) }, fault)?;
    }
    let n = 1 + random.below(8) as usize;
    let met = match case.daemon().await {
        Ok(daemon) => killed(&scene, daemon, point, n).await?,
        // It did not come so far that it was ready.
        Err(error) if error.to_string().contains("wait_status(9)") => true,
        Err(error) => return Err(error),
    };
    case.disk.mend()?;
    scene.end(case, case.daemon().await?).await?;
    Ok(if met { Outcome::Harmless } else { Outcome::NotMet })
}

/// Talks until the daemon is dead, or all is said: then it is killed now.
async fn killed(scene: &Scene, mut daemon: Daemon, point: &Point, n: usize) -> io::Result<bool> {
    let client = daemon.client();
    let reached = async {
        loop {
            let done = match point {
                Point::Write { .. } => 0,
                Point::Model(kind) => scene.model.tally(*kind).arrived,
                Point::Send => scene.telegram.calls("sendMessage").len(),
            };
            // Compactions are few.
            if done >= if matches!(point, Point::Model(Kind::Compaction)) { 1 + n % 2 } else { n } {
                return;
            }
            sleep(Duration::from_millis(1)).await;
        }
    };
    let met = tokio::select! {
        status = daemon.wait() => { status?; return Ok(true); }
        () = reached => true,
        () = scene.talk(&client, 25) => false,
        () = sleep(PATIENCE) => false,
    };
    daemon.kill().await?;
    Ok(met)
}

/// A command meets a fault within its work on the prepared state, a kill or an error that lasts so long; then it is run again,
/// and everything is as it should be.
pub(super) async fn at_command(
    case: &Case<'_>,
    command: &str,
    (fault, lasts): (Fault, Duration),
    random: &mut Random,
) -> io::Result<Outcome> {
    let at = |name: &str| case.dir.join(name).display().to_string();
    case.prepared.copy_to(case.dir)?;
    let (backup, state) = (at("backup"), "/state/");
    let (args, part): (Vec<&str>, &str) = match command {
        "rewrite" => (vec!["forget-user", FORGOTTEN, "--yes"], state),
        "pack" => (vec!["store", "retain"], state),
        "backup" => (vec!["store", "backup", &backup], "/backup"),
        "restore" => (vec!["store", "restore", &backup, "--force"], "/state"),
        "rebuild" => (vec!["store", "rebuild"], state),
        "quarantine" => (vec!["store", "verify", "--quarantine"], state),
        _ => return Err(io::Error::other(format!("there is no point `{command}`"))),
    };
    let lost = set_up(case, command, &backup).await?;
    let most = if command == "backup" { 60 } else { 120 };
    case.disk.fail_at(&Calls { part, kinds: "wsortu", bytes: "", from: 1 + random.below(most) }, fault)?;
    let ran = case.cairn_until_mended(&args, lasts).await?;
    let is_told = match ran.code {
        Some(0) => true,
        None => Fault::KILLS.contains(&fault),
        Some(_) => !Fault::KILLS.contains(&fault) && ran.stderr.contains("hint: ") && !panicked(&ran),
    };
    require(is_told, || format!("{:?}: {}", ran.code, ran.stderr))?;
    let again =
        if ran.code != Some(0) || command != "backup" { case.cairn(&args).await? } else { ran.clone() };
    let is_gone = command == "rewrite" && again.stderr.contains("nothing");
    let told = format!("{}{}", again.stdout, again.stderr);
    // Views that were half made are told with a command that makes them again.
    let is_half_made = again.code == Some(5) && told.contains("`cairn store rebuild`");
    let is_made = is_half_made && case.cairn(&["store", "rebuild"]).await?.code == Some(0);
    let is_done = again.code == Some(0) || is_gone || is_made;
    require(is_done, || format!("again: {:?}: {told}", again.code))?;
    case.verify().await?;
    let config = std::fs::read_to_string(case.config())?.replace("compress_days = 1", "compress_days = 0");
    std::fs::write(case.config(), config)?;
    case.disk.set_clock(0)?;
    look(case, command, &lost).await?;
    Ok(match ran.code {
        Some(0) if Fault::KILLS.contains(&fault) => Outcome::NotMet,
        Some(0) | None => Outcome::Harmless,
        Some(_) => Outcome::Mended(format!("{fault:?} for {lasts:?}: {}", first_line(&ran.stderr))),
    })
}

/// Whether a panic is what a command tells: sled's own, on a disk that fails, are to be logged at the most.
fn panicked(ran: &Ran) -> bool {
    let tells = |line: &str| line.starts_with("error") && line.contains("panicked");
    ran.code == Some(101) || ran.stderr.lines().any(tells)
}

/// Makes what a command finds to do; the records that are damaged for it.
async fn set_up(case: &Case<'_>, command: &str, backup: &str) -> io::Result<Vec<Value>> {
    match command {
        "pack" => {
            // Nothing is left to pack, unless what was packed is unpacked.
            let packed = files(&case.state().join("journal"))?.into_iter().filter(|path| is_packed(path));
            for path in packed {
                let status = tokio::process::Command::new("gunzip").arg(path).status().await?;
                require(status.success(), || "gunzip failed".to_owned())?;
            }
            let config = std::fs::read_to_string(case.config())?;
            std::fs::write(case.config(), config + "\n[retention]\ncompress_days = 1\n")?;
            case.disk.set_clock(3 * 86_400)?;
        }
        "restore" => {
            let made = case.cairn(&["store", "backup", backup]).await?;
            require(made.code == Some(0), || made.stderr.clone())?;
        }
        "quarantine" => {
            let mut segments = files(&case.state().join("journal"))?;
            segments.retain(|path| !is_packed(path));
            let last = segments.pop().ok_or_else(|| io::Error::other("no segment"))?;
            let mut bytes = std::fs::read(&last)?;
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&last, bytes)?;
            return lost_records(case, &last).await;
        }
        _ => {}
    }
    Ok(Vec::new())
}

/// All is shown as before, but for what the command was to take out: words of the erased person, or these records.
async fn look(case: &Case<'_>, command: &str, lost: &[Value]) -> io::Result<()> {
    if command == "backup" {
        let backup = case.dir.join("backup").display().to_string();
        require(!case.dir.join("backup.partial").exists(), || "half a backup is left".to_owned())?;
        let restored = case.cairn(&["store", "restore", &backup, "--force"]).await?;
        require(restored.code == Some(0), || format!("the backup is no good: {}", restored.stderr))?;
    }
    let daemon = case.daemon().await?;
    let client = daemon.client();
    let now = match command {
        "rewrite" | "quarantine" => shown(&client).await?,
        _ => shown_as(&case.prepared.shown, &client).await?.0?,
    };
    let before = &case.prepared.entries;
    match command {
        "rewrite" => {
            for path in files(&case.state().join("journal"))? {
                let words = words_of(&path).await?;
                require(!words.contains(BERTS), || format!("words are left in {}", path.display()))?;
            }
            require(!format!("{now:?}").contains(BERTS), || "words are still shown".to_owned())?;
            are_kept(before, &entries_in(&now), is_theirs(before))?;
        }
        "quarantine" => {
            let is_lost = |channel: &str, entry: &Value| is_in(lost, channel, entry);
            are_kept(before, &entries_in(&now), is_lost)?;
        }
        _ => {
            let other = now.iter().find(|(path, value)| case.prepared.shown.get(*path) != Some(value));
            require(other.is_none(), || format!("something else is shown: {other:?}"))?;
        }
    }
    let (status, told) = client.say("main", "and now?").await?;
    require(status.is_success(), || format!("{status}: {told}"))?;
    case.stop(daemon).await
}

/// Whether an entry is of the erased person, or answers them.
fn is_theirs(entries: &Entries) -> impl Fn(&str, &Value) -> bool {
    let by_them = |entry: &Value| entry["author"]["id"] == FORGOTTEN;
    let turn = |channel: &str, entry: &Value| (channel.to_owned(), entry["turn"].to_string());
    let theirs = entries.iter().filter(|(_, entry)| by_them(entry));
    let turns: BTreeSet<_> = theirs.map(|((channel, _), entry)| turn(channel, entry)).collect();
    move |channel, entry| by_them(entry) || (entry["role"] != "user" && turns.contains(&turn(channel, entry)))
}

/// A state of the first format is read for the first time.
async fn migration(case: &Case<'_>, fault: Fault, random: &mut Random) -> io::Result<Outcome> {
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/fixtures/format-1");
    std::fs::write(case.config(), "")?;
    super::copy(&old, &case.state())?;
    let looks: [&[&str]; 4] = [
        &["channels"],
        &["history", "main", "--limit", "1000"],
        &["memory", "list"],
        &["artifact", "list", "main"],
    ];
    let mut truth = Vec::new();
    for args in looks {
        truth.push(case.json(args).await?);
    }
    std::fs::remove_dir_all(case.state())?;
    super::copy(&old, &case.state())?;
    let calls = Calls { kinds: "wsortu", from: 1 + random.below(60), ..Calls::to("/state/") };
    case.disk.fail_at(&calls, fault)?;
    let ran = timeout(PATIENCE, case.cairn(&["history", "main"])).await??;
    case.disk.mend()?;
    require(ran.code.is_none() || ran.code == Some(0), || format!("{:?}: {}", ran.code, ran.stderr))?;
    case.verify().await?;
    for (args, truth) in looks.into_iter().zip(truth) {
        let without_age = |mut value: Value| {
            value
                .as_array_mut()
                .into_iter()
                .flatten()
                .for_each(|item| drop(item.as_object_mut().map(|item| item.remove("age_seconds"))));
            value
        };
        let (now, truth) = (without_age(case.json(args).await?), without_age(truth));
        require(now == truth, || format!("{args:?} shows {now}, not {truth}"))?;
    }
    Ok(if ran.code.is_none() { Outcome::Harmless } else { Outcome::NotMet })
}
