//! What goes along with the binary: completions for shells, pages for `man`. Both are made from the command line's own
//! description, so that they never say anything else.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use super::failure::Failure;
use super::{Cli, out};

/// Arguments of `completions`.
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

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn man | man -l -
  cairn man /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The folder to write cairn.1 to, and a page for each command [default: prints cairn.1]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// `cairn completions`.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "cairn", &mut script);
    out::raw(&script)
}

/// `cairn man`.
pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        Man::new(Cli::command()).render(&mut page)?;
        return out::raw(&page);
    };
    let write = std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
    write.map_err(|error| {
        let message = format!("cannot write the pages to {}: {error}", dir.display());
        Failure::failed(message, "check the folder's permissions")
    })
}
