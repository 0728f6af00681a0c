//! Damaged files: flipped bits, torn ends, stretches of zeros, files that are gone. Each is either mended without anybody, so
//! that all is shown as before, or told with a remedy; the remedy is carried out as it is printed, and then it works again, and
//! shows all that the damage has not hit.

use std::io;
use std::path::Path;

use serde_json::Value;

use cairn_testkit::daemon::Client;
use cairn_testkit::random::Random;

use super::lost::{are_kept, is_in, lost_records};
use super::prepared::{Shown, entries, is_packed, shown, shown_as, verified};
use super::{Case, Outcome, files, require};

pub(super) const PLACES: [&str; 6] = ["journal", "packed", "views", "index", "artifacts", "marks"];

/// As often a hint is followed before it counts as one that does not help.
const HINTS: usize = 4;

/// What was damaged.
struct Hit<'a> {
    file: &'a Path,
    /// The records whose lines are not whole any more; none: it is no file of the journal.
    lost: Option<Vec<Value>>,
}

pub(super) async fn run(case: &Case<'_>, place: &str, seed: u64) -> io::Result<Outcome> {
    case.prepared.copy_to(case.dir)?;
    let mut random = Random::new(seed);
    let state = case.state();
    let mut damaged = match place {
        "journal" | "packed" => files(&state.join("journal"))?,
        // Files of the state folder itself.
        "marks" => files(&state)?.into_iter().filter(|path| path.parent() == Some(state.as_path())).collect(),
        part => files(&state.join(part))?,
    };
    damaged.retain(|path| match place {
        "journal" => !is_packed(path),
        "packed" => is_packed(path),
        "marks" => !path.to_string_lossy().contains("daemon."),
        _ => true,
    });
    require(!damaged.is_empty(), || format!("there are no files of `{place}`"))?;
    let file = &damaged[random.below(damaged.len() as u64) as usize];
    let what = spoil(file, &mut random)?;
    let lost = match place {
        "journal" | "packed" => Some(lost_records(case, file).await?),
        _ => None,
    };
    let hit = Hit { file, lost };
    told_or_harmless(case, &hit).await.map_err(|error| io::Error::other(format!("{what}: {error}"))).map(
        |outcome| match outcome {
            Outcome::Mended(how) => Outcome::Mended(format!("{what}: {how}")),
            other => other,
        },
    )
}

/// Damages a file; what was done.
fn spoil(path: &Path, random: &mut Random) -> io::Result<String> {
    let mut bytes = std::fs::read(path)?;
    let at = random.below(bytes.len() as u64) as usize;
    let (what, gone) = match random.below(4) {
        0 => {
            bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8));
            ("bit flipped", false)
        }
        1 => {
            bytes.truncate(at);
            ("cut", false)
        }
        2 => {
            bytes.iter_mut().skip(at).take(512).for_each(|byte| *byte = 0);
            ("zeros", false)
        }
        _ => ("deleted", true),
    };
    if gone {
        std::fs::remove_file(path)?
    } else {
        std::fs::write(path, bytes)?
    }
    Ok(format!("{what} at byte {at} of {}", path.display()))
}

/// The commands and the file that a hint names, in their order.
fn remedies(told: &str) -> Vec<String> {
    let quoted = told.split('`').skip(1).step_by(2);
    let mut found: Vec<String> =
        quoted.filter(|words| words.starts_with("cairn ")).map(str::to_owned).collect();
    // What says what is wrong comes before what mends it.
    found.sort_by_key(|command| !command.contains("--quarantine"));
    found.dedup();
    found
}

/// Does what is told to do; false: it tells nothing.
async fn follow(case: &Case<'_>, told: &str) -> io::Result<bool> {
    if told.contains("remove the file") {
        let name = ["format", "erasure.json"].into_iter().find(|name| told.contains(name));
        let name = name.ok_or_else(|| io::Error::other(format!("remove which file? {told}")))?;
        return std::fs::remove_file(case.state().join(name)).map(|()| true);
    }
    let Some(command) = remedies(told).into_iter().next() else { return Ok(false) };
    let args: Vec<&str> = command.split_whitespace().skip(1).collect();
    case.cairn(&args).await?;
    Ok(true)
}

