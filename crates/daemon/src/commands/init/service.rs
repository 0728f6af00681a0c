//! Sets up the service of systemd: of this user, or of the system.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::ValueEnum;

use crate::commands::init::answers::Answers;
use crate::commands::init::ask::{Ask, Secret};
use crate::commands::init::{SERVICE_CONFIG, UNITS};
use cairn_cli::failure::Failure;
use cairn_config::{Environment as _, ProcessEnvironment};

const SYSTEM_UNIT: &str = include_str!("../../../../../deploy/cairn.service");
const USER_UNIT: &str = include_str!("../../../../../deploy/cairn-user.service");
const SYSUSERS: &str = include_str!("../../../../../deploy/cairn.sysusers");

/// The program, as the units in `deploy` name it.
const PROGRAM: &str = "/usr/bin/cairn";

/// `--service`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ServiceArg {
    /// Runs as you, with your configuration and state
    User,
    /// Runs as the system user cairn, with /etc/cairn and /var/lib/cairn; needs root
    System,
    /// None
    None,
}

impl ServiceArg {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::System => "system",
            Self::None => "none",
        }
    }
}

/// Checks the flag before the first question.
pub(super) fn check(wanted: Option<ServiceArg>, file: &Path) -> Result<(), Failure> {
    if wanted != Some(ServiceArg::System) {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::usage("--service system needs root", "sudo cairn init --service system"));
    }
    if file == Path::new(SERVICE_CONFIG) {
        return Ok(());
    }
    Err(Failure::usage(
        format!("the system service reads {SERVICE_CONFIG}, not {}", file.display()),
        "omit --config, or set up the service by hand",
    ))
}

/// Which service to set up: the flag's, or by a question if this machine can have one.
pub(super) fn wanted(flag: Option<ServiceArg>, file: &Path, ask: &mut Ask) -> Result<ServiceArg, Failure> {
    if let Some(flag) = flag {
        return Ok(flag);
    }
    if !ask.is_asking() {
        return Ok(ServiceArg::None);
    }
    let env = ProcessEnvironment;
    let is_root = rustix::process::geteuid().is_root();
    if is_root && file == Path::new(SERVICE_CONFIG) && Path::new("/run/systemd/system").is_dir() {
        let agreed = ask.agrees("Set up the system service, and start it?", false)?;
        return Ok(if agreed { ServiceArg::System } else { ServiceArg::None });
    }
    // The manager of a user's services has its folder there.
    let manager = env.first_dir("XDG_RUNTIME_DIR").map(|dir| dir.join("systemd"));
    if manager.is_some_and(|dir| dir.is_dir()) {
        ask.remark("for a system service: sudo cairn init --service system")?;
        let agreed = ask.agrees("Set up a service that runs as you, and start it?", false)?;
        return Ok(if agreed { ServiceArg::User } else { ServiceArg::None });
    }
    Ok(ServiceArg::None)
}

/// The line of a unit that passes a secret on.
pub(super) fn credential(secret: &Path) -> String {
    let name = secret.file_name().unwrap_or_default().to_string_lossy();
    format!("LoadCredential={name}:{}", secret.display())
}

/// What is written, and the commands after it.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    files: Vec<(PathBuf, String)>,
    commands: Vec<Vec<&'static str>>,
}

/// Sets the service up and starts it. Returns the steps that were taken, a line each.
pub(super) fn install(kind: ServiceArg, file: &Path, answers: &Answers) -> Result<String, Failure> {
    let plan = match kind {
        ServiceArg::None => return Ok(String::new()),
        ServiceArg::User => for_user(&program()?, file, &user_unit()?),
        ServiceArg::System => {
            let is_installed = UNITS.iter().any(|unit| Path::new(unit).exists());
            let program = program()?;
            if !is_installed && ["/home", "/root"].iter().any(|home| program.starts_with(home)) {
                return Err(Failure::usage(
                    format!(
                        "the configuration is written; the system service cannot run {}, which is in a home folder",
                        program.display()
                    ),
                    "install the program to /usr/local: sudo sh deploy/install.sh --service system",
                ));
            }
            for_system(&program, &answers.secret_files(file), is_installed)
        }
    };
    let mut out = String::new();
    if let Some(variable) = variable(answers) {
        let user = if matches!(kind, ServiceArg::User) { "--user " } else { "" };
        out.push_str(&format!(
            "warning: the service does not have this shell's ${variable}: set it with `systemctl {user}edit cairn`, or use a file\n"
        ));
    }
    for (path, text) in plan.files {
        let dir = path.parent().unwrap_or(Path::new("/"));
        let written = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&path, text));
        written.map_err(|error| {
            Failure::failed(
                format!("cannot write {}: {error}", path.display()),
                "the configuration is written; set up the service by hand",
            )
        })?;
        out.push_str(&format!("wrote {}\n", path.display()));
    }
    for command in plan.commands {
        run(&command)?;
        out.push_str(&format!("ran {}\n", command.join(" ")));
    }
    Ok(out)
}

/// A secret that is in a variable of this shell alone.
fn variable(answers: &Answers) -> Option<&str> {
    answers.secrets().into_iter().find_map(|(_, secret)| match secret {
        Secret::Variable(name) => Some(name.as_str()),
        Secret::None | Secret::File(_) | Secret::Typed(_) => None,
    })
}

