//! The command `loco-mutants`: reports which mutations of the shipped objects `loco check` finds.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use loco_mutants::{Line, Misfit, Mutation, Outcome, Results, Tree, TreeError, all, in_turns};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

/// Apply mutations to the shipped objects and run the ladder of `loco check` with each.
///
/// Run in the root of the repository. All mutations are built at once, into a copy of the workspace. Prints a line for each
/// mutation and the share found by object. Survivors are listed at the end. Mutations that are argued harmless are left out.
///
/// Exit status: 0 if at least --share percent of the mutations were found, each within --time, 1 if not, 2 if a mutation does
/// not fit the sources or does not build, or the code as shipped does not build.
#[derive(Parser)]
struct Args {
    /// Objects whose mutations to try, as `loco check` names them; all if none is named. With --purchases, fabrics: ofi, verbs
    /// or tcp.
    objects: Vec<String>,
    /// Try only mutations of this name. May be given several times.
    #[arg(long)]
    name: Vec<String>,
    /// Try only mutations that drop a request for order.
    #[arg(long)]
    requests: bool,
    /// Try mutations by which calls never end, in place of the others: whether every call ends is asked of the world that the list names
    /// with each, as `loco check OBJECT --liveness --world WORLD` does.
    #[arg(long, conflicts_with_all = ["requests", "planted", "clients"])]
    livelocks: bool,
    /// Explore the worlds of those as `loco check OBJECT --world WORLD` does.
    #[arg(long, requires = "livelocks")]
    explored: bool,
    /// Try mutations of the fabrics in place of those of the objects: each leaves out an order that a fabric buys when it is
    /// asked for, and litmus tests on a network that is played are to find it.
    #[arg(long, conflicts_with_all = ["requests", "planted", "clients"])]
    purchases: bool,
    /// Try mutations of the agreement on who is in, in place of those of the objects: the worlds of `checkers/mesh` are to find
    /// them.
    #[arg(long, conflicts_with_all = ["requests", "planted", "clients", "purchases"])]
    mesh: bool,
    /// Try mutations of lock-free protocols, in place of those of the objects: their tests under loom are to find them. The objects
    /// are the protocols: gate, bell, back-off, send-queue or slots.
    #[arg(long, conflicts_with_all = ["requests", "planted", "clients", "purchases", "mesh", "programs"])]
    lock_free: bool,
    /// Try mutations of the programs in `apps/`, in place of those of the objects: random executions under the model are to find
    /// them. The objects are then programs.
    #[arg(long, conflicts_with_all = ["requests", "planted", "clients", "purchases", "mesh"])]
    programs: bool,
    /// Try N mutations, drawn at random.
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Seed of the draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds that `loco check` gets for each mutation.
    #[arg(long, default_value_t = 60)]
    time: u64,
    /// Run generated clients of this size instead of the ladder, as `loco check OBJECT --clients SIZE` does.
    #[arg(long, value_name = "SIZE")]
    clients: Option<String>,
    /// Percentage of mutations that must be found.
    #[arg(long, default_value_t = 95)]
    share: u64,
    /// Folder for the copy of the workspace and what is built in it.
    #[arg(long, default_value = "target/mutants")]
    folder: PathBuf,
    /// Keep results in this file as lines of JSON, and leave out what it tells of already.
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Try those again that FILE says survived.
    #[arg(long, requires = "results")]
    retry: bool,
    /// Try those that are argued harmless, too; they do not count.
    #[arg(long)]
    harmless: bool,
    /// Try the panics that are planted where operations are done at once, in place of the mutations: each must be found.
    #[arg(long, conflicts_with = "harmless")]
    planted: bool,
    /// List the mutations and try none.
    #[arg(long)]
    list: bool,
    /// Print one line of JSON for each mutation.
    #[arg(long)]
    json: bool,
}

