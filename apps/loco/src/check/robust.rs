//! `loco check --robust`: checks whether clients of an object see only what a strong memory would show them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use loco_app::{counted, print};
use loco_check::{Expected, Object, RobustCheck, RobustReport};
use loco_sim::{Completeness, Config, Strength, Tier};
use serde::Serialize;

use super::pictures::{self, Subject};
use super::{Args, INTERRUPTED, progress};
use crate::error::CliError;

/// Seconds for each object.
const SECONDS: u64 = 60;

/// Asks about each object that was named.
pub(super) fn run(args: &Args, cancel: &Arc<AtomicBool>) -> Result<u8, CliError> {
    let mut differs = false;
    for object in args.objects_or_all() {
        let check = RobustCheck {
            tier: args.tier(),
            only: args.world.clone(),
            progress: progress::printer(args.json),
            begins: progress::teller(args.json),
            cancel: Some(cancel.clone()),
            ..RobustCheck::new(object, Duration::from_secs(args.time.unwrap_or(SECONDS)))
        };
        let reports = check.run();
        progress::clear(&Config {
            progress: check.progress,
            ..Config::default()
        });
        let reports = reports.map_err(|error| CliError::Usage(error.to_string()))?;
        show(args, object, &reports)?;
        draw(args, &check, &reports)?;
        differs |= reports.iter().any(|report| report.as_expected() == Some(false));
        if progress::is_set(cancel) {
            return Ok(if differs { 1 } else { INTERRUPTED });
        }
    }
    Ok(u8::from(differs))
}

/// Writes pictures of the first execution that the checks found.
fn draw(args: &Args, check: &RobustCheck, reports: &[RobustReport]) -> Result<(), CliError> {
    if !args.wants_pictures() {
        return Ok(());
    }
    let shown = reports
        .iter()
        .find_map(|r| Some((r, r.found.strength.witness()?)));
    let Some((named, report, witness)) =
        shown.and_then(|(report, witness)| Some((check.world(report.world)?, report, witness)))
    else {
        pictures::nothing_to_draw(check.object.name());
        return Ok(());
    };
    let mut config = Config::default().tier(check.tier);
    named.configure(&mut config);
    let subject = Subject {
        name: report.world,
        schedule: Some(&witness.schedule),
        note: match &report.found.strength {
            Strength::Failed(failure) => failure.summary(),
            _ => "A strong memory has no execution in which the calls return this.\n".to_owned(),
        },
        verdict: film::Verdict::Violation,
    };
    pictures::write_world(args, &subject, &config, |world| named.build(world))
}

/// A line of `--json`: one object.
#[derive(Serialize)]
struct Line<'a> {
    object: Object,
    tier: Tier,
    as_documented: bool,
    worlds: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    world: &'a str,
    answer: &'static str,
    expected: Option<Expected>,
    as_documented: Option<bool>,
    why: Option<String>,
    strong_histories: usize,
    strong: &'a Completeness,
    model: &'a Completeness,
    history: Vec<String>,
    schedule: Option<String>,
    fewest_delays: Option<u32>,
    seconds: f64,
}

impl<'a> Entry<'a> {
    fn new(report: &'a RobustReport) -> Entry<'a> {
        let found = &report.found;
        let witness = found.strength.witness();
        Entry {
            world: report.world,
            answer: found.strength.name(),
            expected: report.expected,
            as_documented: report.as_expected(),
            why: match &found.strength {
                Strength::Unknown(why) => Some(why.clone()),
                Strength::Failed(failure) => Some(failure.to_string()),
                _ => None,
            },
            strong_histories: found.strong_histories,
            strong: &found.strong.completeness,
            model: &found.model.completeness,
            history: witness.map_or(Vec::new(), |w| {
                w.histories.iter().map(ToString::to_string).collect()
            }),
            schedule: witness.map(|w| w.schedule.to_string()),
            fewest_delays: found.fewest_delays,
            seconds: found.strong.stats.seconds + found.model.stats.seconds,
        }
    }
}

fn show(args: &Args, object: Object, reports: &[RobustReport]) -> Result<(), CliError> {
    if args.json {
        let line = Line {
            object,
            tier: args.tier(),
            as_documented: reports.iter().all(|report| report.as_expected() != Some(false)),
            worlds: reports.iter().map(Entry::new).collect(),
        };
        // The line has only strings, numbers and booleans, which always serialize.
        return Ok(print(serde_json::to_string(&line).unwrap_or_default())?);
    }
    print(format_args!(
        "{object}: {}, on tier {}, against a strong memory",
        counted(reports.len(), "world"),
        args.tier()
    ))?;
    for report in reports {
        let found = &report.found;
        let documented = match (report.expected, report.as_expected()) {
            (_, Some(false)) => ", NOT as documented",
            (Some(_), Some(true)) => ", as documented",
            _ => "",
        };
        print(format_args!(
            "  {:26} {}{documented} (histories of a strong memory: {}, {:.1} s)",
            report.world,
            found.strength.name(),
            found.strong_histories,
            found.strong.stats.seconds + found.model.stats.seconds
        ))?;
        match &found.strength {
            Strength::Unknown(why) => print(format_args!("    {why}"))?,
            Strength::Weak(witness) => {
                let shortest = found.fewest_delays.map_or_else(
                    || "whether one with fewer delays does is open".to_owned(),
                    |delays| format!("delays needed: {delays}; no execution with fewer shows one"),
                );
                print(format_args!(
                    "    no strong memory has this history, {shortest}:\n{witness}"
                ))?
            }
            Strength::Failed(failure) => print(format_args!("    FAILED\n{failure}"))?,
            Strength::Robust | Strength::NothingRecorded => {}
        }
    }
    Ok(())
}
