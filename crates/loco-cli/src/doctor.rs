//! `loco doctor`: checks this machine for everything that RDMA needs.

use loco::fabric::verbs::{Check, VerbsConfig, Verdict, check_host};
use loco_app::print;
use serde::Serialize;

use crate::error::CliError;

/// Check this machine for everything that the verbs fabric needs, and say how to get what is missing.
///
/// The checks are libraries, device, port and GID, permissions, the limit on locked memory and huge pages;
/// then a read through the device. The exit code is 1 if something is missing.
#[derive(clap::Args)]
pub struct Args {
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    usable: bool,
    checks: Vec<Check>,
}

/// Checks and reports.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let checks = check_host(&VerbsConfig::from_env()?);
    let usable = checks
        .iter()
        .all(|check| matches!(check.verdict, Verdict::Ok | Verdict::Warning));
    let code = u8::from(!usable);
    if args.json {
        // The report has only strings and booleans, which always serialize.
        print(serde_json::to_string(&Report { usable, checks }).unwrap_or_default())?;
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
    print(format_args!("\nverbs is {not}usable on this machine"))?;
    Ok(code)
}
