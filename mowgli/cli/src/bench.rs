//! `mowgli bench`: measures the engines on this machine.

mod recorded;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mowgli::cat::ModelFile;
use mowgli::check::{self, Engine, settings};
use mowgli::explore::{self, Options};
use mowgli::litmus::{Litmus, Setting, parse};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::{catalogue, declarative};
use serde::Serialize;

use crate::budget::{self, Limits, Run};
use crate::choice::{Loaded, Under};
use crate::{Error, Exit, output, values};
use recorded::{Recorded, seconds};

/// Measure the engines
///
/// Measures each engine on a recorded set of programs of 3 to 6 threads, with where it gives up; the whole catalogue under all models
/// by each engine and by model files; the machine's states per second; and the declarative engine on programs of 3 threads with 5
/// instructions each: four remote instructions in all, and four (a poll among them) in each thread. All on one core. Of all but the
/// recorded set each figure is the best of --repeat runs. Takes less than a minute.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "EXAMPLES\n  mowgli bench\n  mowgli bench --json --repeat 10 | jq .machine.states_per_s"
)]
pub(crate) struct Args {
    /// Runs of each measurement but those of the recorded set; the best counts
    #[arg(long, value_name = "N", default_value = "3", allow_negative_numbers = true, value_parser = values::whole::<u32>(1..=1000))]
    repeat: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Limits, as in time=10s,total=10m; the time of a search is 500ms in the recorded set and 60s elsewhere unless it is given
    #[arg(short, long, value_name = "LIMITS", long_help = budget::LONG_HELP)]
    limit: Option<Limits>,
}

/// The longest time of a search in the recorded set.
const RECORDED_TIME: Duration = Duration::from_millis(500);

/// The longest time of any other search.
const SEARCH_TIME: Duration = Duration::from_secs(60);

/// Three threads with five instructions each, four of them remote.
const THREE_BY_FIVE: &str = "\
RDMA bench-3x5
{ x@1=0; a@1=0; y@2=0; b@2=0; z@3=0; }
P0@1     | P1@2     | P2@3     ;
x := 1   | y := 1   | z := 1   ;
y^2 := x | z^3 := y | r := z   ;
a := z^3 | b := x^1 | z := 2   ;
r := a   | r := b   | s := z   ;
x := 2   | s := y   | t := z   ;
exists (true)
";

/// Three threads with five instructions each, four of them remote in every thread.
const THREE_BY_FIVE_REMOTE: &str = "\
RDMA bench-3x5-remote
{ x@1=0; a@1=0; y@2=0; b@2=0; z@3=0; c@3=0; }
P0@1     | P1@2     | P2@3     ;
x := 1   | y := 1   | z := 1   ;
y^2 := x | z^3 := y | x^1 := z ;
a := z^3 | b := x^1 | c := y^2 ;
poll(2)  | poll(3)  | poll(1)  ;
z^3 := a | x^1 := b | y^2 := c ;
exists (true)
";

/// A program whose machine has many states: two threads with puts and gets that nothing orders.
const MANY_STATES: &str = "\
RDMA bench-states
{ x@1=0; a@1=0; b@1=0; y@2=0; c@2=0; d@2=0; z@3=0; w@3=0; }
P0@1     | P1@2     | P2@3   ;
y^2 := x | x^1 := y | r := z ;
a := z^3 | c := w^3 | w := 1 ;
z^3 := a | w^3 := c | s := w ;
b := y^2 | d := x^1 | z := 1 ;
x := 1   | y := 1   | t := w ;
y^2 := b | x^1 := d | w := 2 ;
a := z^3 | c := w^3 |        ;
exists (true)
";

#[derive(Serialize)]
struct Report {
    version: u32,
    cores: usize,
    catalogue: Vec<CatalogueTime>,
    catalogue_by_files: CatalogueTime,
    machine: MachineSpeed,
    declarative_3x5: DeclarativeTime,
    declarative_3x5_remote: DeclarativeTime,
    recorded: Recorded,
}

#[derive(Serialize)]
struct CatalogueTime {
    engine: Engine,
    tests: usize,
    searches: usize,
    complete: bool,
    time_s: f64,
}

#[derive(Serialize)]
struct MachineSpeed {
    model: Model,
    states: u64,
    complete: bool,
    time_s: f64,
    states_per_s: f64,
}

#[derive(Serialize)]
struct DeclarativeTime {
    model: Model,
    outcomes: usize,
    complete: bool,
    time_s: f64,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let run = Run::start(args.limit.unwrap_or_default());
    let report = Report {
        version: 1,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        catalogue: vec![
            catalogue_time(args, &run, Engine::Declarative)?,
            catalogue_time(args, &run, Engine::Operational)?,
        ],
        catalogue_by_files: catalogue_time_by_files(args, &run)?,
        machine: machine_speed(args, &run)?,
        declarative_3x5: declarative_time(args, &run, THREE_BY_FIVE)?,
        declarative_3x5_remote: declarative_time(args, &run, THREE_BY_FIVE_REMOTE)?,
        recorded: recorded::measure(&run, RECORDED_TIME),
    };
    match args.json {
        true => output::print_json(&report)?,
        false => output::print(&report.table())?,
    }
    let differ = report.recorded.sizes.iter().any(|size| size.differ > 0);
    Ok(match run.stopped() {
        Some(_) => Exit::Unknown,
        None if differ => Exit::Differs,
        None => Exit::AsStated,
    })
}