fn for_user(program: &Path, file: &Path, unit: &Path) -> Plan {
    let program = quoted(program);
    let named = format!("{program} run --config {}", quoted(file));
    let text = USER_UNIT
        .replace(&format!("ExecStart={PROGRAM} run"), &format!("ExecStart={named}"))
        .replace(&format!("ExecReload={PROGRAM}"), &format!("ExecReload={program}"));
    Plan {
        files: vec![(unit.to_owned(), text)],
        commands: vec![
            vec!["systemctl", "--user", "daemon-reload"],
            vec!["systemctl", "--user", "enable", "cairn.service"],
            vec!["systemctl", "--user", "restart", "cairn.service"],
        ],
    }
}

/// `secrets`: files that root alone can read, and that the unit passes on. `is_installed`: a package has put the unit.
fn for_system(program: &Path, secrets: &[PathBuf], is_installed: bool) -> Plan {
    let (mut files, mut commands) = (Vec::new(), Vec::new());
    if !is_installed {
        let unit = SYSTEM_UNIT.replace(&format!("={PROGRAM} "), &format!("={} ", quoted(program)));
        files.push((PathBuf::from("/etc/systemd/system/cairn.service"), unit));
        files.push((PathBuf::from("/etc/sysusers.d/cairn.conf"), SYSUSERS.to_owned()));
        commands.push(vec!["systemd-sysusers"]);
    }
    if !secrets.is_empty() {
        let lines: String = secrets.iter().map(|secret| format!("{}\n", credential(secret))).collect();
        let text = format!(
            "# Written by `cairn init`: the secrets that the configuration names.\n[Service]\n{lines}"
        );
        files.push((PathBuf::from("/etc/systemd/system/cairn.service.d/init.conf"), text));
    }
    commands.push(vec!["systemctl", "daemon-reload"]);
    commands.push(vec!["systemctl", "enable", "cairn.service"]);
    commands.push(vec!["systemctl", "restart", "cairn.service"]);
    Plan { files, commands }
}

/// A path as a word of a unit's command (systemd.service(5), "Command lines"; specifiers: systemd.unit(5)).
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+');
    if text.chars().all(plain) {
        return text;
    }
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    format!("\"{text}\"")
}

fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::failed(
            format!("cannot find out where this program is: {error}"),
            "set up the service by hand",
        )
    })
}

fn user_unit() -> Result<PathBuf, Failure> {
    let env = ProcessEnvironment;
    let home = || Some(PathBuf::from(env.var("HOME")?).join(".config"));
    let dir = env.first_dir("XDG_CONFIG_HOME").or_else(home).filter(|dir| dir.is_absolute());
    let dir = dir.ok_or_else(|| Failure::usage("there is no home folder: $HOME is not set", "set $HOME"))?;
    Ok(dir.join("systemd/user/cairn.service"))
}

fn run(command: &[&str]) -> Result<(), Failure> {
    let shown = command.join(" ");
    let failed = |why: String| {
        let hint = format!("the configuration and the unit are written; once that is fixed, run: {shown}");
        Failure::failed(format!("`{shown}` failed: {why}"), hint)
    };
    let Some((name, args)) = command.split_first() else { return Ok(()) };
    let output = Command::new(name).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(cairn_api::text::one_line(String::from_utf8_lossy(&output.stderr).trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_a_user_runs_this_program_with_that_configuration() {
        let plan = for_user(
            Path::new("/home/ada/.local/bin/cairn"),
            Path::new("/home/ada/my 100% bot/config.toml"),
            Path::new("/home/ada/.config/systemd/user/cairn.service"),
        );
        let text = &plan.files[0].1;
        let start =
            "\nExecStart=/home/ada/.local/bin/cairn run --config \"/home/ada/my 100%% bot/config.toml\"\n";
        assert!(text.contains(start), "{text}");
        assert!(text.contains("\nExecReload=/home/ada/.local/bin/cairn reload\n"), "{text}");
        assert!(text.contains("\nType=notify\n") && text.contains("\nWantedBy=default.target\n"), "{text}");
        assert_eq!(plan.commands.len(), 3);
        assert!(plan.commands.iter().all(|command| command[..2] == ["systemctl", "--user"]));
    }

    #[test]
    fn the_unit_of_the_system_is_put_where_none_is_and_gets_the_secrets() {
        let secrets = [PathBuf::from("/etc/cairn/model.key")];
        let plan = for_system(Path::new("/usr/local/bin/cairn"), &secrets, false);
        let names: Vec<_> = plan.files.iter().map(|(path, _)| path.display().to_string()).collect();
        assert_eq!(
            names,
            [
                "/etc/systemd/system/cairn.service",
                "/etc/sysusers.d/cairn.conf",
                "/etc/systemd/system/cairn.service.d/init.conf"
            ]
        );
        assert!(plan.files[0].1.contains("\nExecStart=/usr/local/bin/cairn run\n"));
        assert!(plan.files[2].1.ends_with("[Service]\nLoadCredential=model.key:/etc/cairn/model.key\n"));
        assert_eq!(plan.commands[0], ["systemd-sysusers"]);
        let plan = for_system(Path::new("/usr/bin/cairn"), &[], true);
        assert_eq!((plan.files.len(), plan.commands.len()), (0, 3), "a package has put all of it");
    }
}
