//! Selects the pairs of a test and a model that `mowgli robust` asks about.

use std::sync::Arc;

use mowgli::cat::ModelFile;
use mowgli::check::{Features, applicable, settings};
use mowgli::litmus::Setting;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::program::Program;
use mowgli::robust::MODELS;

use super::Args;
use crate::Error;
use crate::choice::{self, Loaded, Under};
use crate::source::Test;

/// A test to ask about under a model.
pub(super) struct Job<'t> {
    pub(super) test: &'t Test,
    /// The model, as reports name it.
    pub(super) under: Under,
    /// The file that is asked in place of the conditions.
    pub(super) file: Option<Arc<ModelFile>>,
    /// Whether a built-in model has a meaning for the test. For a model file, only the search tells.
    pub(super) applies: bool,
    /// Whether nothing else is asked, so that a file that does not apply is an error.
    pub(super) is_alone: bool,
}

/// A model that was named.
pub(super) struct Asked {
    name: Loaded,
    file: Option<Arc<ModelFile>>,
}

/// Reads the models that the command line names; none for the default.
pub(super) fn models(args: &Args) -> Result<Vec<Asked>, Error> {
    args.models
        .iter()
        .map(|model| {
            let name = choice::load(model)?;
            let file = match &name {
                Loaded::BuiltIn(model) if MODELS.contains(model) => None,
                // A built-in model without theorems is asked by the model file that defines it.
                Loaded::BuiltIn(model) => Some(Arc::new(ModelFile::of(*model))),
                Loaded::File(file) => Some(file.clone()),
                Loaded::CoreRma(model) => {
                    return Err(Error::Usage(format!(
                        "--model {model}: robustness compares executions of RDMA programs, and coreRMA has a language of its own. \
                         `mowgli compare TEST --models sc,{model}` shows where a test of coreRMA is weaker than sc. Here name a model of RDMA \
                         or a model file"
                    )));
                }
            };
            let tiered = matches!(&name, Loaded::BuiltIn(model) if MODELS.contains(&model.base()));
            match (&file, args.fix) {
                (Some(_), true) if !tiered => Err(Error::Usage(format!(
                    "--fix begins with what the conditions ask for, which are about {}, not {name}: name one of these",
                    MODELS.map(Model::name).join(", ")
                ))),
                _ => Ok(Asked { name, file }),
            }
        })
        .collect()
}

/// Pairs every test with the models asked for, or with those of Robust'25, or with rdma-wait.
///
/// # Errors
/// Returns the reason, if no model that was named has a meaning for any test.
pub(super) fn jobs<'t>(tests: &'t [Test], models: &[Asked], args: &Args) -> Result<Vec<Job<'t>>, Error> {
    let mut jobs = Vec::new();
    let mut reason = None;
    for test in tests {
        let program = &test.litmus.program;
        // The conditions are not defined for messages. Who asks for one such test is told.
        let is_in_language = args.exact || !program.has_messages() || tests.len() == 1;
        if models.is_empty() {
            let under = by_default(program, args.rmw).into_iter().map(Under::from);
            jobs.extend(under.map(|under| Job {
                test,
                under,
                file: None,
                applies: is_in_language,
                is_alone: false,
            }));
        }
        for asked in models {
            let refused = match asked.name {
                Loaded::BuiltIn(model) => applicable(program, model).err(),
                _ => None,
            };
            let applies = refused.is_none();
            if let Some(refused) = refused {
                let text = || {
                    format!(
                        "{}: {refused}{}",
                        test.litmus.name,
                        remedy(program, refused.model)
                    )
                };
                reason.get_or_insert_with(text);
            }
            jobs.extend(atomicities(program, args.rmw).map(|rmw| Job {
                test,
                under: Under {
                    model: asked.name.clone(),
                    rmw,
                },
                file: asked.file.clone(),
                applies: applies && is_in_language,
                is_alone: tests.len() * models.len() == 1,
            }));
        }
    }
    match reason {
        Some(reason) if jobs.iter().all(|job| !job.applies) => Err(Error::Usage(reason)),
        _ => Ok(jobs),
    }
}

/// Says under which model a program with waits or polls can be asked about.
fn remedy(program: &Program, model: Model) -> &'static str {
    match (model, Features::of(program).wait) {
        (Model::RdmaWait, _) => "; use rdma-sc or rdma-tso, or write `wait(d)` for `poll(n)`",
        (Model::RdmaSc | Model::RdmaTso | Model::RdmaTsoNoPcie, true) => "; use rdma-wait",
        _ => "",
    }
}

/// Returns the atomicities that matter to the program: the one asked for, or both.
fn atomicities(program: &Program, asked: Option<RmwAtomicity>) -> impl Iterator<Item = RmwAtomicity> {
    let all: &[RmwAtomicity] = match Features::of(program).rmw {
        true => &RmwAtomicity::ALL,
        false => &[RmwAtomicity::Hca],
    };
    let wanted = move |rmw: &RmwAtomicity| all.len() == 1 || asked.is_none_or(|asked| asked == *rmw);
    all.iter().copied().filter(wanted)
}

/// Returns the settings of a test for which no model was named.
fn by_default(program: &Program, asked: Option<RmwAtomicity>) -> Vec<Setting> {
    let paper = [Model::RdmaSc, Model::RdmaTso].map(|m| applicable(program, m).is_ok());
    let wanted =
        |model: Model| MODELS.contains(&model) && (model != Model::RdmaWait || !paper.contains(&true));
    let atomicities: Vec<RmwAtomicity> = atomicities(program, asked).collect();
    let mut out = settings(program);
    out.retain(|s| wanted(s.model) && atomicities.contains(&s.rmw));
    out
}
