//! Runs the ladders of objects on one tier of networks, or on one fabric of the model, and prints a line for each world, as a table
//! of what holds where.
//!
//! `tiers TIER SECONDS [OBJECT...]`, or the name of a fabric such as `shm` in place of the tier, with so many seconds for each object, of all objects if none is named. Exit status: 0 nothing
//! found, 1 a failing execution, which is printed, 2 bad usage or a world that cannot be explored.

use std::process::ExitCode;
use std::time::Duration;

use loco_check::{Ladder, Object};
use loco_sim::{Completeness, Config, FabricKind, Tier};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Explores a ladder. Returns true if something failed.
fn run(args: &[String]) -> Result<bool, String> {
    let [network, seconds, objects @ ..] = args else {
        return Err("usage: tiers TIER|FABRIC SECONDS [OBJECT[/WORLD...]...]".to_owned());
    };
    let (fabric, tier) = match network.parse::<FabricKind>() {
        Ok(fabric) => (fabric, Config::default().tier),
        Err(_) => (
            FabricKind::Model,
            network.parse::<Tier>().map_err(|error| error.to_string())?,
        ),
    };
    let seconds = seconds.parse().map_err(|error| format!("{seconds}: {error}"))?;
    let named = objects.iter().map(|name| {
        let mut names = name.split('/');
        let object = names.next().unwrap_or_default().parse::<Object>();
        let worlds: Vec<String> = names.map(str::to_owned).collect();
        object
            .map(|object| (object, worlds))
            .map_err(|error| error.to_string())
    });
    let mut objects = named.collect::<Result<Vec<_>, _>>()?;
    if objects.is_empty() {
        objects.extend(Object::ALL.map(|object| (object, Vec::new())));
    }
    let mut any = false;
    for (object, only) in objects {
        let ladder = Ladder {
            fabrics: vec![fabric],
            tier,
            only,
            ..Ladder::new(object, Duration::from_secs(seconds))
        };
        let report = ladder.run().map_err(|error| error.to_string())?;
        let complete = report
            .worlds
            .iter()
            .filter(|r| r.completeness == Completeness::Complete);
        let complete = complete.count();
        println!(
            "{object} on {network}: {complete} of {} complete, {:.1} s",
            report.worlds.len(),
            report.seconds
        );
        for named in &report.worlds {
            let stats = &named.stats;
            println!(
                "  {:26} {} ({} random, {} states, {:.1} s)",
                named.world, named.completeness, named.random, stats.states, stats.seconds
            );
        }
        if let Some(named) = report.failed() {
            any = true;
            let failure = named.failure.as_ref().map(ToString::to_string);
            println!("FAILED on {}\n{}", named.world, failure.unwrap_or_default());
        }
    }
    Ok(any)
}