/// The reason that the command cannot go on.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Misfit(#[from] Misfit),
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error("{}: {source}", path.display())]
    Results { path: PathBuf, source: std::io::Error },
    #[error("writing the results: {0}")]
    Output(std::io::Error),
    #[error("these mutations do not build, so mend or remove them: {0}")]
    DoNotBuild(String),
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("loco-mutants: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<bool, Error> {
    let mut all = all()?;
    // Those of the fabrics are tried by another program, and the number of one is its place in what is built.
    all.retain(|mutation| {
        mutation.network.is_some() == args.purchases
            && mutation.is_of_mesh() == args.mesh
            && mutation.lock_free == args.lock_free
            && mutation.program.is_some() == args.programs
            && mutation.livelock.is_some() == args.livelocks
    });
    let chosen = chosen(args, &all);
    if args.list {
        for &number in &chosen {
            let m = &all[number];
            say(format_args!("{}/{}: {}", m.object, m.name, m.wrong))?;
        }
        return Ok(true);
    }
    let kept = |source| Error::Results {
        path: args.results.clone().unwrap_or_default(),
        source,
    };
    let mut results = match &args.results {
        Some(path) => Results::open(path).map_err(kept)?,
        None => Results::default(),
    };
    let open: Vec<usize> = chosen
        .iter()
        .copied()
        .filter(|&number| match results.of(&all[number]) {
            None => true,
            Some(Outcome::Found { .. }) => false,
            Some(_) => args.retry,
        })
        .collect();
    if !open.is_empty() {
        // All are built, whichever are tried, so that the next run has nothing to build.
        let mut tree = Tree::build(Path::new("."), &args.folder, all.clone())?;
        let ways: BTreeMap<_, usize> = open
            .iter()
            .map(|&number| ((&all[number].object, &all[number].network), number))
            .collect();
        for number in ways.into_values() {
            tree.check_shipped(number)?;
        }
        let (apart, together): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|number| tree.apart().contains(number));
        for &number in tree.apart() {
            eprintln!("built alone: {}/{}", all[number].object, all[number].name);
        }
        let asked = match args.explored {
            true => Some("--world"),
            false => args.clients.as_deref(),
        };
        for number in together.into_iter().chain(apart) {
            let line = Line::new(&all[number], tree.check(number, args.time, asked)?);
            results.add(&line).map_err(kept)?;
            show(args, &line)?;
        }
    }
    sum_up(args, chosen.iter().map(|&number| &all[number]), &results)
}

/// Returns the numbers of the mutations to try, in the order in which they are tried.
fn chosen(args: &Args, all: &[Mutation]) -> Vec<usize> {
    let is_chosen = |m: &Mutation| {
        (args.objects.is_empty() || args.objects.contains(&m.object))
            && (args.name.is_empty() || args.name.contains(&m.name))
            && args.planted == m.planted
            && (m.request || !args.requests)
            && (args.harmless || args.list || m.harmless.is_none())
    };
    let mut chosen: Vec<usize> = (0..all.len()).filter(|&number| is_chosen(&all[number])).collect();
    if let Some(sample) = args.sample {
        chosen.retain(|&number| all[number].harmless.is_none());
        chosen.shuffle(&mut SmallRng::seed_from_u64(args.seed));
        chosen.truncate(sample);
    }
    in_turns(&chosen, all)
}

/// Counts the mutations that were found, by object. Mutations that are argued harmless do not count.
fn sum_up<'m>(
    args: &Args,
    mutations: impl Iterator<Item = &'m Mutation>,
    results: &Results,
) -> Result<bool, Error> {
    let mut tally: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let (mut survivors, mut do_not_build) = (Vec::new(), Vec::new());
    for mutation in mutations.filter(|m| m.harmless.is_none()) {
        let (found, tried) = tally.entry(&mutation.object).or_default();
        *tried += 1;
        match results.of(mutation) {
            Some(Outcome::Found { .. }) => *found += 1,
            Some(Outcome::DoesNotBuild) => {
                do_not_build.push(format!("{}/{}", mutation.object, mutation.name))
            }
            _ => survivors.push(mutation),
        }
    }
    let (found, tried) = tally
        .values()
        .fold((0, 0), |(f, t), (found, tried)| (f + found, t + tried));
    if !args.json {
        for (object, (found, tried)) in tally.into_iter().chain([("all", (found, tried))]) {
            say(format_args!("{object:16} {found:3} of {tried:3} found"))?;
        }
        for survivor in survivors {
            say(format_args!(
                "survived: {}/{}: {}",
                survivor.object, survivor.name, survivor.wrong
            ))?;
        }
    }
    if !do_not_build.is_empty() {
        return Err(Error::DoNotBuild(do_not_build.join(", ")));
    }
    Ok(found * 100 >= tried * args.share)
}

fn show(args: &Args, line: &Line) -> Result<(), Error> {
    if args.json {
        // The line has only strings, numbers and booleans, which always serialize.
        return say(format_args!(
            "{}",
            serde_json::to_string(line).unwrap_or_default()
        ));
    }
    let what = match &line.outcome {
        Outcome::Found {
            seconds,
            processor,
            by,
        } => format!("found in {seconds:.1} s, {processor:.1} s of processor time, by {by}"),
        Outcome::Survived { seconds, processor } => {
            format!("SURVIVED {seconds:.1} s, {processor:.1} s of processor time")
        }
        Outcome::Hangs { seconds } => format!("SURVIVED, ended after {seconds:.1} s"),
        Outcome::DoesNotBuild => "DOES NOT BUILD".to_owned(),
    };
    let harmless = if line.harmless.is_some() {
        " (harmless)"
    } else {
        ""
    };
    say(format_args!("{}/{}: {what}{harmless}", line.object, line.name))
}

/// Prints a line. A reader that has gone away, or a full disk, ends the command.
fn say(line: std::fmt::Arguments<'_>) -> Result<(), Error> {
    writeln!(std::io::stdout(), "{line}").map_err(Error::Output)
}
