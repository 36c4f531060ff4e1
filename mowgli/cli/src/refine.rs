//! `mowgli refine`: decides whether an implementation refines its specification, over all clients up to a
//! size.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use mowgli::counted::counted;
use mowgli::model::Tier;
use mowgli::outcome::Limit;
use mowgli_libraries::client::{Client, Library, Method};
use mowgli_libraries::enumerate::{Bounds, CALLS_MAX, NODES_MAX, OBJECTS_MAX, RandomClients, THREADS_MAX};
use mowgli_libraries::explain::{draw_events, explain_drawn, implementation_execution};
use mowgli_libraries::implementations::list::{self, Named};
use mowgli_libraries::judge::ITERATIONS_MAX;
use mowgli_libraries::local::LocalSoundness;
use mowgli_libraries::outcome::Budget;
use mowgli_libraries::over_clients::{Judge, Summary, judge_batch, over_share};
use mowgli_libraries::refine::{Failure, Refinement};
use mowgli_libraries::text;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

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
    /// Most calls of a client. Default: 4 or 5, enough to refute every known mistake of the library's implementations; 4 with --local
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
/// Random clients that are drawn at a time.
const BATCH: u64 = 512;

/// The result, as JSON.
#[derive(Debug, Serialize)]
struct Report {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    /// The fingerprint of what was asked, in a share only.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    implementation: String,
    specification: &'static str,
    tier: &'static str,
    question: &'static str,
    bounds: Covered,
    clients: u64,
    complete: u64,
    seconds: f64,
    limit: Option<String>,
    refuted_by: Option<Refutation>,
}

/// The clients that were asked about.
#[derive(Debug, Serialize)]
struct Covered {
    /// The most calls of a client; with `random`, the calls of each.
    calls: usize,
    /// The most threads.
    threads: usize,
    /// The most nodes.
    nodes: u8,
    /// The most objects of each library.
    objects: usize,
    /// The methods that clients call.
    methods: Vec<&'static str>,
    /// The number of clients to draw, unless all are asked about.
    random: Option<u64>,
}

impl Covered {
    fn of(bounds: &Bounds, args: &Args) -> Covered {
        let of_libraries = || bounds.libraries.iter().flat_map(|library| library.methods());
        let has = |m: &Method| bounds.has(*m);
        Covered {
            calls: bounds.calls_max,
            threads: bounds.threads_max,
            nodes: bounds.nodes_max,
            objects: bounds.objects_max,
            methods: of_libraries().filter(has).map(Method::name).collect(),
            random: args.random,
        }
    }
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let upto = if self.random.is_some() { "" } else { "up to " };
        write!(
            f,
            "{upto}{}, up to {} on up to {}, up to {} of each library; calls of {}",
            counted(self.calls, "call"),
            counted(self.threads, "thread"),
            counted(self.nodes, "node"),
            counted(self.objects, "object"),
            self.methods.join(", ")
        )
    }
}

#[derive(Debug, Serialize)]
struct Refutation {
    /// The client's number in the list of all clients, from 1.
    number: u64,
    client: String,
    /// The outcome that the specification does not allow, or the condition of Def. 3.13 that fails.
    what: String,
    execution: String,
    /// Why the specification has no execution with this outcome; not for local soundness.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

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
    let bounds = bounds(named, args);
    let summary = judged(named, &bounds, args);
    let mut report = report(named, args, &bounds, &summary, start.elapsed());
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
        output::print(&in_words(&report))?;
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
fn bounds(named: &Named<'_>, args: &Args) -> Bounds {
    let mut bounds = if args.local {
        named.local_bounds(args.calls.unwrap_or(LOCAL_CALLS))
    } else {
        named.bounds(args.calls.unwrap_or_else(|| named.calls()))
    };
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
    bounds
}

fn judged(named: &Named<'_>, bounds: &Bounds, args: &Args) -> Summary {
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
        let summary = match args.random {
            None => over_share(judge, bounds, args.shard, budget, progress),
            Some(count) => {
                let mut random = SmallRng::seed_from_u64(args.seed);
                let stop = || budget.exceeded(0).is_some();
                let clients = RandomClients::until(bounds, &stop);
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
        drop(done);
        summary
    });
    // A random client is not the smallest.
    if args.random.is_some()
        && let Some(failure) = summary.failure.take()
    {
        summary.failure = Some(Box::new(refinement.shrink(*failure, budget)));
    }
    summary
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

fn report(named: &Named<'_>, args: &Args, bounds: &Bounds, summary: &Summary, elapsed: Duration) -> Report {
    // A run ends with the client that refutes, so it is the last that was judged.
    let (last, share) = (summary.clients.saturating_sub(1), args.shard);
    let number = last * share.count() as u64 + share.index() as u64;
    let outcome = summary.failure.as_ref().map(|f| Refutation {
        number,
        client: f.client.print(),
        what: f.outcome.display(&f.client),
        execution: implementation_execution(&f.client, &f.events),
        missing: None,
    });
    let local = summary.local_failure.as_ref().map(|f| Refutation {
        number,
        client: f.client.print(),
        what: f.why.clone(),
        execution: implementation_execution(&f.client, &f.events),
        missing: None,
    });
    Report {
        version: 1,
        shard: shard::named(args.shard),
        run: shard::run_of(args.shard, || {
            format!(
                "{} {bounds:?} {} {} {:?} {}",
                named.name, args.tier, args.local, args.random, args.seed
            )
        }),
        implementation: named.name.to_owned(),
        specification: named.setting.name(),
        tier: args.tier.name(),
        question: if args.local {
            "local soundness"
        } else {
            "refinement"
        },
        bounds: Covered::of(bounds, args),
        clients: summary.clients,
        complete: summary.complete,
        seconds: elapsed.as_secs_f64(),
        limit: summary.limit.as_ref().map(Limit::advice),
        refuted_by: outcome.or(local),
    }
}

fn in_words(report: &Report) -> String {
    let network = match report.tier == Tier::Ibta.name() {
        true => String::new(),
        false => format!(" over a network of tier {}", report.tier),
    };
    let mut out = format!(
        "{} against {}{network} ({}): {}, {} of them completely, {:.1} s\n",
        report.implementation,
        report.specification,
        report.question,
        counted(report.clients, "client"),
        report.complete,
        report.seconds
    );
    match (&report.refuted_by, &report.limit) {
        (Some(refuted), _) => {
            out.push_str(&format!(
                "Refuted by\n\n{}\n{}\n\nThe implementation's execution:\n\n{}",
                refuted.client, refuted.what, refuted.execution
            ));
            if let Some(missing) = &refuted.missing {
                out.push_str(&format!(
                    "\nThe specification has no execution with this outcome.\n{missing}"
                ));
            }
        }
        (None, Some(limit)) => out.push_str(&format!("Nothing refuted; {limit}\n")),
        (None, None) => {
            let which = match (&report.shard, report.bounds.random) {
                (Some(shard), _) => format!("share {shard} of the"),
                (None, Some(_)) => "these random".to_owned(),
                (None, None) => "all".to_owned(),
            };
            out.push_str(&format!(
                "Holds on {which} clients of this size: {}. Larger clients are not judged.\n",
                report.bounds
            ));
        }
    }
    out
}
