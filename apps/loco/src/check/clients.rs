//! `loco check --client` and `--clients`: clients of libraries on the shipped objects, against the specifications.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use loco_app::{OutputError, complain, counted, print};
use loco_check::Object;
use loco_check::clients::{
    Campaign, Checked, Clients, Effort, Form, Size, Summary, again, check, describe, film, graph, library,
    promised,
};
use loco_sim::{Completeness, Failure, Schedule, Stats, Strategy};
use mowgli_libraries::catalogue;
use mowgli_libraries::client::{Client, Library, Setting, parse};
use mowgli_libraries::judge;
use mowgli_libraries::outcome::Budget;
use serde::Serialize;

use super::pictures::{self, Subject};
use super::{Args, INTERRUPTED, UNKNOWN, progress};
use crate::error::CliError;

/// The seconds for the clients of each object, or for one client.
const SECONDS: u64 = 60;
/// The number of random schedules of a client that has too many for all of them.
const SAMPLES: u64 = 300;
/// The depth of these schedules.
const DEPTH: u32 = 4;
/// The time between two lines of progress.
const TICK: Duration = Duration::from_millis(200);

/// Options about clients.
#[derive(clap::Args)]
pub(super) struct ClientArgs {
    /// Run this client of libraries (docs/clients.md) on the shipped objects: a file, or the name of a built-in client.
    /// OBJECT then says which lock or owned variable is meant. May be given several times
    #[arg(long, value_name = "FILE", conflicts_with_all = super::SIZED, conflicts_with_all = ["world", "worlds"])]
    pub(super) client: Vec<String>,
    /// Run every client of OBJECT of this size, once up to symmetry: parts such as threads<=3,calls<=2,nodes<=2,with=sv
    #[arg(long, value_name = "SIZE", conflicts_with_all = super::SIZED, conflicts_with_all = ["world", "worlds", "replay", "client"])]
    pub(super) clients: Option<Size>,
    /// With --clients: draw N at random, of the whole size, with --seed
    #[arg(long, value_name = "N", requires = "clients", value_parser = loco_app::number::<u64>(1..=1_000_000_000_000))]
    random: Option<u64>,
    /// With --clients: states of one client after which it is explored by random schedules instead of all
    #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = loco_app::number::<u64>(1..=1_000_000_000_000))]
    states: u64,
    /// With --clients: random schedules of a client with more states
    #[arg(long, value_name = "N", requires = "clients", default_value_t = SAMPLES, value_parser = loco_app::number::<u64>(1..=1_000_000_000))]
    samples: u64,
    /// With --clients: write the client that fails into this file
    #[arg(long, value_name = "FILE", requires = "clients")]
    keep: Option<PathBuf>,
}

impl ClientArgs {
    /// Returns true if the command asks for clients.
    pub(super) fn is_asked(&self) -> bool {
        !self.client.is_empty() || self.clients.is_some()
    }
}

/// Runs the clients that were asked for.
pub(super) fn run(args: &Args, cancel: &Arc<AtomicBool>) -> Result<u8, CliError> {
    match &args.clients.clients {
        Some(size) => campaigns(args, size, cancel),
        None => each_client(args, cancel),
    }
}

