//! `mowgli explain`: says why an outcome is allowed or forbidden.
//!
//! [`run`] asks the library for a witness or a reason and the machine for its steps; `document` writes them as JSON. `file` explains by
//! model files, `corerma` tests of coreRMA.

mod corerma;
mod document;
mod file;

use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;

use mowgli::check::applicable;
use mowgli::counted::counted;
use mowgli::explain::{self, Drawing, Reason, VACUOUS, Witness};
use mowgli::explore;
use mowgli::litmus::{Dialect, Formula, Litmus, Setting};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Limit, Outcome};
use mowgli_libraries::client;
use mowgli_libraries::judge;

use crate::budget::{self, Limits, Run};
use crate::choice::{self, Loaded, ModelChoice, Under};
use crate::source::AnyTest;
use crate::{Error, Exit, clients, output, progress, source, values};
use document::Document;

/// The largest number of a condition or cycle that is read. The test says how many there are.
const NUMBER_MAX: u64 = 1_000_000;

/// Explain why an outcome is allowed or forbidden
///
/// An allowed outcome gets a witness: an execution that the model accepts, and the steps of the machine that lead to it, what each
/// CPU, store buffer and queue pair does, in order.
///
/// A forbidden outcome gets the reason: every execution that would have the outcome has a cycle. The cycle that teaches most is
/// shown, for each edge the axiom or table cell that puts it there. Then come the single changes that would allow the outcome:
/// an instruction removed, a cell or an axiom of the model removed, another model.
///
/// Tests of coreRMA are explained by the rules of coreRMA: the cycle names them, and there is no machine.
///
/// --svg and --dot draw the execution: threads are columns, nodes are frames around them, relations have colours, and the
/// cycle is marked. FILE may be - for standard output, which then has nothing else.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A built-in test or a file; also a client of libraries (`*.client`, or built in)
    test: String,
    /// The model: built in, or a file *.cat, whose violated axiom is named. Default: rdma-tso, and corerma for tests of coreRMA
    #[arg(short, long, value_parser = values::model())]
    model: Option<ModelChoice>,
    /// Atomicity of remote read-modify-writes: hca or glob. Default: hca
    #[arg(long, value_name = "ATOMICITY", value_parser = values::rmw())]
    rmw: Option<RmwAtomicity>,
    /// The outcome to explain, as a formula over the final state. Default: the test's condition
    #[arg(short, long, value_name = "FORMULA")]
    outcome: Option<String>,
    /// Number of the test's condition to explain
    #[arg(
        short,
        long,
        default_value = "1",
        value_name = "N",
        conflicts_with = "outcome",
        allow_negative_numbers = true,
        value_parser = values::whole::<usize>(1..=NUMBER_MAX)
    )]
    query: usize,
    /// Show every cycle of a forbidden outcome
    #[arg(short, long)]
    all: bool,
    /// Show and draw the N-th cycle of a forbidden outcome instead of the first
    #[arg(short, long, value_name = "N", conflicts_with = "all", allow_negative_numbers = true, value_parser = values::whole::<usize>(1..=NUMBER_MAX))]
    cycle: Option<usize>,
    /// For a client of libraries: what judges it, as in `mowgli outcomes`; spec+ooo-rw is over a network of tier ooo-rw. Default: spec
    #[arg(long, value_name = "SETTING")]
    setting: Option<judge::Under>,
    /// Draw the execution as SVG into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw the execution as Graphviz DOT into this file
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
    #[arg(short, long, default_value = "time=60s", value_name = "LIMITS", help = budget::HELP, long_help = budget::LONG_HELP)]
    limit: Limits,
    /// Print one JSON document with the witness or all cycles (docs/json.md)
    #[arg(long, conflicts_with_all = ["all", "cycle"])]
    json: bool,
}

const EXAMPLES: &str = "\
EXAMPLES
  mowgli explain SB3 --model rdma-tso
  mowgli explain ST2 --outcome 'z=1'
  mowgli explain mine.litmus --query 2
  mowgli explain GFP1 --all
  mowgli explain MP1 --model mine.cat
  mowgli explain RMA-6 --query 4 --model corerma
  mowgli explain MP1 --svg mp1.svg
  mowgli explain MP1 --dot - | dot -Tpdf -o mp1.pdf

EXIT STATUS
  0  explained
  1  the test is vacuous, as no execution ends; or the two engines disagree
  2  wrong usage, or errors in the test
  3  a limit left the verdict or the explanation incomplete";

