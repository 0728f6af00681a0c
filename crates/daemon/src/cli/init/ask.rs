//! Questions on the terminal, or answered by the lines of a pipe. They are put on stderr.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use console::{Term, style};
use secrecy::SecretString;

use super::super::failure::Failure;

pub(super) struct Ask {
    yes: bool,
    terminal: bool,
}

impl Ask {
    /// `yes`: nothing is asked.
    pub(super) fn new(yes: bool) -> Self {
        Self { yes, terminal: std::io::stdin().is_terminal() }
    }

    pub(super) fn is_asking(&self) -> bool {
        !self.yes
    }

    /// A line; an empty one stands for the default.
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

    /// A line that fits, asked again until it does.
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

    /// What is wrong with an answer, before it is asked for again.
    pub(super) fn remark(&mut self, why: &str) -> Result<(), Failure> {
        put(&format!("  {why}\n"))
    }

    /// A secret. What is typed is not shown.
    pub(super) fn secret(&mut self, question: &str) -> Result<SecretString, Failure> {
        put(&format!("{} ", style(question).bold()))?;
        let text = if self.terminal { Term::stderr().read_secure_line()? } else { read()? };
        if !self.terminal {
            put("\n")?;
        }
        Ok(SecretString::from(text.trim().to_owned()))
    }

    pub(super) fn agrees(&mut self, question: &str) -> Result<bool, Failure> {
        self.fitting(question, "yes", |answer| match answer.to_lowercase().as_str() {
            "y" | "yes" => Ok(true),
            "n" | "no" => Ok(false),
            _ => Err("answer yes or no".to_owned()),
        })
    }

    /// A terminal shows what is typed; of a pipe the answer is put beside its question.
    fn echo(&self, answer: &str) -> Result<(), Failure> {
        if self.terminal { Ok(()) } else { put(&format!("{}\n", answer.trim())) }
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
        // The question stands on a line that nobody ended.
        put("\n")?;
        return Err(Failure::usage(
            "the input ended before all was answered; nothing was written",
            "answer by flags, with --yes: see cairn init --help",
        ));
    }
    Ok(line)
}
