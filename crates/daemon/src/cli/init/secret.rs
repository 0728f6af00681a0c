//! Where a secret is: asked for, and looked at when the answer is given.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};

use super::super::failure::Failure;
use super::ask::Ask;
use crate::config::{
    Environment as _, NoSecret, ProcessEnvironment, is_secret, secret_in_file, secret_in_variable,
};

pub(super) enum Secret {
    /// There is none.
    None,
    Variable(String),
    /// In a file, absolute or by its bare name beside the configuration.
    File(PathBuf),
    /// It was typed, and is to be written to a file of its own.
    Typed(SecretString),
}

/// A secret that a question is about.
pub(super) struct Wanted<'a> {
    pub(super) what: &'static str,
    /// The folder of the configuration.
    pub(super) dir: &'a Path,
    /// The file for it there, if it is typed.
    pub(super) name: &'static str,
    pub(super) needed: Option<String>,
}

impl Secret {
    /// The file that it is in, or is going to be in, as it is written in the configuration.
    pub(super) fn file(&self, name: &'static str) -> Option<PathBuf> {
        match self {
            Self::None | Self::Variable(_) => None,
            Self::File(file) => Some(file.clone()),
            Self::Typed(_) => Some(name.into()),
        }
    }
}

impl Wanted<'_> {
    /// The answer to a question. What leads nowhere is told at once and asked again; what may be there later is taken when
    /// it is given twice.
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
                    ask.remark(&format!("{why}; give the same answer again if it is to be there later"))?;
                }
                Err(NoSecret::Never(why)) => ask.remark(&why)?,
            }
            before = Some(answer);
        }
    }

    /// A file that a flag names.
    ///
    /// # Errors
    /// No secret is in it.
    pub(super) fn named(&self, file: &Path, flag: &str) -> Result<Secret, Failure> {
        let secret = Secret::File(beside(file, self.dir));
        match self.check(&secret) {
            Ok(()) => Ok(secret),
            Err(NoSecret::NotYet(why) | NoSecret::Never(why)) => {
                Err(Failure::usage(format!("{flag}: {why}"), "nothing was written; correct the option"))
            }
        }
    }

    fn check(&self, secret: &Secret) -> Result<(), NoSecret> {
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
            ask.remark(&format!("{} is there already: name it, or move it away first", file.display()))?;
            return Ok(None);
        }
        let typed = ask.secret(&format!("  Type or paste it (it is not shown, and goes into {name}):"))?;
        if is_secret(typed.expose_secret()) {
            return Ok(Some(Secret::Typed(typed)));
        }
        ask.remark(&format!("that is no {what}: it is empty or not a single word"))?;
        Ok(None)
    }
}

/// A file as the configuration names it: by its bare name where it lies beside, so that a credential of systemd of that
/// name is found, too.
pub(super) fn beside(file: &Path, dir: &Path) -> PathBuf {
    let whole = ProcessEnvironment.current_dir().map_or_else(|| file.to_owned(), |cwd| cwd.join(file));
    match (whole.parent(), whole.file_name()) {
        (Some(parent), Some(name)) if parent == dir => name.into(),
        // A bare name that is not here may be meant there.
        (Some(_), Some(name)) if !whole.exists() && Path::new(name) == file && dir.join(name).exists() => {
            name.into()
        }
        _ => whole,
    }
}
