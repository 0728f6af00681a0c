//! This machine: configuration, prompts, permissions, free disk space, clock.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cairn_types::ports::Clock as _;
use cairn_types::tokens;
use jiff::{SignedDuration, Timestamp};

use crate::commands::doctor::report::Finding;
use crate::commands::doctor::{Examination, problem_of};
use cairn_api::text::{bytes, counted, grouped, minute};
use cairn_cli::owner;
use cairn_config::clock::SystemClock;
use cairn_config::{Loaded, Problem, sockets_to_try};

/// Below the first amount of free space, in bytes, the check fails: soon no messages are accepted. Below the second it
/// warns.
const FREE_MIN: u64 = 100 << 20;
const FREE_ENOUGH: u64 = 1 << 30;

/// Free space below this percentage of the disk is a warning.
const SHARE_ENOUGH: u64 = 5;

/// Clock differences up to this are ignored: the `Date` header has whole seconds, and an answer takes time.
const CLOCK_SLACK: SignedDuration = SignedDuration::from_secs(60);

/// The build time may be wrong by a day, for example because of the build machine's time zone.
const BUILD_SLACK: SignedDuration = SignedDuration::from_hours(24);

/// Checks the configuration and its prompts.
pub(super) fn config(x: &mut Examination) -> Vec<Finding> {
    let of_prompt = |problem: &&Problem| {
        ["`prompt`", "`prompt_text`", "`compactor_prompt`"].iter().any(|key| problem.message.starts_with(key))
    };
    let mut out: Vec<Finding> = x
        .problems
        .iter()
        .map(|problem| problem_of(if of_prompt(&problem) { "prompts" } else { "config" }, problem))
        .collect();
    let Some(loaded) = &x.loaded else { return out };
    if !out.iter().any(|finding| finding.check == "config") {
        out.insert(0, Finding::ok("config", what_is_configured(loaded)));
    }
    // Missing keys and readable secrets have findings of their own.
    let reported_elsewhere = |warning: &&String| {
        ["no key is sent", "everybody on this machine may read"].iter().any(|words| warning.contains(words))
    };
    for warning in loaded.warnings.iter().filter(|warning| !reported_elsewhere(warning)) {
        let (found, remedy) = warning.rsplit_once("; ").unwrap_or((warning, ""));
        out.push(Finding::warning("config", found, remedy));
    }
    if !out.iter().any(|finding| finding.check == "prompts") {
        out.push(Finding::ok("prompts", prompts(loaded)));
    }
    out
}

fn what_is_configured(loaded: &Loaded) -> String {
    let config = &loaded.config;
    let Some(file) = &loaded.file else {
        return "no config file: the built-in defaults apply; `cairn init` writes one".to_owned();
    };
    let models = config.models.iter().filter(|model| model.id != cairn_config::OFFLINE).count() as u64;
    format!(
        "{}: {}, {}",
        file.display(),
        counted(config.agents.len() as u64, "agent", "agents"),
        counted(models, "model", "models")
    )
}

fn prompts(loaded: &Loaded) -> String {
    let agents = loaded.config.agents.iter().map(|agent| {
        let of = match (&agent.prompt, &agent.prompt_text) {
            (Some(file), _) => file.display().to_string(),
            (None, Some(_)) => "prompt_text".to_owned(),
            (None, None) => "built in".to_owned(),
        };
        let tokens = grouped(u64::from(tokens::estimate(&agent.system_prompt)));
        format!("{} ({of}, about {tokens} tokens, texts in {})", agent.id, agent.languages.own.tag())
    });
    agents.collect::<Vec<_>>().join(", ")
}