impl Report {
    /// Returns the report as text.
    fn table(&self) -> String {
        let mut out = self.recorded.table();
        out.push('\n');
        let mut line = |what: &str, time: f64, complete: bool, more: String| {
            let limited = if complete { "" } else { ", stopped by a limit" };
            out.push_str(&format!("{:>9}  {what}{more}{limited}\n", seconds(time)));
        };
        let files = std::iter::once((" by model files", &self.catalogue_by_files));
        let engines = self.catalogue.iter().map(|time| ("", time));
        for (by, time) in engines.chain(files) {
            let what = format!("catalogue under all models, {}{by}", time.engine);
            let searches = format!(" ({} searches)", time.searches);
            line(&what, time.time_s, time.complete, searches);
        }
        let machine = &self.machine;
        let speed = format!(
            " ({} states, {:.0} a second)",
            machine.states, machine.states_per_s
        );
        line("machine", machine.time_s, machine.complete, speed);
        for (what, time) in [
            ("declarative, 3 threads of 5, 4 remote", &self.declarative_3x5),
            (
                "declarative, 3 threads of 5, 12 remote",
                &self.declarative_3x5_remote,
            ),
        ] {
            let outcomes = format!(" ({} outcomes)", time.outcomes);
            line(what, time.time_s, time.complete, outcomes);
        }
        out
    }
}

/// Returns the best time of several runs and the last result.
fn best<T>(args: &Args, mut f: impl FnMut() -> T) -> (f64, T) {
    let timed = |f: &mut dyn FnMut() -> T| {
        let start = Instant::now();
        let result = f();
        (start.elapsed().as_secs_f64(), result)
    };
    let mut last = timed(&mut f);
    for _ in 1..args.repeat {
        let next = timed(&mut f);
        last = (last.0.min(next.0), next.1);
    }
    last
}

fn test(source: &str) -> Result<Litmus, Error> {
    parse(source)
        .map(|p| p.litmus)
        .map_err(|e| Error::Usage(e.to_string()))
}

fn catalogue_time(args: &Args, run: &Run, engine: Engine) -> Result<CatalogueTime, Error> {
    let tests: Vec<Litmus> = catalogue::entries()
        .iter()
        .map(|e| test(e.source))
        .collect::<Result<_, _>>()?;
    let jobs: Vec<(&Litmus, Setting)> = tests
        .iter()
        .flat_map(|t| settings(&t.program).into_iter().map(move |s| (t, s)))
        .collect();
    let (time_s, complete) = best(args, || {
        let search = |(t, s): &(&Litmus, Setting)| match engine {
            Engine::Operational => {
                let options = Options {
                    workers: 1,
                    ..Options::new(s.model, s.rmw)
                };
                explore::outcomes_with(&t.program, &options, &run.budget_within(SEARCH_TIME)).is_complete()
            }
            _ => check::decide(t, *s, engine, &run.budget_within(SEARCH_TIME))
                .is_ok_and(|a| a.search.is_complete()),
        };
        jobs.iter().filter(|job| !search(job)).count() == 0
    });
    Ok(CatalogueTime {
        engine,
        tests: tests.len(),
        searches: jobs.len(),
        complete,
        time_s,
    })
}

/// Measures the catalogue with the model files that define the built-in models, read beforehand.
fn catalogue_time_by_files(args: &Args, run: &Run) -> Result<CatalogueTime, Error> {
    let files: BTreeMap<Model, Arc<ModelFile>> = Model::ALL
        .into_iter()
        .map(|m| (m, Arc::new(ModelFile::of(m))))
        .collect();
    let tests: Vec<Litmus> = catalogue::entries()
        .iter()
        .map(|e| test(e.source))
        .collect::<Result<_, _>>()?;
    let under = |s: Setting| Under {
        model: Loaded::File(files[&s.model].clone()),
        rmw: s.rmw,
    };
    let jobs: Vec<(&Litmus, Under)> = tests
        .iter()
        .flat_map(|t| settings(&t.program).into_iter().map(move |s| (t, under(s))))
        .collect();
    let engine = Engine::Declarative;
    let (time_s, complete) = best(args, || {
        let search = |(t, under): &(&Litmus, Under)| {
            let answer = under.decide(t, engine, &run.budget_within(SEARCH_TIME));
            answer.is_ok_and(|a| a.search.is_complete())
        };
        jobs.iter().filter(|job| !search(job)).count() == 0
    });
    Ok(CatalogueTime {
        engine,
        tests: tests.len(),
        searches: jobs.len(),
        complete,
        time_s,
    })
}

fn machine_speed(args: &Args, run: &Run) -> Result<MachineSpeed, Error> {
    let litmus = test(MANY_STATES)?;
    let model = Model::RdmaTso;
    let options = Options {
        workers: 1,
        ..Options::new(model, RmwAtomicity::Hca)
    };
    let (time_s, search) = best(args, || {
        explore::outcomes_with(&litmus.program, &options, &run.budget_within(SEARCH_TIME))
    });
    Ok(MachineSpeed {
        model,
        states: search.states,
        complete: search.is_complete(),
        time_s,
        states_per_s: search.states as f64 / time_s,
    })
}

fn declarative_time(args: &Args, run: &Run, source: &str) -> Result<DeclarativeTime, Error> {
    let litmus = test(source)?;
    let model = Model::RdmaTso;
    let (time_s, search) = best(args, || {
        declarative::outcomes(
            &litmus.program,
            model,
            RmwAtomicity::Hca,
            &run.budget_within(SEARCH_TIME),
        )
    });
    Ok(DeclarativeTime {
        model,
        outcomes: search.outcomes.len(),
        complete: search.is_complete(),
        time_s,
    })
}
