//! The unit of systemd: is it installed, does it watch the daemon, does it hand the secrets over, does it run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::host::secret_files;
use super::report::Finding;
use crate::config::Loaded;

const UNIT: &str = "cairn.service";

/// Where systemd looks for units, the strongest place first.
const PLACES: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// Where the service has its configuration.
const CONFIGURATION: &str = "etc/cairn";

/// And its state.
const STATE: &str = "var/lib/cairn";

/// `systemctl` answers at once, or something is wrong with the bus.
const SYSTEMCTL_LIMIT: Duration = Duration::from_secs(5);

/// The service's configuration and state below a root folder: what is meant where nobody names another, as by `sudo cairn
/// doctor`. `None`: there is no such configuration.
pub(super) fn places(root: &Path) -> Option<(PathBuf, PathBuf)> {
    let config = root.join(CONFIGURATION).join("config.toml");
    config.is_file().then(|| (config, root.join(STATE)))
}

/// Looks at the unit below a root folder, which is `/` but in tests.
pub(super) async fn check(loaded: Option<&Loaded>, root: &Path) -> Vec<Finding> {
    if !root.join("run/systemd/system").is_dir() {
        return vec![Finding::skipped("systemd", "this system is not run by systemd")];
    }
    let Some(unit) = Unit::find(root) else {
        let why = "no cairn.service is installed; docs/src/operating.md says how, under \"As a service\"";
        return vec![Finding::skipped("systemd", why)];
    };
    let mut out = unit.judged();
    out.extend(loaded.map(|loaded| unit.secrets(loaded, root)).unwrap_or_default());
    if out.is_empty() {
        let found = format!("{}: Type=notify, with a watchdog", unit.file.display());
        out.push(Finding::ok("systemd", found));
    }
    if root == Path::new("/") {
        out.extend(running().await);
    }
    out
}

/// The unit's service section, with its drop-ins.
struct Unit {
    file: PathBuf,
    keys: BTreeMap<String, Vec<String>>,
}

impl Unit {
    fn find(root: &Path) -> Option<Self> {
        let file = PLACES.iter().map(|dir| root.join(dir).join(UNIT)).find(|file| file.is_file())?;
        let mut keys = BTreeMap::new();
        read(&file, &mut keys);
        // Drop-ins are read by their names, wherever they lie; of two of one name the stronger place's.
        let mut drop_ins = BTreeMap::new();
        for dir in PLACES.iter().rev() {
            let entries = std::fs::read_dir(root.join(dir).join(format!("{UNIT}.d")));
            for entry in entries.into_iter().flatten().flatten() {
                if entry.path().extension().is_some_and(|ending| ending == "conf") {
                    drop_ins.insert(entry.file_name(), entry.path());
                }
            }
        }
        drop_ins.values().for_each(|file| read(file, &mut keys));
        Some(Self { file, keys })
    }

    fn last(&self, key: &str) -> &str {
        self.keys.get(key).and_then(|values| values.last()).map_or("", String::as_str)
    }

    fn judged(&self) -> Vec<Finding> {
        let mut out = Vec::new();
        let file = self.file.display();
        let remedy = "take the unit of deploy/, or set it in a drop-in: systemctl edit cairn";
        if !["notify", "notify-reload"].contains(&self.last("Type")) {
            out.push(Finding::warning(
                "systemd",
                format!("{file} has no Type=notify: systemd does not know when the daemon is ready"),
                remedy,
            ));
        }
        if ["", "0", "infinity"].contains(&self.last("WatchdogSec")) {
            let found = format!("{file} has no WatchdogSec: a daemon that hangs is not restarted");
            out.push(Finding::warning("systemd", found, remedy));
        }
        if self.last("NotifyAccess") == "none" {
            out.push(Finding::warning("systemd", format!("{file} has NotifyAccess=none"), remedy));
        }
        out
    }

    /// Whether the service gets the secrets of its configuration: its user may read no file of root's.
    fn secrets(&self, loaded: &Loaded, root: &Path) -> Vec<Finding> {
        let is_its_own = loaded.file.as_ref().is_some_and(|file| file.starts_with(root.join(CONFIGURATION)));
        if !is_its_own {
            return Vec::new();
        }
        let credentials = self.keys.get("LoadCredential").map(Vec::as_slice).unwrap_or_default();
        let named: BTreeMap<&str, &str> =
            credentials.iter().filter_map(|text| text.split_once(':')).collect();
        let mut out = Vec::new();
        for (name, source) in &named {
            let source = Path::new(source);
            if source.is_absolute() && !root.join(source.strip_prefix("/").unwrap_or(source)).exists() {
                out.push(Finding::failed(
                    "systemd",
                    format!("LoadCredential={name} names {}, which is not there", source.display()),
                    "put the secret there, mode 600, or take the line out: the service does not start without",
                ));
            }
        }
        for file in secret_files(loaded) {
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if file.starts_with(root.join(CONFIGURATION)) && !named.contains_key(name.as_str()) {
                let file = file.display();
                out.push(Finding::warning(
                    "systemd",
                    format!(
                        "the service's user may not be able to read {file}: no LoadCredential hands it over"
                    ),
                    format!("systemctl edit cairn: [Service], then LoadCredential={name}:{file}"),
                ));
            }
        }
        out
    }
}