async fn told_or_harmless(case: &Case<'_>, hit: &Hit<'_>) -> io::Result<Outcome> {
    let (mut told, mut n_hints) = (None, 0);
    let daemon = loop {
        match case.daemon().await {
            Ok(daemon) => break daemon,
            Err(_) if n_hints < HINTS => {
                let log = case.log();
                require(log.contains("hint: "), || format!("refused without a hint: {log}"))?;
                require(follow(case, &log).await?, || format!("no remedy: {log}"))?;
                told.get_or_insert(format!("the start was refused: {}", first_line(&log)));
                n_hints += 1;
            }
            Err(error) => return Err(io::Error::other(format!("the hints do not help: {error}"))),
        }
    };
    let client = daemon.client();
    let (now, checked) = match told {
        None => shown_as(&case.prepared.shown, &client).await?,
        Some(_) => (shown(&client).await, verified(&client).await?),
    };
    let is_fine = checked["ok"] == true;
    match (&now, is_fine) {
        // What was lost by then is looked at in the end.
        _ if told.is_some() => {}
        (Ok(now), true) if *now == case.prepared.shown => {
            case.stop(daemon).await?;
            return works(case, &Value::Null, hit).await.map(|()| Outcome::Harmless);
        }
        (Ok(now), true) => {
            let other = now.iter().find(|(path, value)| case.prepared.shown.get(*path) != Some(value));
            return Err(io::Error::other(format!("SILENT: {}", difference(other, &case.prepared.shown))));
        }
        (Err(error), true) => return Err(io::Error::other(format!("verify finds nothing, but: {error}"))),
        (_, false) => told = Some(format!("verify: {}", checked["problems"][0])),
    }
    case.stop(daemon).await?;
    works(case, &checked, hit).await?;
    Ok(Outcome::Mended(told.unwrap_or_default()))
}

/// Whatever is found is followed; then the store is sound, shows all that was not hit, and it answers.
async fn works(case: &Case<'_>, checked: &Value, hit: &Hit<'_>) -> io::Result<()> {
    if checked["ok"] == false {
        // Asked of the daemon, it was damaged; the command says what to do.
        let verified = case.cairn(&["store", "verify"]).await?;
        let problems = format!("{}{}{}", checked["problems"], verified.stdout, verified.stderr);
        require(follow(case, &problems).await?, || format!("problems without a remedy: {problems}"))?;
    }
    case.verify().await?;
    let daemon = case.daemon().await?;
    let client = daemon.client();
    let lost = hit.lost.as_deref().unwrap_or_default();
    let is_lost = |channel: &str, entry: &Value| is_in(lost, channel, entry);
    are_kept(&case.prepared.entries, &entries(&client).await?, is_lost)?;
    if hit.lost.is_none() {
        artifacts_are_kept(case, &client, hit.file).await?;
    }
    let (status, told) = client.say("main", "and now?").await?;
    require(status.is_success(), || format!("{status}: {told}"))?;
    case.stop(daemon).await
}

/// Every artifact says what it said before, but for the one of the damaged file.
async fn artifacts_are_kept(case: &Case<'_>, client: &Client, damaged: &Path) -> io::Result<()> {
    for (path, before) in case.prepared.shown.iter().filter(|(path, _)| path.contains("/artifacts/")) {
        // `/v1/channels/CHANNEL/artifacts/ID` is the file `artifacts/AGENT%2FPLATFORM%2FCHANNEL/ID`.
        let file = path.replace("/v1/channels/", "%2F").replace("/artifacts/", "/");
        if !damaged.to_string_lossy().ends_with(&file) {
            let now = client.get(path).await.map_err(|error| io::Error::other(format!("{path}: {error}")))?;
            require(now["text"] == before["text"], || format!("LOST: {path}, which no damage hit"))?;
        }
    }
    Ok(())
}

fn difference(other: Option<(&String, &Value)>, before: &Shown) -> String {
    let Some((path, now)) = other else { return "something is missing".to_owned() };
    let was = before.get(path).unwrap_or(&Value::Null);
    let (now, was) = (now.to_string(), was.to_string());
    let at = now.bytes().zip(was.bytes()).take_while(|(now, was)| now == was).count().saturating_sub(200);
    let cut = |text: &str| text.chars().skip(at).take(600).collect::<String>();
    format!("{path} shows …{}, not …{}", cut(&now), cut(&was))
}

pub(super) fn first_line(log: &str) -> String {
    log.lines().find(|line| line.contains("error: ")).unwrap_or(log).chars().take(300).collect()
}