fn campaigns(args: &Args, size: &Size, cancel: &Arc<AtomicBool>) -> Result<u8, CliError> {
    if let Some(object) = args.object().filter(|&object| library(object).is_none()) {
        return Err(CliError::Usage(format!(
            "--clients: no specification says what clients of `{object}` may see: it has a ladder only"
        )));
    }
    let objects = args
        .objects_or_all()
        .into_iter()
        .filter(|&object| library(object).is_some());
    let mut all = Some(true);
    for object in args.share(objects.collect()) {
        let campaign = Campaign {
            clients: Clients::new(object, size),
            random: args.clients.random.map(|count| (count, args.seed)),
            forms: Form::of(object),
            tier: args.tier,
            time: Duration::from_secs(args.time.unwrap_or(SECONDS)),
            states_each: args.clients.states,
            otherwise: Some(Strategy::Pct {
                executions: args.clients.samples,
                seed: args.seed,
                depth: DEPTH,
            }),
            workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            progress: Arc::new(AtomicU64::new(0)),
            cancel: cancel.clone(),
        };
        if progress::is_in_lines(args.json) {
            print(format_args!("{object}: exploring clients"))?;
        }
        let summary = with_progress(args.json, object, &campaign.progress, || campaign.run())
            .map_err(|error| CliError::Usage(error.to_string()))?;
        show(args, object, &summary)?;
        all = both(all, summary.passed());
        if let Some(failed) = &summary.failed {
            draw(args, &failed.client, failed.form, Some(&failed.failure))?;
            if let Some(path) = &args.clients.keep {
                std::fs::write(path, failed.client.print())
                    .map_err(CliError::os("cannot write the client"))?;
            }
        }
        if progress::is_set(cancel) {
            return Ok(if all == Some(false) { 1 } else { INTERRUPTED });
        }
    }
    Ok(status(all))
}

/// Returns whether both passed; nothing if none failed and one is unknown.
fn both(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// Returns the exit status.
fn status(passed: Option<bool>) -> u8 {
    match passed {
        Some(true) => 0,
        Some(false) => 1,
        None => UNKNOWN,
    }
}

/// Runs `work` and reports how many clients it has counted meanwhile.
fn with_progress<T: Send>(json: bool, object: Object, count: &AtomicU64, work: impl FnOnce() -> T) -> T {
    if progress::printer(json).is_none() {
        return work();
    }
    std::thread::scope(|scope| {
        let (done, finished) = channel::<()>();
        scope.spawn(move || {
            let begun = Instant::now();
            // Ends when the work is done and the sender dropped.
            while finished.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                // Relaxed: a counter that is shown to a person.
                let clients = count.load(Ordering::Relaxed);
                let seconds = begun.elapsed().as_secs();
                progress::tell(format_args!(
                    "{object}: {}, {seconds} s",
                    counted(clients, "client")
                ));
            }
            progress::tell(format_args!(""));
        });
        let result = work();
        drop(done);
        result
    })
}

/// A line of `--json` about the clients of an object.
#[derive(Serialize)]
struct CampaignLine<'a> {
    object: Object,
    passed: Option<bool>,
    clients: u64,
    complete: u64,
    random_schedules: u64,
    blocked: u64,
    unknown: u64,
    outcomes_allowed: u64,
    outcomes_seen: u64,
    unfinished: bool,
    stats: &'a Stats,
    seconds: f64,
    failed_client: Option<String>,
    failure: Option<String>,
    schedule: Option<String>,
}

fn show(args: &Args, object: Object, summary: &Summary) -> Result<(), OutputError> {
    let failed = summary.failed.as_ref();
    if args.json {
        let line = CampaignLine {
            object,
            passed: summary.passed(),
            clients: summary.clients,
            complete: summary.complete,
            random_schedules: summary.otherwise,
            blocked: summary.blocked,
            unknown: summary.unknown,
            outcomes_allowed: summary.allowed,
            outcomes_seen: summary.seen,
            unfinished: summary.unfinished,
            stats: &summary.stats,
            seconds: summary.seconds,
            failed_client: failed.map(|failed| failed.client.print()),
            failure: failed.map(|failed| failed.failure.to_string()),
            schedule: failed.map(|failed| failed.failure.schedule.to_string()),
        };
        // Strings, numbers and booleans only, which always serialize.
        return print(serde_json::to_string(&line).unwrap_or_default());
    }
    let Summary {
        clients,
        complete,
        otherwise,
        seconds,
        ..
    } = summary;
    let samples = args.clients.samples;
    let mut line = format!(
        "{object}: {}, {complete} of them completely",
        counted(*clients, "client")
    );
    if *otherwise > 0 {
        line.push_str(&format!(
            ", {otherwise} by {}",
            counted(samples, "random schedule")
        ));
    }
    print(format_args!("{line}, {seconds:.1} s"))?;
    print(format_args!(
        "  {} of the {} outcomes that the specifications allow were seen; {}, {:.0} clients a second",
        summary.seen,
        summary.allowed,
        counted(summary.stats.states, "state"),
        *clients as f64 / seconds.max(1e-9),
    ))?;
    if summary.blocked > 0 {
        print(format_args!(
            "  {} more have no execution by their specification",
            summary.blocked
        ))?;
    }
    if summary.unknown > 0 {
        print(format_args!(
            "  {} more were not run: listing what their specification allows takes too long",
            summary.unknown
        ))?;
    }
    match failed {
        None if summary.unfinished => print(
            "unknown: no failure found, but the time was over before all clients were run; give it more with --time",
        ),
        None if summary.unknown > 0 => print(
            "unknown: no failure found, but not all clients were run; ask for smaller ones with --clients",
        ),
        None if *otherwise > 0 => print("no failure found; not every execution of all clients was explored"),
        None => print("ok: no execution shows more than the specifications allow"),
        Some(failed) => {
            let about = failed.form.about();
            let on = if about.is_empty() {
                about
            } else {
                format!(", on {about}")
            };
            print(format_args!("FAILED by client {}{on}", failed.number))?;
            print(describe(&failed.client, &failed.failure))?;
            print(format_args!(
                "again, with the client in a file: loco check {object} --client FILE --replay '{}'",
                failed.failure.schedule
            ))
        }
    }
}

