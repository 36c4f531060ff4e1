//! `mowgli refine`: decides whether an implementation refines its specification, over all clients up to a
//! size.

mod report;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use mowgli::model::Tier;
use mowgli_libraries::client::{Client, Library};
use mowgli_libraries::enumerate::{Bounds, CALLS_MAX, NODES_MAX, OBJECTS_MAX, RandomClients, THREADS_MAX};
use mowgli_libraries::explain::{draw_events, explain_drawn};
use mowgli_libraries::implementations::list::{self, Named};
use mowgli_libraries::judge::ITERATIONS_MAX;
use mowgli_libraries::local::LocalSoundness;
use mowgli_libraries::outcome::Budget;
use mowgli_libraries::over_clients::{Judge, Summary, judge_batch, over_families};
use mowgli_libraries::refine::{Failure, Refinement};
use mowgli_libraries::text;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use report::Larger;

use crate::budget::{self, Limits, Run};
use crate::shard::{self, Shard};
use crate::stack::{Of, Stack};
use crate::{Error, Exit, clients, output, values};

/// Check that an implementation refines its specification
///
/// For every client up to the given size, each once up to symmetry and small ones first: are the outcomes under the
/// implementation among those that the specification allows (LOCO'26 Def. 3.10)? The first client for which they are not
/// is the smallest, and is printed with the implementation's execution. Larger clients are not judged: that it holds on all
/// of a size is no proof. With --local the question is Def. 3.13, for each
/// execution: is there an abstract one whose promises the implementation keeps? With --random clients are drawn.
///
/// The implementation may be a file in the language of docs/clients.md (`mowgli show I_SV.impl` prints one), and may stand on others:
/// I_RBL+I_SV+I_W is a ring buffer over shared variables over RDMA^WAIT over RDMA^TSO (LOCO'26 Fig. 1).
///
/// With --tier, both are over a network that orders less than the papers' (docs/ordering-models.md): docs/mowgli.md has a
/// table of what holds where, and of what mends the rest.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES\n  mowgli refine --list\n  mowgli refine I_SV\n  \
    mowgli refine I_BAL/no-fence\n  mowgli refine I_RBL/paper --local\n  mowgli refine I_MSW --random 10000 --calls 7\n  \
    mowgli refine I_RBL --calls 4 --with words\n  mowgli refine I_RBL --tier ooo-rw\n  mowgli refine mine.impl --of sv\n  mowgli refine I_RBL+I_SV+I_W --calls 3\n\n\
    EXIT STATUS\n  0  it refines on every client of the size\n  1  a client refutes it\n  2  wrong usage\n  \
    3  a limit was reached and nothing refuted")]
pub(crate) struct Args {
    /// The implementation: a name that `--list` has, a file *.impl, or several joined by +
    #[arg(required_unless_present = "list")]
    implementation: Option<String>,
    /// The specification: a library (sv, ring, ..), or spec, transitive-barrier, weak-ring, paper-ring. Default: that of the library
    #[arg(long, value_name = "SPECIFICATION")]
    of: Option<Of>,
    /// List the implementations, those with mistakes included
    #[arg(long, exclusive = true)]
    list: bool,
    /// Most calls of a client. Default: 4 or 5, enough to refute every known mistake of the library's implementations (4 with --local), and
    /// larger sizes while three seconds last
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<usize>(1..=CALLS_MAX as u64))]
    calls: Option<usize>,
    /// Most threads. Default: the two or three that show the implementation's faults
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<usize>(1..=THREADS_MAX as u64))]
    threads: Option<usize>,
    /// Most nodes. Default: the one or two that show the implementation's faults
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u8>(1..=NODES_MAX as u64))]
    nodes: Option<u8>,
    /// Most objects of each library, where the library's kind has no roles to tell
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = values::whole::<usize>(1..=OBJECTS_MAX as u64))]
    objects: usize,
    /// Let clients call the methods of this library too; may be given several times
    #[arg(long, value_name = "LIBRARY", value_parser = library, conflicts_with = "local")]
    with: Vec<Library>,
    /// The order that the network keeps: ibta, ooo-rw, ooo-all, pcie-relaxed, unordered
    #[arg(long, value_name = "TIER", default_value = "ibta")]
    tier: Tier,
    /// Decide local soundness instead of comparing outcomes
    #[arg(long)]
    local: bool,
    /// Draw so many clients with --calls calls each, instead of all up to it
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u64>(1..=u64::MAX))]
    random: Option<u64>,
    /// Seed of --random
    #[arg(long, value_name = "N", default_value = "1", requires = "random", allow_negative_numbers = true, value_parser = values::whole::<u64>(0..=u64::MAX))]
    seed: u64,
    #[arg(long, value_name = "I/N", default_value = "1/1", value_parser = shard::read, help = shard::HELP, long_help = shard::LONG_HELP)]
    shard: Shard,
    /// Draw the implementation's execution that refutes, as SVG, into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw the abstract execution that is missing, as SVG, into this file: with the cycle that forbids it, or for --local
    /// with the order that the implementation gives
    #[arg(long, value_name = "FILE")]
    svg_missing: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[arg(short, long, default_value = "total=10m", value_name = "LIMITS", help = budget::HELP, long_help = budget::LONG_HELP)]
    limit: Limits,
}

