//! `loco fabrics`: lists the fabrics that this machine could use.

use loco::fabric::ofi::{self, OfiConfig, OfiProvider};
use loco::fabric::verbs::{self, Choice, RdmaDevice, VerbsConfig, choose, devices};
use loco::fabric::{Order, TCP_ORDER};
use loco_app::print;
use serde::Serialize;

use crate::error::CliError;

/// List the fabrics of this machine: the RDMA devices with their ports and GIDs, and the one that would be
/// chosen; the providers of libfabric that can be used, and what each gives of the contract. For each fabric: what it orders
/// by itself (its tier), how that is known, and what the orders cost that a program asks for.
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
    ofi: Vec<Provider>,
    /// The reason why libfabric cannot be used.
    ofi_reason: Option<String>,
    orders: Vec<Orders>,
}

/// The orders that a fabric gives by itself to the operations of a queue pair, and the costs of the others.
#[derive(Serialize)]
struct Orders {
    /// The fabric, as `--fabric` takes it.
    fabric: String,
    #[serde(flatten)]
    order: Order,
}

/// A provider of libfabric.
#[derive(Serialize)]
struct Provider {
    name: String,
    domains: Vec<String>,
    rdma: bool,
    manual_progress: bool,
    /// The mapping of the contract in words: the orders that the provider gives, and those that are bought.
    mapping: String,
    #[serde(skip)]
    order: Order,
}

/// Returns the providers that can be used, each once with its domains.
fn ofi_providers() -> Result<Vec<Provider>, loco::fabric::FabricError> {
    let mut all: Vec<Provider> = Vec::new();
    let found = ofi::providers(&OfiConfig::from_env()?.any_provider(true))?;
    for OfiProvider {
        name,
        domain,
        manual_progress,
        rdma,
        mapping,
    } in found
    {
        match all.iter_mut().find(|provider| provider.name == name) {
            Some(known) if known.domains.contains(&domain) => {}
            Some(known) => known.domains.push(domain),
            None => all.push(Provider {
                name,
                domains: vec![domain],
                rdma,
                manual_progress,
                mapping: mapping.to_string(),
                order: mapping.order(),
            }),
        }
    }
    Ok(all)
}

/// Prints the list.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let config = VerbsConfig::from_env()?;
    let (chosen, reason) = match choose(&config) {
        Ok(choices) => (choices.into_iter().next(), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let (ofi, ofi_reason) = match ofi_providers() {
        Ok(providers) => (providers, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let mut fabrics = vec!["shm"];
    fabrics.extend(chosen.is_some().then_some("verbs"));
    fabrics.push("tcp");
    fabrics.extend((!ofi.is_empty()).then_some("ofi"));
    let verbs_order = chosen.as_ref().map(|choice| verbs::order(&config, choice));
    let orders = [("shm".to_owned(), Order::IMMEDIATE)]
        .into_iter()
        .chain(verbs_order.map(|order| ("verbs".to_owned(), order)))
        .chain([("tcp".to_owned(), TCP_ORDER)])
        .chain(
            ofi.iter()
                .map(|provider| (format!("ofi:{}", provider.name), provider.order)),
        )
        .map(|(fabric, order)| Orders { fabric, order })
        .collect();
    let report = Report {
        fabrics,
        orders,
        ofi,
        ofi_reason,
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
    print("tcp    TCP, nodes on any machines")?;
    if let Some(reason) = &report.ofi_reason {
        print(format_args!("ofi    not available: {reason}"))?;
    }
    for provider in &report.ofi {
        let domains = provider.domains.join(", ");
        print(format_args!("ofi    ofi:{} on {domains}", provider.name))?;
        print(format_args!("       {}", provider.mapping))?;
    }
    print("\norder of the operations of a queue pair, and what a request for more costs:")?;
    for Orders { fabric, order } in &report.orders {
        print(format_args!("  {fabric}: {order}"))?;
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
