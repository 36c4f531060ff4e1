//! `loco fabrics`: lists the fabrics that this machine could use.

use loco::fabric::verbs::{Choice, RdmaDevice, VerbsConfig, choose, devices};
use loco_app::print;
use serde::Serialize;

use crate::error::CliError;

/// List the fabrics of this machine: the RDMA devices with their ports and GIDs, and the one that would be
/// chosen.
#[derive(clap::Args)]
pub struct Args {
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    fabrics: Vec<&'static str>,
    devices: Vec<RdmaDevice>,
    chosen: Option<Choice>,
    /// The reason why none was chosen.
    reason: Option<String>,
}

/// Prints the list.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let config = VerbsConfig::from_env()?;
    let (chosen, reason) = match choose(&config) {
        Ok(choices) => (choices.into_iter().next(), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let report = Report {
        fabrics: if chosen.is_some() {
            vec!["shm", "verbs"]
        } else {
            vec!["shm"]
        },
        devices: devices(),
        chosen,
        reason,
    };
    if args.json {
        // The report has only strings, numbers and options, which always serialize.
        print(serde_json::to_string(&report).unwrap_or_default())?;
        return Ok(0);
    }
    print("shm    shared memory, nodes on this machine")?;
    match (&report.chosen, &report.reason) {
        (Some(choice), _) => print(format_args!("verbs  RDMA: {choice}"))?,
        (None, reason) => print(format_args!(
            "verbs  not available: {}",
            reason.as_deref().unwrap_or("no device")
        ))?,
    }
    for device in &report.devices {
        for port in &device.ports {
            print(format_args!(
                "\n{} port {}: {}, {}",
                device.name, port.number, port.state, port.link_layer
            ))?;
            for gid in &port.gids {
                let interface = gid.interface.as_deref().unwrap_or("-");
                let routable = gid.routable_address().map(|at| format!(", reachable as {at}"));
                print(format_args!(
                    "  GID {:<3} {} {} on {interface}{}",
                    gid.index,
                    gid.gid,
                    gid.kind,
                    routable.unwrap_or_default()
                ))?;
            }
        }
    }
    Ok(0)
}