/// Reads the word for a library.
fn library(word: &str) -> Result<Library, String> {
    Library::by_word(word).ok_or_else(|| {
        let words = Library::ALL.map(Library::word).join(", ");
        format!("no library is called so; the libraries are {words}")
    })
}

/// Executions of the implementation that are judged for one client with --local.
const EXECUTIONS_MAX: u64 = 100_000;
/// Time for the explanation of a failure.
const EXPLANATION_TIME: Duration = Duration::from_secs(60);
/// Most calls of a client with --local, if nobody says otherwise.
const LOCAL_CALLS: usize = 4;
/// Time in which larger clients than those of the default size are judged, from the start.
const LARGER_TIME: Duration = Duration::from_secs(3);
/// Random clients that are drawn at a time.
const BATCH: u64 = 512;

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    if args.list {
        let texts = text::FILES.iter().filter_map(|(name, text)| {
            let text = text::parse(text).ok()?;
            Some(format!("{name:28} {}\n", text.description()?))
        });
        let lines = list::ALL.iter().map(|n| format!("{:28} {}\n", n.name, n.about));
        output::print(&lines.chain(texts).collect::<String>())?;
        return Ok(Exit::AsStated);
    }
    let name = args.implementation.as_deref().unwrap_or_default();
    let stack = Stack::load(name)?;
    let (whole, implementations) = (stack.name(), stack.implementations());
    let Some((top, below)) = implementations.split_first() else {
        return Err(Error::Usage("name an implementation".to_owned()));
    };
    if args.local && !below.is_empty() {
        return Err(Error::Usage(format!(
            "--local is about one implementation: ask about each of {whole}. If each holds, the whole is sound (LOCO'26 Theorem 3.14; for I_W, F.3)"
        )));
    }
    let setting = Of::setting(args.of, &stack)?;
    let built_in = stack.built_in().filter(|named| named.setting == setting);
    let named = &Named {
        name: &whole,
        about: stack.about(),
        implementation: *top,
        below,
        setting,
        refuted_with: built_in.and_then(|named| named.refuted_with),
    };
    let start = Instant::now();
    let mut families = families(named, args);
    let (summary, larger) = judged(named, &mut families, args, start);
    let mut report = report::of(named, args, &families, &summary, start.elapsed());
    report.larger = larger;
    if let (Some(failure), Some(refutation)) = (&summary.failure, &mut report.refuted_by) {
        refutation.missing = Some(missing(named, args, failure)?);
    }
    if let Some(failure) = &summary.local_failure {
        let drawings = [
            (
                &args.svg,
                Some(&failure.execution),
                named.name,
                "an execution that is not locally sound",
            ),
            (
                &args.svg_missing,
                failure.missing.as_ref(),
                named.setting.name(),
                "its calls, in the order that it gives",
            ),
        ];
        for (path, drawn, name, what) in drawings {
            if let (Some(path), Some(drawn)) = (path, drawn) {
                write(path, &drawn.svg(&format!("{name}: {what}")))?;
            }
        }
    }
    let refuted = report.refuted_by.is_some();
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.in_words())?;
    }
    Ok(
        match (
            refuted,
            summary.complete == summary.clients && summary.limit.is_none(),
        ) {
            (true, _) => Exit::Differs,
            (false, true) => Exit::AsStated,
            (false, false) => Exit::Unknown,
        },
    )
}

