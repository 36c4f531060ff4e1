//! `mowgli completions`: scripts for shells.

use clap_complete::Shell;

use crate::{Error, Exit, command, output};

/// Print a completion script for a shell
///
/// The script completes subcommands and options.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  mowgli completions bash > ~/.local/share/bash-completion/completions/mowgli\n  \
    mowgli completions zsh > ~/.zfunc/_mowgli\n  mowgli completions fish > ~/.config/fish/completions/mowgli.fish"
)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "mowgli", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::AsStated)
}
