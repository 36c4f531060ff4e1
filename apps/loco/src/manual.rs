//! `loco completions` and `loco man`: scripts for shells and manual pages, made from the description of the options.

use std::io;
use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use loco_app::print;

use crate::error::CliError;

/// Print a completion script for a shell
///
/// The script completes subcommands, options, and the values that are listed in their help.
#[derive(clap::Args)]
#[command(
    after_help = "EXAMPLES\n  loco completions bash > ~/.local/share/bash-completion/completions/loco\n  \
    loco completions zsh > ~/.zfunc/_loco\n  loco completions fish > ~/.config/fish/completions/loco.fish"
)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Print the manual page, or write those of all subcommands
#[derive(clap::Args)]
#[command(
    after_help = "EXAMPLES\n  loco man | man -l -\n  loco man --out ~/.local/share/man/man1      # then: man loco-run"
)]
pub struct ManArgs {
    /// Write a page for the command and for each subcommand into this folder.
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Returns the command without subcommands for internal use, which nobody types.
fn visible(command: &Command) -> Command {
    let subcommands = command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set());
    Command::new("loco")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments())
        .subcommands(subcommands)
}

/// Prints the script.
pub fn completions(args: &CompletionsArgs, command: &Command) -> Result<u8, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(command), "loco", &mut script);
    print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}

/// Prints or writes the pages.
pub fn man(args: &ManArgs, command: Command) -> Result<u8, CliError> {
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut page);
        rendered.map_err(CliError::os("making the manual page"))?;
        print(String::from_utf8_lossy(&page).trim_end())?;
        return Ok(0);
    };
    let failed = |source: io::Error| CliError::File {
        what: format!("writing manual pages into {}", folder.display()),
        source,
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command, folder).map_err(failed)?;
    Ok(0)
}
