//! The verdicts of the models on litmus tests: the module `mowgli`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use mowgli::cat::{self, Embedded, ModelFile};
use mowgli::check::{Engine, decide, expected, judge, settings};
use mowgli::litmus::{Litmus, Setting, parse};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Limit, Search};
use mowgli::report;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::calls::{limit, polling};

/// The time between two looks at signals.
const LOOK: Duration = Duration::from_millis(20);

/// The stack of the thread that searches, in bytes. Deep programs recurse.
const STACK_BYTES: usize = 64 << 20;

/// The verdict of a model on one condition of a test.
#[pyclass(frozen, get_all, module = "mowgli")]
pub(crate) struct Verdict {
    /// The name: `NAME`, or `NAME#2` for the second condition of a test.
    name: String,
    /// The model, with "/glob" for the other atomicity of remote read-modify-writes.
    model: String,
    /// The condition asked.
    condition: String,
    /// "allowed", "forbidden" or "required", or None if a limit left it open, the test is vacuous, or the model does not apply.
    verdict: Option<String>,
    /// The verdict that the test states, or None.
    expected: Option<String>,
    /// Whether that statement is right, or None.
    as_expected: Option<bool>,
    /// The final states that the model allows, as texts.
    outcomes: Vec<String>,
    /// The number of them that satisfy the condition.
    positive: usize,
    /// The number of them that do not.
    negative: usize,
    /// True if no execution reaches the end, so that the test asks nothing.
    vacuous: bool,
    /// Why the model has no meaning for the test, or None.
    not_applicable: Option<String>,
    /// The limit that stopped the search, with the remedy, or None.
    limit: Option<String>,
}

#[pymethods]
impl Verdict {
    fn __repr__(&self) -> String {
        let verdict = match (&self.verdict, &self.not_applicable, &self.limit) {
            (Some(verdict), _, _) => verdict.as_str(),
            (None, Some(_), _) => "does not apply",
            (None, None, Some(_)) => "unknown",
            (None, None, None) => "vacuous",
        };
        format!("<mowgli.Verdict: {} under {}: {verdict}>", self.name, self.model)
    }
}

/// A model, ready to judge.
enum Judge {
    BuiltIn(Setting),
    File(Box<ModelFile>, String),
}

/// Returns the exception `mowgli.Error`, with the place in the text if there is one.
fn refused(py: Python<'_>, message: &str, place: Option<(usize, usize)>) -> PyErr {
    let raised = py.import("mowgli").and_then(|module| {
        let raised = module.getattr("Error")?.call1((message,))?;
        raised.setattr("line", place.map(|(line, _)| line))?;
        raised.setattr("column", place.map(|(_, column)| column))?;
        Ok(raised)
    });
    raised.map_or_else(|failed| failed, PyErr::from_value)
}

