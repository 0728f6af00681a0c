//! The systemd unit: whether it is installed, running, has a watchdog and passes on secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::commands::doctor::Examination;
use crate::commands::doctor::host::secret_files;
use crate::commands::doctor::report::Finding;

const UNIT: &str = "cairn.service";

/// The service's configuration folder and state folder.
const CONFIGURATION: &str = "/etc/cairn";
const STATE: &str = "/var/lib/cairn";

/// Longest wait for `systemctl`, which normally answers at once.
const SYSTEMCTL_LIMIT: Duration = Duration::from_secs(5);

/// The service's configuration and state, for `sudo cairn doctor`. `None`: the configuration does not exist.
pub(super) fn places() -> Option<(PathBuf, PathBuf)> {
    let config = Path::new(CONFIGURATION).join("config.toml");
    config.is_file().then(|| (config, STATE.into()))
}

pub(super) async fn check(x: &mut Examination) -> Vec<Finding> {
    if !Path::new("/run/systemd/system").is_dir() {
        return vec![Finding::skipped("systemd", "this system does not run systemd")];
    }
    let Ok(unit) = systemctl(&["cat", UNIT]).await else { return vec![silent()] };
    let Some(unit) = unit else {
        let why = "no cairn.service is installed; see \"As a service\" in docs/src/operating.md";
        return vec![Finding::skipped("systemd", why)];
    };
    let own = x
        .loaded
        .as_ref()
        .filter(|loaded| loaded.file.as_ref().is_some_and(|file| file.starts_with(CONFIGURATION)));
    let secrets = own.map(secret_files).unwrap_or_default();
    let mut out = judged(&unit, &secrets, Path::new(CONFIGURATION));
    let properties = "--property=ActiveState,SubState,NRestarts,UnitFileState,NeedDaemonReload";
    out.extend(match systemctl(&["show", UNIT, properties]).await {
        Ok(shown) => running(&shown.unwrap_or_default()),
        Err(()) => vec![silent()],
    });
    out
}

fn silent() -> Finding {
    Finding::warning("systemd", "systemctl does not answer", "try `systemctl status cairn`")
}

/// The output of systemctl; `None` if it fails. An error means that it does not answer.
async fn systemctl(args: &[&str]) -> Result<Option<String>, ()> {
    let mut command = Command::new("systemctl");
    command.args(args).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    match timeout(SYSTEMCTL_LIMIT, command.output()).await {
        Ok(Ok(output)) => {
            Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
        }
        Ok(Err(_)) | Err(_) => Err(()),
    }
}

/// The settings in the `[Service]` section of a unit and its drop-ins, from `systemctl cat`. An empty value clears the
/// earlier ones.
fn settings(unit: &str) -> BTreeMap<String, Vec<String>> {
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut inside = false;
    for line in unit.replace("\\\n", " ").lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[Service]";
        }
        let Some((key, value)) = line.split_once('=').filter(|_| inside && !line.starts_with(['#', ';']))
        else {
            continue;
        };
        let values = keys.entry(key.trim().to_owned()).or_default();
        match value.trim() {
            "" => values.clear(),
            value => values.push(value.to_owned()),
        }
    }
    keys
}

/// Checks a unit. `secrets`: the secret files of the service's configuration, whose folder is `folder`.
fn judged(unit: &str, secrets: &[PathBuf], folder: &Path) -> Vec<Finding> {
    let keys = settings(unit);
    let last = |key: &str| keys.get(key).and_then(|values| values.last()).map_or("", String::as_str);
    let remedy = "use the unit of deploy/, or set it in a drop-in: systemctl edit cairn";
    let mut out = Vec::new();
    if !["notify", "notify-reload"].contains(&last("Type")) {
        let found = "the unit has no Type=notify: systemd does not know when the daemon is ready";
        out.push(Finding::warning("systemd", found, remedy));
    }
    if ["", "0", "infinity"].contains(&last("WatchdogSec")) {
        let found = "the unit has no WatchdogSec: a daemon that hangs is not restarted";
        out.push(Finding::warning("systemd", found, remedy));
    }
    if last("NotifyAccess") == "none" {
        out.push(Finding::warning("systemd", "the unit has NotifyAccess=none", remedy));
    }
    let credentials = keys.get("LoadCredential").map(Vec::as_slice).unwrap_or_default();
    let named: BTreeMap<&str, &str> = credentials.iter().filter_map(|text| text.split_once(':')).collect();
    for (name, source) in &named {
        let source = Path::new(source);
        if source.is_absolute() && !source.exists() {
            out.push(Finding::failed(
                "systemd",
                format!("LoadCredential={name} names {}, which does not exist", source.display()),
                "put the secret there, mode 600, or remove the line: the service does not start without it",
            ));
        }
    }
    for file in secrets.iter().filter(|file| file.starts_with(folder)) {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !named.contains_key(name.as_str()) {
            let file = file.display();
            out.push(Finding::warning(
                "systemd",
                format!("the service's user may not be able to read {file}: no LoadCredential passes it on"),
                format!("systemctl edit cairn: [Service], then LoadCredential={name}:{file}"),
            ));
        }
    }
    if out.is_empty() {
        out.push(Finding::ok("systemd", "cairn.service: Type=notify, with a watchdog"));
    }
    out
}

