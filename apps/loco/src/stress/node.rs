//! One node of `loco stress`, whose threads make the calls.

use std::path::PathBuf;
use std::time::Duration;

use loco::fabric::Fabric as _;
use loco::{Config, Manager};

use super::load::{Load, Object};
use super::worker::Site;
use super::{calls, journals, log};
use crate::error::CliError;
use crate::meet;

/// The deadline of each call. A longer wait counts as a hang. A machine with much more work than cores may keep a
/// node that holds a lock from running for longer than the usual ten seconds.
const CALL_PATIENCE: Duration = Duration::from_secs(60);

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
    let config = Config::default().deadline(CALL_PATIENCE);
    let manager = Manager::with_config(meet::fabric()?, config)?;
    if manager.nodes().first() == Some(&manager.node()) {
        journals::write_fabric(&args.directory, &manager.fabric().caps().name)?;
    }
    let site = Site::new(manager, args.object, args.load.clone(), args.directory.clone())?;
    match args.object {
        Object::Atomic => calls::atomic(&site),
        Object::TicketLock => calls::ticket_lock(&site),
        Object::TasLock => calls::tas_lock(&site),
        Object::Queue => calls::queue(&site),
        Object::Kv => calls::kv(&site),
        Object::Log => log::work(&site),
    }?;
    Ok(0)
}