/// A line of `--json` about one client.
#[derive(Serialize)]
struct ClientLine<'a> {
    client: &'a str,
    form: String,
    passed: Option<bool>,
    completeness: String,
    outcomes: Vec<String>,
    verdicts: Vec<VerdictLine>,
    stats: &'a Stats,
    failure: Option<String>,
    schedule: Option<String>,
}

#[derive(Serialize)]
struct VerdictLine {
    query: String,
    condition: String,
    /// `allowed`, `forbidden`, `required` or `unknown`.
    verdict: String,
    stated: Option<String>,
}

fn each_client(args: &Args, cancel: &Arc<AtomicBool>) -> Result<u8, CliError> {
    let mut all = Some(true);
    for name in &args.clients.client {
        let client = load(name)?;
        for form in forms(args, &client) {
            if progress::is_in_lines(args.json) {
                print(format_args!("{name}: exploring {}", form.about()))?;
            }
            let allowed = promised(&client, args.tier, Budget::default());
            if !allowed.is_complete() {
                complain(format_args!(
                    "loco: {name}: the specifications allow more executions than are considered; outcomes are listed, not compared"
                ));
            }
            let compared = allowed.is_complete().then_some(&allowed.outcomes);
            let effort = Effort {
                workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
                time_max: Some(Duration::from_secs(args.time.unwrap_or(SECONDS))),
                cancel: Some(cancel.clone()),
                tier: args.tier,
                ..Effort::default()
            };
            let checked = match &args.replay {
                Some(schedule) => again(&client, form, compared, &effort, schedule),
                None => check(&client, form, compared, &effort),
            };
            let checked = checked.map_err(|error| CliError::Usage(format!("{name}: {error}")))?;
            let is_compared = compared.is_some();
            all = both(
                all,
                show_client(args, name, &client, form, &checked, is_compared)?,
            );
            draw(args, &client, form, checked.report.failure.as_ref())?;
            if progress::is_set(cancel) {
                return Ok(if all == Some(false) { 1 } else { INTERRUPTED });
            }
        }
    }
    Ok(status(all))
}

/// Writes the pictures of an execution that the options ask for.
fn draw(args: &Args, client: &Client, form: Form, failure: Option<&Failure>) -> Result<(), CliError> {
    let name = match form.about() {
        about if about.is_empty() => client.name.clone(),
        about => format!("{} on {about}", client.name),
    };
    let subject = Subject::of(&name, failure, args.replay.as_ref());
    let effort = Effort::default();
    let graph = |schedule: &Schedule| graph(client, form, &effort, schedule);
    pictures::write(args, &subject, graph, |schedule| {
        film(client, form, &effort, schedule)
    })
}