/// Adds the settings of a unit file's service section. An empty value takes back what came before.
fn read(file: &Path, keys: &mut BTreeMap<String, Vec<String>>) {
    let text = std::fs::read_to_string(file).unwrap_or_default().replace("\\\n", " ");
    let mut inside = false;
    for line in text.lines().map(str::trim) {
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
}

/// What systemd says of the service.
async fn running() -> Vec<Finding> {
    let mut command = Command::new("systemctl");
    command.args(["show", UNIT, "--property=ActiveState,SubState,NRestarts,UnitFileState,NeedDaemonReload"]);
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let Ok(Ok(output)) = timeout(SYSTEMCTL_LIMIT, command.output()).await else {
        return vec![Finding::warning(
            "systemd",
            "systemctl does not answer",
            "try `systemctl status cairn`",
        )];
    };
    told(&String::from_utf8_lossy(&output.stdout))
}

/// `text`: lines of KEY=VALUE.
fn told(text: &str) -> Vec<Finding> {
    let of = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default()
    };
    let mut out = Vec::new();
    let log = "journalctl -u cairn -e shows why";
    match of("ActiveState") {
        "active" => {
            let restarts = of("NRestarts").parse().unwrap_or(0_u64);
            if restarts > 0 {
                let found = format!("the service runs; systemd had to start it again {restarts} times");
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
    use super::super::report::Mark;
    use super::*;
    use crate::config::{Config, FixedEnvironment};

    const SHIPPED: &str = include_str!("../../../../../deploy/cairn.service");

    struct Root(tempfile::TempDir);

    impl Root {
        fn new() -> Self {
            let root = Self(tempfile::tempdir().unwrap());
            root.put("run/systemd/system/.keep", "");
            root
        }

        fn put(&self, name: &str, text: &str) -> PathBuf {
            let file = self.0.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
            file
        }

        async fn found(&self, loaded: Option<&Loaded>) -> Vec<(Mark, String)> {
            let found = check(loaded, self.0.path()).await;
            found.into_iter().map(|finding| (finding.state, finding.finding)).collect()
        }
    }

    #[tokio::test]
    async fn the_unit_that_is_shipped_is_fine_and_others_are_told_what_they_lack() {
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(check(None, nothing.path()).await[0].state, Mark::Skipped);
        let root = Root::new();
        assert_eq!(root.found(None).await[0].0, Mark::Skipped, "no unit");
        root.put("usr/lib/systemd/system/cairn.service", SHIPPED);
        assert_eq!(root.found(None).await[0].0, Mark::Ok);
        root.put("etc/systemd/system/cairn.service.d/x.conf", "[Service]\nWatchdogSec=\nType=simple\n");
        let found = root.found(None).await;
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].1.contains("Type=notify") && found[1].1.contains("WatchdogSec"), "{found:?}");
        root.put("etc/systemd/system/cairn.service", SHIPPED);
        root.put("etc/systemd/system/cairn.service.d/x.conf", "");
        assert_eq!(root.found(None).await[0].0, Mark::Ok, "the stronger place's file counts");
    }

    #[tokio::test]
    async fn secrets_that_the_service_does_not_get_are_named() {
        let root = Root::new();
        root.put("usr/lib/systemd/system/cairn.service", SHIPPED);
        let text = "[[models]]\nid = \"m\"\nmodel = \"x\"\napi_key_file = \"openai.key\"\n";
        let config = root.put("etc/cairn/config.toml", text);
        let key = root.put("etc/cairn/openai.key", "sk-canary");
        let loaded = Config::load(Some(&config), &FixedEnvironment::new("/")).unwrap();
        let found = root.found(Some(&loaded)).await;
        assert!(found[0].1.contains(&key.display().to_string()), "{found:?}");
        let drop_in = "[Service]\nLoadCredential=openai.key:/etc/cairn/openai.key\n";
        root.put("etc/systemd/system/cairn.service.d/secrets.conf", drop_in);
        assert_eq!(root.found(Some(&loaded)).await[0].0, Mark::Ok);
        std::fs::remove_file(key).unwrap();
        let found = root.found(Some(&loaded)).await;
        assert_eq!(found[0].0, Mark::Failed, "systemd refuses to start a unit without it: {found:?}");
    }

    #[test]
    fn the_services_places_are_meant_where_it_has_a_configuration() {
        let root = Root::new();
        assert_eq!(places(root.0.path()), None);
        let config = root.put("etc/cairn/config.toml", "");
        assert_eq!(places(root.0.path()), Some((config, root.0.path().join("var/lib/cairn"))));
    }

    #[test]
    fn what_systemd_says_of_the_service_is_told() {
        let states = |text: &str| told(text).into_iter().map(|one| one.state).collect::<Vec<_>>();
        let fine =
            "ActiveState=active\nSubState=running\nNRestarts=0\nUnitFileState=enabled\nNeedDaemonReload=no";
        assert_eq!(states(fine), [Mark::Ok]);
        assert_eq!(states(&fine.replace("NRestarts=0", "NRestarts=7")), [Mark::Warning]);
        assert_eq!(states(&fine.replace("=active", "=failed")), [Mark::Failed]);
        assert_eq!(states(&fine.replace("=active", "=inactive").replace("=no", "=yes")), [Mark::Warning; 2]);
        assert_eq!(states(&fine.replace("=enabled", "=disabled")), [Mark::Ok, Mark::Warning]);
    }
}