/// The answer about an outcome.
enum Answer {
    /// The outcome is allowed.
    Allowed {
        witness: Box<Witness>,
        /// The machine's steps to it; `None` if the machine does not reach it.
        steps: Result<Option<Vec<String>>, Limit>,
    },
    /// The outcome is forbidden.
    Forbidden(Box<Reason>),
    /// The program has no execution, and so no outcome.
    Vacuous,
    /// A limit stopped the search before it could tell.
    Unknown(Limit),
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let only_drawing = one_output(args)?;
    if let Some(client) = clients::find(&args.test)? {
        args.refuse_without_effect(Subject::Client)?;
        let setting = args.setting.unwrap_or(client::Setting::Spec.into());
        let explained = clients::explain_client(&client, args.query, setting, &Run::start(args.limit))?;
        draw(args, &explained.title, explained.drawing)?;
        if !only_drawing {
            output::print(&format!("{}\n\n{}", explained.title, explained.text))?;
        }
        return Ok(explained.exit);
    }
    let test = match source::load_any(&args.test)? {
        AnyTest::Rdma(test) => test,
        AnyTest::CoreRma(test) => {
            args.refuse_without_effect(Subject::CoreRma)?;
            let model = args.model.as_ref().map(choice::load).transpose()?;
            let model = choice::of_corerma(model)?;
            return corerma::run(args, &test.litmus, model, only_drawing);
        }
    };
    args.refuse_without_effect(Subject::Rdma)?;
    let rmw = args.rmw.unwrap_or_default();
    let litmus = asked(args, &test.litmus)?;
    let model = match &args.model {
        None => Loaded::BuiltIn(Model::RdmaTso),
        Some(model) => choice::load(model)?,
    };
    let model = match model {
        Loaded::BuiltIn(model) => model,
        Loaded::CoreRma(model) => return Err(Error::Usage(choice::not_of_corerma(model))),
        Loaded::File(model) => {
            let under = Under {
                model: Loaded::File(model.clone()),
                rmw,
            };
            return file::run(args, &litmus, &under, &model, only_drawing);
        }
    };
    let setting = Setting { model, rmw };
    let program = &litmus.program;
    applicable(program, model).map_err(|e| Error::Usage(e.to_string()))?;
    let formula = &litmus.queries[0].condition.formula;
    let shown_formula = formula.display(program);
    let title = format!("{} under {setting}: {shown_formula}", litmus.name);
    let clock = progress::clock(title.clone());
    let answer = answer(&litmus, setting, formula, &Run::start(args.limit))?;
    clock.finish_and_clear();
    let shown = cycles(args, &answer)?;
    draw(args, &title, drawing(&answer, &litmus, shown.start))?;
    if args.json {
        output::print_json(&Document::new(&litmus, setting, &shown_formula, &answer))?;
    } else if !only_drawing {
        output::print_wrapped(&format!("{title}\n\n{}", text(&answer, &litmus, setting, shown)))?;
    }
    Ok(exit(&answer))
}

/// What is to be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// A litmus test of RDMA.
    Rdma,
    /// A test of coreRMA.
    CoreRma,
    /// A client of libraries.
    Client,
}

impl Args {
    /// Refuses options that have no effect on the explanation of `subject`.
    fn refuse_without_effect(&self, subject: Subject) -> Result<(), Error> {
        use Subject::{Client, CoreRma, Rdma};
        let tests: &[Subject] = &[Rdma, CoreRma];
        let options: [(&str, bool, &[Subject]); 7] = [
            ("--model", self.model.is_some(), tests),
            ("--rmw", self.rmw.is_some(), &[Rdma]),
            ("--outcome", self.outcome.is_some(), tests),
            ("--all", self.all, tests),
            ("--cycle", self.cycle.is_some(), tests),
            ("--json", self.json, tests),
            ("--setting", self.setting.is_some(), &[Client]),
        ];
        let name = |subject: &Subject| match subject {
            Rdma => "a test of RDMA",
            CoreRma => "a test of coreRMA",
            Client => "a client of libraries",
        };
        match options
            .iter()
            .find(|(_, given, on)| *given && !on.contains(&subject))
        {
            None => Ok(()),
            Some((option, _, on)) => Err(Error::Usage(format!(
                "{option} has no effect on {}, only on {}: leave it out",
                name(&subject),
                on.iter().map(name).collect::<Vec<_>>().join(" or ")
            ))),
        }
    }
}

/// Returns whether a drawing goes to standard output, which then has room for nothing else.
fn one_output(args: &Args) -> Result<bool, Error> {
    let is_dash = |path: &Option<PathBuf>| path.as_ref().is_some_and(|p| p.as_os_str() == "-");
    let wanted = usize::from(is_dash(&args.svg)) + usize::from(is_dash(&args.dot));
    if wanted + usize::from(args.json) > 1 {
        return Err(Error::Usage(
            "standard output has room for one of --svg -, --dot - and --json: give the others a file"
                .to_owned(),
        ));
    }
    Ok(wanted == 1)
}

