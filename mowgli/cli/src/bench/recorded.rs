//! The recorded set of `mowgli bench`: random programs of 3 to 6 threads that name themselves by their size and seed.
//!
//! [`mowgli::generate`] makes the same program of a size and a seed in every version, so that the figures of two versions can be
//! compared. The fingerprint of the programs' text says whether they are the same indeed.

use std::time::{Duration, Instant};

use mowgli::explore::{self, Options};
use mowgli::generate::{self, Shape};
use mowgli::litmus::{self, Dialect};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Search};
use mowgli::program::Program;
use mowgli::{check::Engine, declarative};
use serde::Serialize;

use crate::budget::Run;
use crate::progress;

/// The model under which the engines find all outcomes.
const MODEL: Model = Model::RdmaTso;

/// The engines that are timed. Each searches on one core.
const ENGINES: [Engine; 2] = [Engine::Declarative, Engine::Operational];

/// Programs of each size.
const PROGRAMS: usize = 4;

/// The sizes of the set: threads, and instructions of all threads together.
const SIZES: [(u8, u8); 10] = [
    (3, 9),
    (3, 15),
    (3, 21),
    (4, 12),
    (4, 20),
    (5, 15),
    (5, 20),
    (6, 12),
    (6, 18),
    (6, 24),
];

/// The result of a run of the set.
#[derive(Serialize)]
pub(crate) struct Recorded {
    model: Model,
    /// The fingerprint of the texts of all programs.
    fingerprint: String,
    /// The longest time of a search, in seconds: an engine that has not finished by then gives up.
    gives_up_after_s: f64,
    /// An entry for each size.
    pub(crate) sizes: Vec<Size>,
}

/// The programs of one size.
#[derive(Serialize)]
pub(crate) struct Size {
    threads: u8,
    instructions: u8,
    /// The seeds of the programs.
    seeds: Vec<u64>,
    /// An entry for each engine.
    engines: Vec<Times>,
    /// Programs on which both engines finished with different outcomes.
    pub(crate) differ: usize,
}

/// The times of an engine with the programs of one size.
#[derive(Serialize)]
struct Times {
    engine: Engine,
    /// Programs of which it found all outcomes.
    finished: usize,
    /// Programs at which it gave up.
    gave_up: usize,
    /// Seconds for each program, in the order of the seeds; of one at which it gave up, the time until then.
    times_s: Vec<f64>,
    /// States or candidate executions that it considered, for each program.
    states: Vec<u64>,
}

/// Returns the seeds and the programs of a size: the first seeds whose programs have exactly this size.
fn programs(threads: u8, instructions: u8) -> impl Iterator<Item = (u64, Program)> {
    let shape = Shape {
        nodes: 3,
        threads,
        instructions,
        ..Shape::SMALL
    };
    let is_of_size = move |program: &Program| {
        let count: usize = program.threads.iter().map(|t| t.code.len()).sum();
        program.threads.len() == usize::from(threads) && count == usize::from(instructions)
    };
    (0..)
        .map(move |seed| (seed, generate::program(seed, &shape)))
        .filter(move |(_, program)| is_of_size(program))
        .take(PROGRAMS)
}

/// Times both engines on every program of the set, each search for at most `most`, unless the run's limits say otherwise.
pub(crate) fn measure(run: &Run, most: Duration) -> Recorded {
    let bar = progress::bar(SIZES.len() * PROGRAMS * ENGINES.len());
    let mut text = String::new();
    let mut sizes = Vec::new();
    for (threads, instructions) in SIZES {
        bar.set_message(format!("{threads} threads, {instructions} instructions"));
        let (seeds, programs): (Vec<u64>, Vec<Program>) = programs(threads, instructions).unzip();
        text.extend(programs.iter().map(Dialect::text));
        let searches: Vec<[(f64, Search); 2]> = programs
            .iter()
            .map(|program| {
                ENGINES.map(|engine| {
                    let start = Instant::now();
                    let found = search(program, engine, &run.budget_within(most));
                    bar.inc(1);
                    (start.elapsed().as_secs_f64(), found)
                })
            })
            .collect();
        let disagree = |[(_, one), (_, other)]: &&[(f64, Search); 2]| {
            one.is_complete() && other.is_complete() && one.outcomes != other.outcomes
        };
        let times = |(at, engine): (usize, Engine)| {
            let finished = searches.iter().filter(|s| s[at].1.is_complete()).count();
            Times {
                engine,
                finished,
                gave_up: searches.len() - finished,
                times_s: searches.iter().map(|s| s[at].0).collect(),
                states: searches.iter().map(|s| s[at].1.states).collect(),
            }
        };
        sizes.push(Size {
            threads,
            instructions,
            seeds,
            engines: ENGINES.into_iter().enumerate().map(times).collect(),
            differ: searches.iter().filter(disagree).count(),
        });
    }
    bar.finish_and_clear();
    Recorded {
        model: MODEL,
        fingerprint: litmus::fingerprint_of(&text),
        gives_up_after_s: run.longest(most).as_secs_f64(),
        sizes,
    }
}

fn search(program: &Program, engine: Engine, budget: &Budget<'_>) -> Search {
    let atomicity = RmwAtomicity::Hca;
    match engine {
        Engine::Operational => {
            let options = Options {
                workers: 1,
                ..Options::new(MODEL, atomicity)
            };
            explore::outcomes_with(program, &options, budget)
        }
        _ => declarative::outcomes(program, MODEL, atomicity, budget),
    }
}

impl Recorded {
    /// Returns the set as a table: for each size and engine the programs it finished, and the median and the longest time of these.
    pub(crate) fn table(&self) -> String {
        let mut out = format!(
            "All outcomes under {}, {PROGRAMS} programs of each size; an engine gives up after {} (programs {}).\n",
            self.model,
            seconds(self.gives_up_after_s),
            &self.fingerprint[..8],
        );
        out.push_str("                          declarative                     operational\n");
        out.push_str(
            "threads  instructions     finished   median   longest     finished   median   longest\n",
        );
        for size in &self.sizes {
            out.push_str(&format!("{:>7}  {:>12}", size.threads, size.instructions));
            for times in &size.engines {
                let all = times.finished + times.gave_up;
                let mut sorted = times.times_s.clone();
                sorted.sort_by(f64::total_cmp);
                let shown = |at: usize| match times.gave_up {
                    // Those at which it gave up come last.
                    lost if at + lost >= all => "-".to_owned(),
                    _ => seconds(sorted[at]),
                };
                let (median, longest) = (shown(all.saturating_sub(1) / 2), shown(all.saturating_sub(1)));
                let finished = format!("{}/{all}", times.finished);
                out.push_str(&format!("     {finished:>8} {median:>8}  {longest:>8}"));
            }
            if size.differ > 0 {
                out.push_str("     THE ENGINES DIFFER");
            }
            out.push('\n');
        }
        out
    }
}

/// Writes a time in its unit, with about three digits.
pub(crate) fn seconds(time: f64) -> String {
    match time {
        t if t >= 1.0 => format!("{t:.2} s"),
        t if t >= 0.1 => format!("{:.0} ms", t * 1e3),
        t if t >= 1e-3 => format!("{:.1} ms", t * 1e3),
        t => format!("{:.0} us", t * 1e6),
    }
}
