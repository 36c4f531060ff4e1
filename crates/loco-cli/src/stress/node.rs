//! One node of `loco stress`, whose threads make the calls.

use std::path::PathBuf;

use loco::Manager;

use super::calls;
use super::load::{Load, Object};
use super::worker::Site;
use crate::error::CliError;
use crate::meet;

/// Name of the subcommand.
pub const NAME: &str = "stress-node";

/// Be one node of `loco stress`.
#[derive(clap::Args)]
pub struct Args {
    #[arg(value_enum)]
    object: Object,
    directory: PathBuf,
    #[command(flatten)]
    load: Load,
}

/// Meets the others and makes the calls. The history is in the directory.
pub fn node(args: &Args) -> Result<u8, CliError> {
    let manager = Manager::new(meet::fabric()?)?;
    let site = Site::new(manager, args.load.clone(), args.directory.clone())?;
    match args.object {
        Object::Atomic => calls::atomic(&site),
        Object::TicketLock => calls::ticket_lock(&site),
        Object::TasLock => calls::tas_lock(&site),
        Object::Queue => calls::queue(&site),
        Object::Kv => calls::kv(&site),
    }?;
    Ok(0)
}
