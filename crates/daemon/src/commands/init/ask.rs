//! Asks questions on stderr and reads the answers from the terminal or a pipe; asks for secrets.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use console::style;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use secrecy::{ExposeSecret as _, SecretString};

use crate::commands::doctor::{Finding, drawn};
use cairn_cli::failure::Failure;
use cairn_config::{
    Environment as _, NoSecret, ProcessEnvironment, is_secret, secret_in_file, secret_in_variable,
};

pub(super) struct Ask {
    yes: bool,
    offline: bool,
    terminal: bool,
}

impl Ask {
    /// `yes`: uses the defaults without asking. `offline`: no server is asked either.
    pub(super) fn new(yes: bool, offline: bool) -> Self {
        Self { yes, offline, terminal: std::io::stdin().is_terminal() }
    }

    /// Whether servers may be asked: somebody is there to read what they say.
    pub(super) fn looks(&self) -> bool {
        !self.yes && !self.offline
    }

    pub(super) fn is_asking(&self) -> bool {
        !self.yes
    }

    /// Asks for a line. An empty answer means the default.
    pub(super) fn line(&mut self, question: &str, default: &str) -> Result<String, Failure> {
        if self.yes {
            return Ok(default.to_owned());
        }
        let shown = if default.is_empty() { String::new() } else { format!(" [{default}]") };
        put(&format!("{}{shown} ", style(question).bold()))?;
        let answer = read()?;
        self.echo(&answer)?;
        let answer = answer.trim();
        Ok(if answer.is_empty() { default.to_owned() } else { answer.to_owned() })
    }

    /// Asks for a line until `fits` accepts it.
    pub(super) fn fitting<T>(
        &mut self,
        question: &str,
        default: &str,
        mut fits: impl FnMut(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        loop {
            match fits(&self.line(question, default)?) {
                Ok(answer) => return Ok(answer),
                Err(why) if self.yes => return Err(Failure::usage(why, "see cairn init --help")),
                Err(why) => self.remark(&why)?,
            }
        }
    }

    /// Prints what is wrong with an answer, or what was found.
    pub(super) fn remark(&mut self, why: &str) -> Result<(), Failure> {
        put(&format!("  {why}\n"))
    }

    /// Prints what the checks found.
    pub(super) fn findings(&mut self, findings: &[Finding]) -> Result<(), Failure> {
        findings.iter().try_for_each(|finding| put(&drawn(finding)))
    }

    /// Asks for a secret, without showing it on the terminal.
    pub(super) fn secret(&mut self, question: &str) -> Result<SecretString, Failure> {
        // Before it is asked: what is pasted at once would be shown, or lost.
        let silence = if self.terminal { Some(Silence::begin()?) } else { None };
        put(&format!("{} ", style(question).bold()))?;
        let text = read();
        drop(silence);
        if !self.terminal {
            put("\n")?;
        }
        Ok(SecretString::from(text?.trim().to_owned()))
    }

    /// Asks for yes or no. `default`: the one that an empty answer means.
    pub(super) fn agrees(&mut self, question: &str, default: bool) -> Result<bool, Failure> {
        self.fitting(question, if default { "yes" } else { "no" }, |answer| {
            match answer.to_lowercase().as_str() {
                "y" | "yes" => Ok(true),
                "n" | "no" => Ok(false),
                _ => Err("answer yes or no".to_owned()),
            }
        })
    }

    /// Prints an answer from a pipe; a terminal shows what is typed anyway.
    fn echo(&self, answer: &str) -> Result<(), Failure> {
        if self.terminal { Ok(()) } else { put(&format!("{}\n", answer.trim())) }
    }
}

/// The terminal shows nothing of what is typed but the end of the line, until this is dropped.
struct Silence(Termios);

impl Silence {
    fn begin() -> Result<Self, Failure> {
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).map_err(std::io::Error::from)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        silent.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(&stdin, OptionalActions::Now, &silent).map_err(std::io::Error::from)?;
        Ok(Self(before))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0) {
            tracing::debug!(%error, "the terminal stays without an echo");
        }
    }
}

fn put(text: &str) -> Result<(), Failure> {
    let mut err = std::io::stderr().lock();
    err.write_all(text.as_bytes())?;
    Ok(err.flush()?)
}

fn read() -> Result<String, Failure> {
    let mut line = String::new();
    let n = std::io::stdin().lock().read_line(&mut line).map_err(|error| {
        Failure::failed(format!("cannot read the answer: {error}"), "answers are one line of UTF-8 each")
    })?;
    if n == 0 {
        // Ends the line of the open question.
        put("\n")?;
        return Err(Failure::usage(
            "the input ended before all questions were answered; nothing was written",
            "answer with flags and --yes: see cairn init --help",
        ));
    }
    Ok(line)
}

pub(super) enum Secret {
    /// No secret.
    None,
    Variable(String),
    /// In a file: its absolute path, or its bare name if it is next to the configuration.
    File(PathBuf),
    /// Typed in; to be written to a file.
    Typed(SecretString),
}

