//! `loco doctor`: checks this machine for everything that a fabric for networks needs.

use std::time::Duration;

use loco::fabric::ofi::{self, OfiConfig, OfiFabric};
use loco::fabric::verbs::{self, Check, VerbsConfig, Verdict, check_host, choose};
use loco::fabric::{
    Caps, Completion, CompletionStatus, Fabric, FabricChoice, FabricError, Mesh, Order, Peers, Platform as _,
    Posted, QueuePair as _, TcpConfig, TcpFabric, Wait, Work, WorkRequestId,
};
use loco_app::print;
use serde::Serialize;

use crate::error::CliError;

/// Check this machine for everything that a fabric for networks needs, and say how to get what is missing.
///
/// For verbs the checks are libraries, device, port and GID, permissions, the limit on locked memory and huge pages;
/// then a read through the device. For ofi they are the library, a provider that can carry the fabric, and a read
/// through it. For tcp it is a read through a connection. All say what the network orders by itself (its tier), how
/// that is known, and what the orders cost that a program asks for. The exit code is 1 if something is missing.
#[derive(clap::Args)]
pub struct Args {
    /// Fabric to check: verbs, tcp, ofi or ofi:PROVIDER.
    #[arg(long, value_name = "FABRIC", default_value = "verbs")]
    fabric: FabricChoice,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    usable: bool,
    /// The orders that the network gives by itself, and the costs of the others; `null` if there is no network.
    order: Option<Order>,
    checks: Vec<Check>,
}

/// Checks and reports.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let (checks, order) = match args.fabric {
        FabricChoice::Verbs => {
            let config = VerbsConfig::from_env()?;
            let first = choose(&config)
                .ok()
                .and_then(|choices| choices.into_iter().next());
            let order = first.map(|choice| verbs::order(&config, &choice));
            (check_host(&config), order)
        }
        FabricChoice::Tcp => check_tcp(TcpConfig::from_env()?),
        FabricChoice::Ofi(provider) => {
            let named = provider.map(|name| name.as_str().to_owned());
            check_ofi(OfiConfig::from_env()?.provider(named))
        }
        other => {
            return Err(FabricError::Config(format!(
                "`loco doctor` checks verbs, tcp and ofi; the fabric `{other}` needs nothing that could be missing"
            ))
            .into());
        }
    };
    let usable = checks
        .iter()
        .all(|check| matches!(check.verdict, Verdict::Ok | Verdict::Warning));
    let code = u8::from(!usable);
    if args.json {
        // The report has only strings and booleans, which always serialize.
        let report = Report {
            usable,
            order,
            checks,
        };
        print(serde_json::to_string(&report).unwrap_or_default())?;
        return Ok(code);
    }
    for check in &checks {
        let mark = match check.verdict {
            Verdict::Ok => "ok     ",
            Verdict::Warning => "warning",
            Verdict::Failed => "FAILED ",
            Verdict::Skipped => "-      ",
        };
        print(format_args!("{mark} {}: {}", check.name, check.found))?;
        if let Some(remedy) = &check.remedy {
            print(format_args!("        {remedy}"))?;
        }
    }
    let not = if usable { "" } else { "not " };
    print(format_args!("\n{} is {not}usable on this machine", args.fabric))?;
    Ok(code)
}

/// Checks what libfabric needs, each time as far as the check before allows.
fn check_ofi(config: OfiConfig) -> (Vec<Check>, Option<Order>) {
    let library = ofi::library_version().map(|version| format!("libfabric {version}"));
    let usable = library
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|_| ofi::usable(&config));
    let order = usable.as_ref().ok().map(|provider| provider.mapping.order());
    let provider =
        usable.map(|provider| format!("{} on {}: {}", provider.name, provider.domain, provider.mapping));
    let ordered = match (&order, &provider) {
        (Some(order), _) => Ok(order.to_string()),
        (None, missing) => missing.clone(),
    };
    let read = provider.as_ref().map_err(Clone::clone).and_then(|provider| {
        read_through(|mesh| OfiFabric::new(mesh, config.clone()))?;
        let name = provider.split(" on ").next().unwrap_or(provider);
        Ok(format!("done, through {name}"))
    });
    let results = [
        ("library", library),
        ("provider", provider),
        ("order", ordered),
        ("read between two nodes", read),
    ];
    (checks(results), order)
}

/// Checks what TCP needs.
fn check_tcp(config: TcpConfig) -> (Vec<Check>, Option<Order>) {
    let read = read_through(|mesh| TcpFabric::new(mesh, config.clone()));
    let order = read.as_ref().ok().map(|caps| caps.order);
    let ordered = read
        .as_ref()
        .map(|caps| caps.order.to_string())
        .map_err(Clone::clone);
    let done = read.map(|_| match config.encrypt {
        true => "done, through an encrypted connection".to_owned(),
        false => "done, through a connection".to_owned(),
    });
    (
        checks([("read between two nodes", done), ("order", ordered)]),
        order,
    )
}

/// Returns the checks with these results, each of which needs the ones before.
fn checks<const N: usize>(results: [(&str, Result<String, FabricError>); N]) -> Vec<Check> {
    let mut failed = false;
    let check = |(name, result): (&str, Result<String, FabricError>)| {
        let (verdict, found) = match result {
            Ok(found) => (Verdict::Ok, found),
            Err(_) if failed => (Verdict::Skipped, "not tried".to_owned()),
            Err(error) => (Verdict::Failed, error.to_string()),
        };
        failed |= verdict == Verdict::Failed;
        Check {
            name: name.to_owned(),
            verdict,
            found,
            remedy: None,
        }
    };
    results.into_iter().map(check).collect()
}

/// Brings two nodes up in this process, and lets one read the other's memory: a node's operations on its own memory need no
/// network. Returns what the fabric can do.
fn read_through<F: Fabric>(up: impl Fn(Mesh) -> Result<F, FabricError> + Sync) -> Result<Caps, FabricError> {
    let mut meshes = Mesh::in_process(2)?.into_iter();
    let mut open = || {
        let mesh = meshes
            .next()
            .ok_or_else(|| FabricError::Config("a job of too few nodes".to_owned()));
        let up = &up;
        move || up(mesh?)
    };
    let (first, second) = (open(), open());
    let (fabric, peer) = std::thread::scope(|scope| {
        let second = scope.spawn(second);
        let panicked = |_| Err(FabricError::Config("the second node panicked".to_owned()));
        (first(), second.join().unwrap_or_else(panicked))
    });
    let (fabric, peer) = (fabric?, peer?);
    let mut qp = fabric.queue_pair(peer.node())?;
    if qp.flush(Work::signaled(WorkRequestId(0)))? == Posted::Done {
        return Ok(fabric.caps().clone());
    }
    let mut completions: Vec<Completion> = Vec::new();
    let wait = Wait {
        what: "a read of another node's memory through the network",
        peers: Peers::None,
        deadline: Some(fabric.platform().now().after(Duration::from_secs(10))),
    };
    let polled = fabric.wait(wait, || match fabric.poll(&mut completions) {
        Err(error) => Some(Err(error)),
        Ok(_) => completions.pop().map(Ok),
    })?;
    match polled?.status {
        CompletionStatus::Success => Ok(fabric.caps().clone()),
        CompletionStatus::Failed(error) => Err(*error),
    }
}