/// Returns the objects that a client runs on: those of the named object, or the usual ones, with ring buffers in both
/// configurations.
fn forms(args: &Args, client: &Client) -> Vec<Form> {
    match args.object() {
        Some(object) => Form::of(object),
        None if client.libraries().contains(&Library::RingBuffer) => Form::of(Object::RingBuffer),
        None => vec![Form::default()],
    }
}

/// Returns the client of a file or of the catalogue.
fn load(name: &str) -> Result<Client, CliError> {
    let text = match catalogue::find(name) {
        Some(text) => text.to_owned(),
        None => loco_litmus::read_text(Path::new(name)).map_err(|error| {
            CliError::Usage(format!(
                "--client {name}: {error}; it is no built-in client either, which `litmus/clients` lists"
            ))
        })?,
    };
    match parse(&text) {
        Ok(parsed) if parsed.client.polls() => Err(CliError::Usage(format!(
            "{name} polls, which no shipped object does: give its operations an identifier, and wait for that"
        ))),
        Ok(parsed) => Ok(parsed.client),
        Err(error) => Err(CliError::Usage(format!("{name}: {error}"))),
    }
}

/// Shows the outcomes of a client, which were compared with those of the specifications or not. Returns false if it failed or a verdict
/// is not as the client states it for the shipped objects, and nothing if a limit left one of these open.
fn show_client(
    args: &Args,
    name: &str,
    client: &Client,
    form: Form,
    checked: &Checked,
    is_compared: bool,
) -> Result<Option<bool>, OutputError> {
    let outcomes = checked.as_outcomes();
    // A replayed schedule is one execution, of which no verdict follows.
    let is_explored = checked.report.completeness == Completeness::Complete && is_compared;
    let mut passed = match checked.report.failure {
        Some(_) => Some(false),
        None => (is_explored || args.replay.is_some()).then_some(true),
    };
    let verdicts: Vec<VerdictLine> = client
        .queries
        .iter()
        .enumerate()
        .map(|(at, query)| {
            let verdict = judge::verdict(client, &query.condition.formula, &outcomes);
            let stated = query.expected.get(&Setting::Shipped);
            if let (true, Some(&stated)) = (args.replay.is_none(), stated) {
                passed = both(passed, verdict.map(|verdict| judge::agrees(stated, verdict)));
            }
            VerdictLine {
                query: client.query_name(at),
                condition: client.formula(&query.condition.formula),
                verdict: verdict.map_or_else(|| "unknown".to_owned(), |verdict| verdict.to_string()),
                stated: stated.map(ToString::to_string),
            }
        })
        .collect();
    let failure = checked.report.failure.as_ref();
    let schedule: Option<&Schedule> = failure.map(|failure| &failure.schedule);
    if args.json {
        let line = ClientLine {
            client: &client.name,
            form: form.about(),
            passed,
            completeness: checked.report.completeness.to_string(),
            outcomes: checked.outcomes.iter().map(|o| o.display(client)).collect(),
            verdicts,
            stats: &checked.report.stats,
            failure: failure.map(ToString::to_string),
            schedule: schedule.map(ToString::to_string),
        };
        // Strings, numbers and booleans only, which always serialize.
        print(serde_json::to_string(&line).unwrap_or_default())?;
        return Ok(passed);
    }
    let about = form.about();
    if !about.is_empty() {
        print(format_args!("On {about}:"))?;
    }
    print(judge::report(client, Setting::Shipped, &outcomes).trim_end())?;
    match failure {
        Some(failure) => {
            print(format_args!("FAILED\n{failure}"))?;
            print(format_args!(
                "again: loco check{} --client {name} --replay '{}'",
                args.object()
                    .map(|object| format!(" {object}"))
                    .unwrap_or_default(),
                failure.schedule
            ))?;
        }
        None => print(format_args!(
            "{}: {} ({}, {:.2} s)\n",
            match passed {
                Some(true) => "ok",
                Some(false) => "not as stated",
                None => "unknown",
            },
            checked.report.completeness,
            counted(checked.report.stats.states, "state"),
            checked.report.stats.seconds
        ))?,
    }
    Ok(passed)
}