/// A secret to ask for.
pub(super) struct SecretQuestion<'a> {
    pub(super) what: &'static str,
    /// The folder of the configuration.
    pub(super) dir: &'a Path,
    /// The name of the file for a typed secret.
    pub(super) name: &'static str,
    pub(super) needed: Option<String>,
}

impl Secret {
    /// The secret as it can be read before its file is written: one that was typed is in a variable of [`Look`].
    ///
    /// [`Look`]: crate::commands::init::look::Look
    pub(super) fn beforehand(&self, variable: &str) -> Self {
        match self {
            Self::None => Self::None,
            Self::Variable(name) => Self::Variable(name.clone()),
            Self::File(file) => Self::File(file.clone()),
            Self::Typed(_) => Self::Variable(variable.to_owned()),
        }
    }

    /// The secret's file, existing or to be written, as the configuration names it. `name`: the file for a typed
    /// secret.
    pub(super) fn file(&self, name: &'static str) -> Option<PathBuf> {
        match self {
            Self::None | Self::Variable(_) => None,
            Self::File(file) => Some(file.clone()),
            Self::Typed(_) => Some(name.into()),
        }
    }
}

impl SecretQuestion<'_> {
    /// Asks for the secret until the answer is usable. A file or variable that does not exist yet is accepted when it
    /// is given twice.
    pub(super) fn ask(&self, question: &str, ask: &mut Ask) -> Result<Secret, Failure> {
        if !ask.is_asking() {
            return Ok(Secret::None);
        }
        let mut before = None;
        loop {
            let answer = ask.line(question, "")?;
            let secret = match answer.to_lowercase().as_str() {
                "" | "n" | "no" | "none" => match &self.needed {
                    None => return Ok(Secret::None),
                    Some(why) => {
                        ask.remark(why)?;
                        continue;
                    }
                },
                "-" => match self.typed(ask)? {
                    Some(typed) => return Ok(typed),
                    None => continue,
                },
                _ => match answer.strip_prefix('$') {
                    Some(variable) => Secret::Variable(variable.to_owned()),
                    None => Secret::File(beside(Path::new(&answer), self.dir)),
                },
            };
            match self.check(&secret) {
                Ok(()) => return Ok(secret),
                Err(NoSecret::NotYet(_)) if before.as_ref() == Some(&answer) => return Ok(secret),
                Err(NoSecret::NotYet(why)) => {
                    ask.remark(&format!("{why}; enter the same answer again if you will create it later"))?;
                }
                Err(NoSecret::Never(why)) => ask.remark(&why)?,
            }
            before = Some(answer);
        }
    }

    /// The secret in a file named by a flag.
    ///
    /// # Errors
    /// The file contains no secret.
    pub(super) fn named(&self, file: &Path, flag: &str) -> Result<Secret, Failure> {
        let secret = Secret::File(beside(file, self.dir));
        match self.check(&secret) {
            Ok(()) => Ok(secret),
            Err(NoSecret::NotYet(why) | NoSecret::Never(why)) => {
                Err(Failure::usage(format!("{flag}: {why}"), "nothing was written; correct the option"))
            }
        }
    }

    /// Whether the secret can be read now.
    pub(super) fn check(&self, secret: &Secret) -> Result<(), NoSecret> {
        match secret {
            Secret::None | Secret::Typed(_) => Ok(()),
            Secret::Variable(name) => secret_in_variable(name, &ProcessEnvironment),
            Secret::File(file) => secret_in_file(self.what, &self.dir.join(file), &ProcessEnvironment),
        }
    }

    fn typed(&self, ask: &mut Ask) -> Result<Option<Secret>, Failure> {
        let (what, name) = (self.what, self.name);
        if self.dir.join(name).exists() {
            let file = self.dir.join(name);
            ask.remark(&format!("{} exists already: enter its name, or move it away first", file.display()))?;
            return Ok(None);
        }
        let typed = ask.secret(&format!("  Type or paste it (it is not shown, and is saved in {name}):"))?;
        if is_secret(typed.expose_secret()) {
            return Ok(Some(Secret::Typed(typed)));
        }
        ask.remark(&format!("that is not a {what}: it is empty or not a single word"))?;
        Ok(None)
    }
}

/// The name of a file for the configuration: its bare name if it is in `dir`, so that a systemd credential of this name
/// is found as well.
pub(super) fn beside(file: &Path, dir: &Path) -> PathBuf {
    let whole = ProcessEnvironment.current_dir().map_or_else(|| file.to_owned(), |cwd| cwd.join(file));
    match (whole.parent(), whole.file_name()) {
        (Some(parent), Some(name)) if parent == dir => name.into(),
        // A bare name that does not exist here may mean the file in `dir`.
        (Some(_), Some(name)) if !whole.exists() && Path::new(name) == file && dir.join(name).exists() => {
            name.into()
        }
        _ => whole,
    }
}
