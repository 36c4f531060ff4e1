//! `loco doctor`: checks what this machine has for jobs: shared memory, names and limits, and the networks.

use loco::fabric::ofi::OfiConfig;
use loco::fabric::verbs::{Check, VerbsConfig, Verdict};
use loco::fabric::{FabricChoice, Order, TcpConfig};
use loco_app::print;
use serde::Serialize;

use crate::error::CliError;

mod host;
mod networks;

use networks::{check_ofi, check_tcp, check_verbs};

/// Check this machine for everything that jobs need, and say how to get what is missing.
///
/// Without --fabric, the checks are those of a job on this machine: a read through shared memory, the loopback interface,
/// names, limits, namespaces and filters of system calls. A line for each network says whether it is usable. The exit code is 0
/// if jobs on this machine work, also without any network.
///
/// With --fabric, the exit code is 1 if something that this fabric needs is missing. For verbs the checks are
/// libraries, device, port and GID, permissions, the limit on locked memory and huge pages;
/// then a read through the device. For ofi they are the library, a provider that can carry the fabric, and a read
/// through it. For tcp it is a read through a connection. All say what the network orders by itself (its tier), how
/// that is known, and what the orders cost that a program asks for.
#[derive(clap::Args)]
pub struct Args {
    /// Fabric to check: shm, verbs, tcp, ofi or ofi:PROVIDER.
    #[arg(long, value_name = "FABRIC", default_value_t, hide_default_value = true)]
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
        FabricChoice::Auto => (everything()?, None),
        FabricChoice::Shm => (host::checks(), None),
        FabricChoice::Verbs => check_verbs(&VerbsConfig::from_env()?),
        FabricChoice::Tcp => check_tcp(TcpConfig::from_env()?),
        FabricChoice::Ofi(provider) => {
            let named = provider.map(|name| name.as_str().to_owned());
            check_ofi(OfiConfig::from_env()?.provider(named))
        }
    };
    let usable = is_usable(&checks);
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
    match args.fabric {
        FabricChoice::Auto => {
            let does = if usable { "works" } else { "does not work" };
            print(format_args!("\nshared memory {does} on this machine"))?;
        }
        fabric => {
            let not = if usable { "" } else { "not " };
            print(format_args!("\n{fabric} is {not}usable on this machine"))?;
        }
    }
    Ok(code)
}

/// Returns whether nothing is missing.
fn is_usable(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.verdict != Verdict::Failed)
}

/// Checks this machine, and tells of each network whether it is usable. A network that is missing is no failure.
fn everything() -> Result<Vec<Check>, CliError> {
    let mut checks = host::checks();
    let networks = [
        ("verbs", check_verbs(&VerbsConfig::from_env()?)),
        ("tcp", check_tcp(TcpConfig::from_env()?)),
        ("ofi", check_ofi(OfiConfig::from_env()?)),
    ];
    checks.extend(networks.map(|(fabric, (found, order))| network(fabric, &found, order)));
    Ok(checks)
}

/// Returns the line for a network.
fn network(fabric: &str, found: &[Check], order: Option<Order>) -> Check {
    let name = format!("network {fabric}");
    // A skipped check follows an earlier one that failed; that one is the cause.
    let missing = found.iter().find(|check| check.verdict == Verdict::Failed);
    match missing {
        None => Check {
            name,
            verdict: Verdict::Ok,
            found: order.map_or("usable".to_owned(), |order| format!("usable; {order}")),
            remedy: None,
        },
        Some(missing) => Check {
            name,
            verdict: Verdict::Skipped,
            found: format!("not usable: {}: {}", missing.name, missing.found),
            remedy: Some(format!(
                "if it should be: `loco doctor --fabric {fabric}` says how"
            )),
        },
    }
}