/// Checks who can read the secrets and the state, and who can change the configuration.
pub(super) fn permissions(x: &mut Examination) -> Vec<Finding> {
    let (loaded, state) = (x.loaded.as_ref(), x.state.as_ref());
    let mut out = Vec::new();
    let mut open = |path: &Path, bits: u32, found: &str, chmod: &str| {
        if mode(path).is_some_and(|mode| mode & bits != 0) {
            let path = path.display();
            out.push(Finding::warning("permissions", format!("{found} {path}"), format!("{chmod} {path}")));
        }
    };
    let secrets = loaded.map(secret_files).unwrap_or_default();
    for file in &secrets {
        open(file, 0o007, "everybody on this machine may read the secret in", "chmod 600");
    }
    if let Some(file) = loaded.and_then(|loaded| loaded.file.as_ref()) {
        open(file, 0o022, "users other than its owner may change", "chmod go-w");
    }
    let closed = state.is_some_and(|state| owner::may_not_enter(&state.path));
    if let Some(state) = state.filter(|state| !closed && !state.path.is_file()) {
        open(&state.path, 0o077, "users other than its owner may look into the state folder", "chmod 700");
        for socket in sockets_to_try(state, &x.env) {
            open(&socket, 0o007, "everybody on this machine may control the daemon at", "chmod o=");
        }
    }
    if out.is_empty() {
        let files = counted(secrets.len() as u64, "secret file", "secret files");
        // A folder closed to this user is reported by `state`.
        let and_state = if closed { "" } else { "state folder and " };
        out.push(Finding::ok("permissions", format!("{and_state}{files} are closed to others")));
    }
    out
}

/// The existing files with secrets that the configuration names.
pub(super) fn secret_files(loaded: &Loaded) -> Vec<PathBuf> {
    let config = &loaded.config;
    let keys = config.models.iter().filter_map(|model| model.api_key_file.clone());
    let tokens = config.bots().filter_map(|bot| bot.network.token_file.clone());
    let of_servers = config
        .mcp
        .iter()
        .flat_map(|server| server.env_from_file.values().chain(server.headers_from_file.values()).cloned());
    let mut files: Vec<_> =
        keys.chain(tokens).chain(of_servers).filter(|file| mode(file).is_some()).collect();
    files.retain(|file| !file.is_dir());
    files.sort();
    files.dedup();
    files
}

fn mode(path: &Path) -> Option<u32> {
    Some(std::fs::metadata(path).ok()?.permissions().mode())
}

/// Checks the free space of the disk with the state folder, or with its nearest existing parent.
pub(super) fn disk(x: &mut Examination) -> Vec<Finding> {
    let Some(state) = &x.state else { return Vec::new() };
    let there = state.path.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(there) {
        Ok(stat) => vec![room(
            stat.f_bavail.saturating_mul(stat.f_frsize),
            stat.f_blocks.saturating_mul(stat.f_frsize),
            (stat.f_favail, stat.f_files),
            there,
        )],
        Err(error) => vec![Finding::warning(
            "disk",
            format!("cannot find out how much space is free at {}: {error}", there.display()),
            "check that the folder can be read",
        )],
    }
}

/// `files`: how many more files can be created, and how many there can be in all; 0 if the file system does not count
/// them.
fn room(free: u64, total: u64, files: (u64, u64), at: &Path) -> Finding {
    let found = format!("{} free of {} at {}", bytes(free), bytes(total), at.display());
    let remedy = "free some space; `du -sh` of the folder's parts shows what takes it";
    if free < FREE_MIN {
        return Finding::failed("disk", format!("{found}: soon no more messages can be accepted"), remedy);
    }
    if files.1 > 0 && files.0 < 1_000 {
        return Finding::failed(
            "disk",
            format!("{found}, but only {} more files can be created there", grouped(files.0)),
            "delete files that are not needed; `df -i` shows how many there are",
        );
    }
    if free < FREE_ENOUGH || free.saturating_mul(100) < total.saturating_mul(SHARE_ENOUGH) {
        return Finding::warning("disk", found, remedy);
    }
    Finding::ok("disk", found)
}

/// Checks the clock against the build time, the newest message and the servers' clocks.
pub(super) fn clock(x: &mut Examination) -> Vec<Finding> {
    judge_clock(SystemClock.now(), built(), x.last_at, &x.clocks)
}

/// When this binary was built, from its file's modification time.
fn built() -> Option<Timestamp> {
    let file = std::env::current_exe().ok()?;
    Timestamp::try_from(std::fs::metadata(file).ok()?.modified().ok()?).ok()
}

