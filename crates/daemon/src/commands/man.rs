//! Shell completions and man pages, generated from the command line definition.

use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use cairn_cli::failure::Failure;
use cairn_cli::out;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn completions bash > ~/.local/share/bash-completion/completions/cairn
  cairn completions zsh > ~/.zfunc/_cairn
  cairn completions fish > ~/.config/fish/completions/cairn.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn man | man -l -
  cairn man /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The folder for cairn.1 and a page for each command [default: print cairn.1]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs, mut cairn: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cairn, "cairn", &mut script);
    out::raw(&script)
}

pub(crate) fn man(args: &ManArgs, cairn: Command) -> Result<(), Failure> {
    let Some(dir) = &args.dir else {
        return out::raw(&page(&Man::new(cairn))?);
    };
    if dir.is_file() {
        let message = format!("{} is a file", dir.display());
        return Err(Failure::usage(message, "give a folder for the pages, or none to print cairn.1"));
    }
    let mut cairn = cairn.disable_help_subcommand(true);
    cairn.build();
    let write = std::fs::create_dir_all(dir).and_then(|()| write_pages(&cairn, dir));
    write.map_err(|error| {
        let message = format!("cannot write the pages to {}: {error}", dir.display());
        Failure::failed(message, "check the folder's permissions")
    })
}

/// Writes the man pages of a command and its subcommands.
fn write_pages(command: &Command, dir: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, dir)?;
    }
    let man = Man::new(command.clone());
    std::fs::write(dir.join(man.get_filename()), page(&man)?)
}

/// The text of a man page. The section after the options is renamed to EXAMPLES.
fn page(man: &Man) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).replace("\n.SH EXTRA\n", "\n.SH EXAMPLES\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::Cli;

    /// Columns of a line that is broken by hand: terminals of 80 columns break longer ones once more.
    const COLUMNS: usize = 78;

    fn every(command: &Command, check: &mut impl FnMut(&Command)) {
        check(command);
        command.get_subcommands().for_each(|below| every(below, check));
    }

    #[test]
    fn lines_broken_by_hand_fit_a_terminal() {
        every(&Cli::command(), &mut |command| {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in text.lines() {
                assert!(line.chars().count() <= COLUMNS, "{}: {line}", command.get_name());
            }
        });
    }

    #[test]
    fn a_command_with_commands_below_it_names_them_all() {
        for (name, words) in [
            ("store", &["verify", "retain", "rebuild", "back up", "restore", "move"][..]),
            ("config", &["check", "show", "schema"]),
        ] {
            let cairn = Cli::command();
            let command = cairn.find_subcommand(name).unwrap();
            let about = command.get_about().unwrap().to_string().to_lowercase();
            assert_eq!(command.get_subcommands().count(), words.len(), "{name} has others: say so");
            assert!(words.iter().all(|word| about.contains(word)), "{name}: {about}");
        }
    }

    #[test]
    fn completions_offer_the_kinds_of_memories() {
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut Cli::command(), "cairn", &mut script);
        let script = String::from_utf8(script).unwrap();
        let offered = "compgen -W \"fact preference decision observation identity event goal todo\"";
        assert!(script.matches(offered).count() >= 3, "memory list, search and add");
    }
}