impl Judge {
    /// Reads a name: a built-in model, an embedded model file, or the path of one.
    fn of(py: Python<'_>, name: &str) -> PyResult<Judge> {
        if !name.ends_with(".cat") {
            let setting = name.parse::<Setting>();
            return setting
                .map(Judge::BuiltIn)
                .map_err(|error| refused(py, &error.to_string(), None));
        }
        let text = match cat::find(name) {
            Some(text) => text.to_owned(),
            None => std::fs::read_to_string(name)
                .map_err(|error| refused(py, &format!("reading the model {name}: {error}"), None))?,
        };
        match ModelFile::parse(name, &text, &Embedded) {
            Ok(file) => Ok(Judge::File(Box::new(file), name.to_owned())),
            Err(errors) => {
                let first = errors.first();
                let message = first.map_or_else(|| format!("{name} is no model"), ToString::to_string);
                Err(refused(py, &message, first.map(|error| error.position())))
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Judge::BuiltIn(setting) => setting.to_string(),
            Judge::File(_, name) => name.clone(),
        }
    }

    /// Finds the outcomes, or the reason that the model has no meaning for the test.
    fn search(&self, litmus: &Litmus, budget: &Budget<'_>) -> Result<Search, String> {
        match self {
            Judge::BuiltIn(setting) => decide(litmus, *setting, Engine::Declarative, budget)
                .map(|answer| answer.search)
                .map_err(|error| error.to_string()),
            Judge::File(file, _) => cat::decide(
                &litmus.program,
                file,
                RmwAtomicity::default(),
                Some(&litmus.all_shown()),
                budget,
            )
            .map_err(|error| error.to_string()),
        }
    }

    /// Judges every condition of a test.
    fn verdicts(&self, litmus: &Litmus, budget: &Budget<'_>) -> Vec<Verdict> {
        let search = self.search(litmus, budget);
        let verdict = |(at, query)| {
            let query: &mowgli::litmus::Query = query;
            let stated = match self {
                Judge::BuiltIn(setting) => expected(&litmus.program, query, *setting),
                Judge::File(..) => None,
            };
            let mut verdict = Verdict {
                name: litmus.query_name(at),
                model: self.name(),
                condition: query.condition.display(&litmus.program),
                verdict: None,
                expected: stated.map(|stated| stated.to_string()),
                as_expected: None,
                outcomes: Vec::new(),
                positive: 0,
                negative: 0,
                vacuous: false,
                not_applicable: None,
                limit: None,
            };
            match &search {
                Err(reason) => verdict.not_applicable = Some(reason.clone()),
                Ok(search) => {
                    let judgement = judge(litmus, at, search);
                    verdict.verdict = judgement.verdict().map(|verdict| verdict.to_string());
                    verdict.as_expected = stated.and_then(|stated| judgement.meets(stated));
                    verdict.outcomes = report::states(litmus, at, search);
                    (verdict.positive, verdict.negative) = (judgement.positive, judgement.negative);
                    verdict.vacuous = judgement.is_vacuous();
                    verdict.limit = judgement.limit.as_ref().map(Limit::advice);
                }
            }
            verdict
        };
        litmus.queries.iter().enumerate().map(verdict).collect()
    }
}

/// Returns the names of the built-in models.
#[pyfunction]
pub(crate) fn models() -> Vec<&'static str> {
    Model::every().map(|model| model.name()).collect()
}

/// Says what models allow of a litmus test: a verdict for each condition under each model.
///
/// `model` is a name, the path of a model file, or a list of these; without it, every model of the papers that has a meaning for the
/// test. `timeout` is the time in seconds for each search.
#[pyfunction]
#[pyo3(signature = (text, model = None, *, timeout = 60.0))]
pub(crate) fn check(
    py: Python<'_>,
    text: &str,
    model: Option<&Bound<'_, PyAny>>,
    timeout: f64,
) -> PyResult<Vec<Verdict>> {
    let parsed = parse(text).map_err(|error| {
        let first = error.diagnostics.first();
        let place = first.map(|diagnostic| diagnostic.position(text));
        let message = match place {
            Some((line, column)) => format!("{line}:{column}: {error}"),
            None => error.to_string(),
        };
        refused(py, &message, place)
    })?;
    let judges = match model {
        None => settings(&parsed.litmus.program)
            .into_iter()
            .map(Judge::BuiltIn)
            .collect(),
        Some(model) => match model.extract::<String>() {
            Ok(name) => vec![Judge::of(py, &name)?],
            Err(_) => {
                let names = model.extract::<Vec<String>>()?;
                names
                    .iter()
                    .map(|name| Judge::of(py, name))
                    .collect::<PyResult<_>>()?
            }
        },
    };
    let limit = limit(Some(timeout))?;
    let cancel = AtomicBool::new(false);
    let (found, finds) = mpsc::channel();
    let verdicts = std::thread::scope(|scope| {
        let (judges, litmus, cancel) = (&judges, &parsed.litmus, &cancel);
        let thread = std::thread::Builder::new()
            .name("mowgli searches".to_owned())
            .stack_size(STACK_BYTES);
        let spawned = thread.spawn_scoped(scope, move || {
            let mut verdicts = Vec::new();
            for judge in judges {
                let budget = Budget {
                    deadline: limit.and_then(|limit| Instant::now().checked_add(limit)),
                    cancel: Some(cancel),
                    ..Budget::default()
                };
                verdicts.extend(judge.verdicts(litmus, &budget));
            }
            // Nobody may want them any more.
            let _ = found.send(verdicts);
        });
        spawned.map_err(|error| refused(py, &format!("no thread to search: {error}"), None))?;
        let look = move || match finds.recv_timeout(LOOK) {
            Ok(verdicts) => Some(Some(verdicts)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(None),
        };
        // Relaxed: the flag publishes no other data.
        polling(py, look, || cancel.store(true, Ordering::Relaxed))
    })?;
    verdicts.ok_or_else(|| PyRuntimeError::new_err("the search panicked: standard error has the message"))
}