fn answer(litmus: &Litmus, setting: Setting, formula: &Formula, run: &Run) -> Result<Answer, Error> {
    let program = &litmus.program;
    let witness = match explain::allowed(program, setting, formula, &run.budget()) {
        Err(limit) => return Ok(Answer::Unknown(limit)),
        Ok(None) => {
            return Ok(match explain::is_vacuous(program, setting, &run.budget()) {
                Err(limit) => Answer::Unknown(limit),
                Ok(true) => Answer::Vacuous,
                Ok(false) => {
                    let reason = explain::forbidden(program, setting, formula, &run.budget());
                    Answer::Forbidden(Box::new(reason))
                }
            });
        }
        Ok(Some(witness)) => Box::new(witness),
    };
    let wanted = |outcome: &Outcome| formula.holds(outcome);
    let steps = explore::trace(program, setting.model, setting.rmw, &wanted, &run.budget());
    let lines = |steps: Vec<_>| steps.iter().map(ToString::to_string).collect();
    Ok(Answer::Allowed {
        witness,
        steps: steps.map(|found| found.map(lines)),
    })
}

/// Returns the numbers, from 0, of the cycles to show.
fn cycles(args: &Args, answer: &Answer) -> Result<Range<usize>, Error> {
    let count = match answer {
        Answer::Forbidden(reason) => reason.cases.len(),
        _ => 0,
    };
    numbers(args, count)
}

/// Returns the numbers, from 0, of the reasons to show out of so many.
fn numbers(args: &Args, count: usize) -> Result<Range<usize>, Error> {
    match args.cycle {
        _ if args.all => Ok(0..count),
        None => Ok(0..count.min(1)),
        Some(n) if (1..=count).contains(&n) => Ok(n - 1..n),
        Some(n) => Err(Error::Usage(format!(
            "--cycle {n}: the explanation has {}, numbered from 1",
            counted(count, "cycle")
        ))),
    }
}

fn text(answer: &Answer, litmus: &Litmus, setting: Setting, shown: Range<usize>) -> String {
    let program = &litmus.program;
    match answer {
        Answer::Unknown(limit) => format!("Unknown: {}.\n", limit.advice()),
        Answer::Vacuous => vacuous(),
        Answer::Forbidden(reason) => format!("Forbidden.\n\n{}\n", reason.render(program, setting, shown)),
        Answer::Allowed { witness, steps } => {
            let mut text = format!(
                "Allowed. An execution that the model accepts:\n\n{}\n",
                witness.render(program)
            );
            match steps {
                Ok(Some(steps)) => {
                    text.push_str("The machine reaches it, step by step:\n\n");
                    for (number, step) in steps.iter().enumerate() {
                        let _ = writeln!(text, "{:4}  {step}", number + 1);
                    }
                }
                Ok(None) => text.push_str("The machine does not reach it: the two engines disagree.\n"),
                Err(limit) => {
                    let _ = writeln!(text, "The search for the machine's steps stopped: {limit}.");
                }
            }
            text
        }
    }
}

/// Returns the text about a test without any execution.
fn vacuous() -> String {
    format!("Vacuous.\n\n{VACUOUS}\n")
}

fn exit(answer: &Answer) -> Exit {
    match answer {
        Answer::Unknown(_) | Answer::Allowed { steps: Err(_), .. } => Exit::Unknown,
        Answer::Vacuous | Answer::Allowed { steps: Ok(None), .. } => Exit::Differs,
        Answer::Allowed { .. } => Exit::AsStated,
        Answer::Forbidden(reason) if reason.is_complete() => Exit::AsStated,
        Answer::Forbidden(_) => Exit::Unknown,
    }
}

fn drawing(answer: &Answer, litmus: &Litmus, cycle: usize) -> Option<Drawing> {
    match answer {
        Answer::Allowed { witness, .. } => Some(witness.drawing(&litmus.program)),
        Answer::Forbidden(reason) => reason.drawing(&litmus.program, cycle),
        Answer::Vacuous | Answer::Unknown(_) => None,
    }
}

/// Writes the drawings that were asked for.
fn draw(args: &Args, title: &str, drawing: Option<Drawing>) -> Result<(), Error> {
    let Some(drawing) = drawing else {
        if args.svg.is_some() || args.dot.is_some() {
            output::complain("mowgli: there is no execution to draw");
        }
        return Ok(());
    };
    let write = |path: &Option<PathBuf>, text: String| match path {
        Some(path) if path.as_os_str() == "-" => output::print(&text).map_err(Error::from),
        Some(path) => std::fs::write(path, text).map_err(|source| Error::Write {
            path: path.display().to_string(),
            source,
        }),
        None => Ok(()),
    };
    write(&args.svg, drawing.svg(title))?;
    write(&args.dot, drawing.dot(title))
}

/// Returns the test with the one condition that is to be explained.
fn asked<P: Dialect>(args: &Args, litmus: &Litmus<P>) -> Result<Litmus<P>, Error> {
    if let Some(formula) = &args.outcome {
        let asking = litmus.asking(formula);
        return asking.map_err(|e| Error::Usage(format!("--outcome: {e}")));
    }
    let (number, count) = (args.query, litmus.queries.len());
    match litmus.queries.get(number - 1) {
        Some(query) => Ok(Litmus {
            queries: vec![query.clone()],
            ..litmus.clone()
        }),
        None => Err(Error::Usage(format!(
            "--query {number}: the test has {}, numbered from 1",
            counted(count, "condition")
        ))),
    }
}