fn judge_clock(
    now: Timestamp,
    built: Option<Timestamp>,
    last: Option<Timestamp>,
    servers: &[(String, SignedDuration)],
) -> Vec<Finding> {
    let remedy = "set it and keep it synchronised: `timedatectl set-ntp true`";
    let mut out = Vec::new();
    if let Some(built) = built.filter(|built| built.duration_since(now) > BUILD_SLACK) {
        out.push(Finding::failed(
            "clock",
            format!("it says {} UTC, which is before this binary was built ({})", minute(now), minute(built)),
            remedy,
        ));
    }
    if let Some(last) = last.filter(|last| last.duration_since(now) > CLOCK_SLACK) {
        out.push(Finding::warning(
            "clock",
            format!("it says {} UTC, but the newest message is from {}", minute(now), minute(last)),
            format!("{remedy}; if it is right now, it was ahead before, and nothing is lost"),
        ));
    }
    let off = servers.iter().filter(|(_, offset)| offset.abs() > CLOCK_SLACK);
    for (model, offset) in off {
        let side = if offset.is_negative() { "ahead of" } else { "behind" };
        let secs = grouped(offset.unsigned_abs().as_secs());
        out.push(Finding::warning(
            "clock",
            format!("it is {secs} s {side} the clock of the server of model `{model}`"),
            remedy,
        ));
    }
    if out.is_empty() {
        let against = match servers.len() {
            0 => "no server's clock to compare it with".to_owned(),
            _ => "as the clocks of the models' servers".to_owned(),
        };
        out.push(Finding::ok("clock", format!("{} UTC, {against}", minute(now))));
    }
    out
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::commands::doctor::report::Mark;

    #[rstest]
    #[case::plenty(20 << 30, 100 << 30, (1 << 20, 1 << 21), Mark::Ok)]
    #[case::under_a_gibibyte(900 << 20, 10 << 30, (1 << 20, 1 << 21), Mark::Warning)]
    #[case::under_a_twentieth(20 << 30, 1000 << 30, (1 << 20, 1 << 21), Mark::Warning)]
    #[case::nearly_none(99 << 20, 10 << 30, (1 << 20, 1 << 21), Mark::Failed)]
    #[case::no_files(20 << 30, 100 << 30, (7, 1 << 21), Mark::Failed)]
    #[case::files_not_counted(20 << 30, 100 << 30, (0, 0), Mark::Ok)]
    fn room_is_graded(
        #[case] free: u64,
        #[case] total: u64,
        #[case] files: (u64, u64),
        #[case] expected: Mark,
    ) {
        let finding = room(free, total, files, Path::new("/var"));
        assert_eq!(finding.state, expected, "{finding:?}");
        assert_eq!(finding.remedy.is_some(), expected != Mark::Ok);
    }

    #[test]
    fn a_clock_that_contradicts_what_is_known_is_told_by_how_much() {
        let now: Timestamp = "2026-11-22T12:00:00Z".parse().unwrap();
        let hour = SignedDuration::from_hours(1);
        let servers = |secs: i64| [("main".to_owned(), SignedDuration::from_secs(secs))];
        let judged = |built, last, secs: i64| {
            let found = judge_clock(now, Some(built), Some(last), &servers(secs));
            (found[0].state, found[0].finding.clone())
        };
        let (state, _) = judged(now + hour, now, 30);
        assert_eq!(state, Mark::Ok, "time zones and answers that take their time");
        for (built, last, secs, expected, word) in [
            (now + hour * 48, now, 0, Mark::Failed, "before this binary was built"),
            (now, now + hour, 0, Mark::Warning, "the newest message is from 2026-11-22 13:00"),
            (now, now, 3_600, Mark::Warning, "3,600 s behind"),
            (now, now, -7_200, Mark::Warning, "7,200 s ahead of"),
        ] {
            let (state, found) = judged(built, last, secs);
            assert_eq!(state, expected, "{found}");
            assert!(found.contains(word), "{found}");
        }
        assert_eq!(judge_clock(now, None, None, &[])[0].state, Mark::Ok);
    }
}