/// Returns the bounds of the clients that are asked about.
fn families(named: &Named<'_>, args: &Args) -> Vec<Bounds> {
    let calls = args.calls.unwrap_or_else(|| named.calls());
    // What somebody chose, and what is drawn, is one set of clients.
    let mut families = match (args.local, args.with.is_empty() && args.random.is_none()) {
        (true, _) => vec![named.local_bounds(args.calls.unwrap_or(LOCAL_CALLS))],
        (false, true) => named.families(calls),
        (false, false) => vec![named.bounds(calls)],
    };
    for bounds in &mut families {
        bounds.threads_max = args.threads.unwrap_or(bounds.threads_max);
        bounds.nodes_max = args.nodes.unwrap_or(bounds.nodes_max);
        bounds.objects_max = args.objects;
        for &library in &args.with {
            if !bounds.methods.is_empty() {
                bounds
                    .methods
                    .extend(library.methods().filter(|m| !m.is_strong()));
            }
            bounds.libraries.push(library);
        }
        bounds.libraries.sort_unstable();
        bounds.libraries.dedup();
    }
    families
}

/// Judges all clients within the bounds. Where nobody chose a size, judges larger ones while there is time: the bounds grow by the sizes
/// that were judged whole, and the rest is returned.
fn judged(
    named: &Named<'_>,
    families: &mut [Bounds],
    args: &Args,
    start: Instant,
) -> (Summary, Option<Larger>) {
    let implementation = named.implemented(ITERATIONS_MAX).on(args.tier);
    let specification = named.specified(ITERATIONS_MAX).on(args.tier);
    let refinement = Refinement {
        implementation: &implementation,
        specification: &specification,
    };
    let of_library = specification.libraries.get(named.implementation.library());
    let local = of_library.map(|specification| LocalSoundness {
        implementation: named.implementation,
        specification,
        rules: &implementation,
        executions_max: EXECUTIONS_MAX,
    });
    let judge: &dyn Judge = match (&local, args.local) {
        (Some(local), true) => local,
        _ => &refinement,
    };
    let run = Run::start(args.limit);
    let budget = run.budget();
    let progress = AtomicU64::new(0);
    let bar = ProgressBar::no_length().with_style(
        ProgressStyle::with_template("{spinner} {msg} clients, {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    let mut larger = None;
    // indicatif draws only on terminals.
    let mut summary = std::thread::scope(|scope| {
        let (done, finished) = std::sync::mpsc::channel::<()>();
        let (bar, progress) = (&bar, &progress);
        scope.spawn(move || {
            // The loop ends when the work is done and the sender is dropped.
            while finished.recv_timeout(Duration::from_millis(200))
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                bar.set_message(progress.load(Ordering::Relaxed).to_string());
                bar.tick();
            }
            bar.finish_and_clear();
        });
        let mut summary = match args.random {
            None => over_families(judge, families, args.shard, budget, progress),
            Some(count) => {
                let mut random = SmallRng::seed_from_u64(args.seed);
                let stop = || budget.exceeded(0).is_some();
                let clients = RandomClients::until(&families[0], &stop);
                let mut summary = Summary {
                    limit: budget.exceeded(0),
                    ..Summary::default()
                };
                let mut drawn = 0;
                while let Some(clients) = &clients
                    && drawn < count
                {
                    let n = (count - drawn).min(BATCH);
                    // Every share draws all clients, so that the shares are those of one list.
                    let batch: Vec<Client> = (drawn..drawn + n)
                        .map(|number| (number, clients.draw(&mut |n| random.random_range(0..n))))
                        .filter(|&(number, _)| args.shard.has(number as usize))
                        .map(|(_, client)| client)
                        .collect();
                    drawn += n;
                    if judge_batch(judge, &batch, budget, progress, &mut summary)
                        == mowgli_libraries::execution::Flow::Stop
                    {
                        break;
                    }
                }
                summary
            }
        };
        if args.calls.is_none() && args.random.is_none() && args.shard == Shard::WHOLE {
            larger = judge_larger(judge, families, budget, start, progress, &mut summary);
        }
        drop(done);
        summary
    });
    // A random client is not the smallest.
    if args.random.is_some()
        && let Some(failure) = summary.failure.take()
    {
        summary.failure = Some(Box::new(refinement.shrink(*failure, budget)));
    }
    (summary, larger)
}

/// Judges clients of one more call, and of another, until [`LARGER_TIME`] has passed since the start. The bounds grow by the sizes that
/// were judged whole; returns what was judged of the next.
fn judge_larger(
    judge: &dyn Judge,
    families: &mut [Bounds],
    budget: Budget<'_>,
    start: Instant,
    progress: &AtomicU64,
    summary: &mut Summary,
) -> Option<Larger> {
    let end = start + LARGER_TIME;
    let within = Budget {
        deadline: budget.deadline.into_iter().chain([end]).min(),
        ..budget
    };
    let is_open = |s: &Summary| s.failure.is_none() && s.local_failure.is_none() && s.limit.is_none();
    while is_open(summary) && Instant::now() < end {
        let calls = families.iter().map(|f| f.calls_max).max()? + 1;
        if calls > CALLS_MAX {
            return None;
        }
        let next: Vec<Bounds> = families.iter().map(|f| f.with_calls(calls)).collect();
        let more = over_families(judge, &next, Shard::WHOLE, within, progress);
        summary.clients += more.clients;
        summary.complete += more.complete;
        let is_whole = is_open(&more) && more.complete == more.clients;
        let has_failed = more.failure.is_some() || more.local_failure.is_some();
        if !is_whole && !has_failed {
            // Those that were not judged completely are no part of the answer.
            summary.clients -= more.clients - more.complete;
            return Some(Larger {
                calls,
                clients: more.complete,
            });
        }
        summary.failure = more.failure;
        summary.local_failure = more.local_failure;
        for family in families.iter_mut() {
            family.calls_max = calls;
            family.calls_each_max = family.calls_each_max.max(calls);
        }
        // No client is as large: none is larger.
        if more.clients == 0 {
            return None;
        }
    }
    None
}

/// Says why the abstract execution of a failure is missing, and writes the drawings that were asked for.
fn missing(named: &Named<'_>, args: &Args, failure: &Failure) -> Result<String, Error> {
    let client = &failure.client;
    let budget = Budget {
        deadline: Instant::now().checked_add(EXPLANATION_TIME),
        ..Budget::default()
    };
    if let Some(path) = &args.svg {
        let rules = named.implemented(ITERATIONS_MAX).on(args.tier);
        let drawn = draw_events(client, &rules, &failure.events, &failure.outcome, budget);
        if let Ok(Some(drawn)) = drawn {
            write(
                path,
                &drawn.svg(&format!("{}: {}", named.name, failure.outcome.display(client))),
            )?;
        }
    }
    let rules = named.specified(ITERATIONS_MAX).on(args.tier);
    match explain_drawn(client, &rules, &failure.outcome.formula(client), budget) {
        Err(limit) => Ok(format!("Not explained: {}.\n", limit.advice())),
        Ok((reason, drawn)) => {
            if let Some(path) = &args.svg_missing {
                let title = format!("{}: {}", named.setting, failure.outcome.display(client));
                // Where no run of the threads ends so, there is nothing to draw.
                let drawn = drawn.unwrap_or_default();
                write(path, &drawn.svg(&title))?;
            }
            Ok(clients::text(&reason))
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|source| Error::Write {
        path: path.display().to_string(),
        source,
    })
}