/// The service's state, from systemctl's KEY=VALUE lines.
fn running(shown: &str) -> Vec<Finding> {
    let of = |key: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default()
    };
    let mut out = Vec::new();
    let log = "journalctl -u cairn -e shows why";
    match of("ActiveState") {
        "active" => {
            let restarts = of("NRestarts").parse().unwrap_or(0_u64);
            if restarts > 0 {
                let found = format!("the service runs; systemd had to restart it {restarts} times");
                out.push(Finding::warning("systemd", found, log));
            } else {
                out.push(Finding::ok("systemd", "the service runs"));
            }
        }
        "failed" => out.push(Finding::failed("systemd", "the service has failed", log)),
        "" => {}
        state => out.push(Finding::warning(
            "systemd",
            format!("the service is {state} ({})", of("SubState")),
            "systemctl enable --now cairn",
        )),
    }
    if of("UnitFileState") == "disabled" {
        let found = "the service does not start with the system";
        out.push(Finding::warning("systemd", found, "systemctl enable cairn"));
    }
    if of("NeedDaemonReload") == "yes" {
        let found = "the unit has changed since systemd read it";
        out.push(Finding::warning("systemd", found, "systemctl daemon-reload"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::report::Mark;

    const SHIPPED: &str = include_str!("../../../../../deploy/cairn.service");

    fn found(unit: &str, secrets: &[PathBuf], folder: &Path) -> Vec<(Mark, String)> {
        judged(unit, secrets, folder).into_iter().map(|finding| (finding.state, finding.finding)).collect()
    }

    #[test]
    fn the_unit_that_is_shipped_is_fine_and_others_are_told_what_they_lack() {
        let nowhere = Path::new("/etc/cairn");
        assert_eq!(found(SHIPPED, &[], nowhere)[0].0, Mark::Ok);
        let edited = format!("{SHIPPED}\n# x.conf\n[Service]\nWatchdogSec=\nType=simple\n");
        let said = found(&edited, &[], nowhere);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].1.contains("Type=notify") && said[1].1.contains("WatchdogSec"), "{said:?}");
    }

    #[test]
    fn secrets_that_the_service_does_not_get_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("openai.key");
        std::fs::write(&key, "sk-canary").unwrap();
        let secrets = [key.clone()];
        let said = found(SHIPPED, &secrets, dir.path());
        assert!(said[0].1.contains(&key.display().to_string()), "{said:?}");
        let unit = format!("{SHIPPED}\n[Service]\nLoadCredential=openai.key:{}\n", key.display());
        assert_eq!(found(&unit, &secrets, dir.path())[0].0, Mark::Ok);
        std::fs::remove_file(key).unwrap();
        let said = found(&unit, &[], dir.path());
        assert_eq!(said[0].0, Mark::Failed, "systemd refuses to start a unit without it: {said:?}");
    }

    #[test]
    fn what_systemd_says_of_the_service_is_told() {
        let states = |text: &str| running(text).into_iter().map(|one| one.state).collect::<Vec<_>>();
        let fine =
            "ActiveState=active\nSubState=running\nNRestarts=0\nUnitFileState=enabled\nNeedDaemonReload=no";
        assert_eq!(states(fine), [Mark::Ok]);
        assert_eq!(states(&fine.replace("NRestarts=0", "NRestarts=7")), [Mark::Warning]);
        assert_eq!(states(&fine.replace("=active", "=failed")), [Mark::Failed]);
        assert_eq!(states(&fine.replace("=active", "=inactive").replace("=no", "=yes")), [Mark::Warning; 2]);
        assert_eq!(states(&fine.replace("=enabled", "=disabled")), [Mark::Ok, Mark::Warning]);
    }
}
