//! `mowgli man`: manual pages.

use std::path::PathBuf;

use crate::{Error, Exit, command, output};

/// Print the manual page, or write those of all subcommands
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  mowgli man | man -l -\n  mowgli man --out ~/.local/share/man/man1      # then: man mowgli-check"
)]
pub(crate) struct Args {
    /// Write a page for the command and for each subcommand into this folder
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command()).render(&mut page)?;
        output::print(&String::from_utf8_lossy(&page))?;
        return Ok(Exit::AsStated);
    };
    let failed = |source| Error::Write {
        path: folder.display().to_string(),
        source,
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command(), folder).map_err(failed)?;
    Ok(Exit::AsStated)
}
