//! Models as the command line names them: built in, a model of coreRMA, or a model file (`*.cat`).
//!
//! Every command that takes a model takes a [`ModelChoice`], and one that takes a model with an atomicity a [`Choice`]. [`load`] reads the
//! files; what is wrong with one is drawn under its text, as with tests.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use mowgli::cat::{self, Included, Includes, ModelFile, limits};
use mowgli::check::{self, Answer, Engine, Features};
use mowgli::litmus::{Litmus, Setting};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Search};
use mowgli::program::Program;
use mowgli_corerma::switches::{Model as CoreRma, Variant};

use crate::{Error, diagnostics, read};

/// The name of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModelChoice {
    /// A built-in model of RDMA.
    BuiltIn(Model),
    /// A model of coreRMA, which has a meaning for tests of coreRMA only.
    CoreRma(CoreRma),
    /// The path of a model file, or the name of an embedded one.
    File(String),
}

/// The name of a model with the atomicity of remote read-modify-writes: `rdma-tso/glob`, `mine.cat/glob`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    model: ModelChoice,
    rmw: RmwAtomicity,
}

/// A model, ready to judge programs.
#[derive(Clone, Debug)]
pub(crate) enum Loaded {
    /// A built-in model of RDMA.
    BuiltIn(Model),
    /// A model of coreRMA.
    CoreRma(CoreRma),
    /// A model file.
    File(Arc<ModelFile>),
}

/// A model with the atomicity of remote read-modify-writes, as reports name it.
#[derive(Clone, Debug)]
pub(crate) struct Under {
    /// The model.
    pub(crate) model: Loaded,
    /// The atomicity.
    pub(crate) rmw: RmwAtomicity,
}

/// Parses the name of a model on the command line.
#[derive(Clone, Debug)]
pub(crate) struct ModelParser;

impl TypedValueParser for ModelParser {
    type Value = ModelChoice;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<ModelChoice, clap::Error> {
        let text = value.to_string_lossy();
        parse_model(&text).ok_or_else(|| {
            let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
            if let Some(arg) = arg {
                error.insert(ContextKind::InvalidArg, ContextValue::String(arg.to_string()));
            }
            error.insert(ContextKind::InvalidValue, ContextValue::String(text.into_owned()));
            let valid = names().chain(["FILE.cat"]).map(str::to_owned).collect();
            error.insert(ContextKind::ValidValue, ContextValue::Strings(valid));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let file = PossibleValue::new("FILE.cat").help("a model file (docs/models.md)");
        Some(Box::new(names().map(PossibleValue::new).chain([file])))
    }
}

/// Returns the names of the models that are no files.
fn names() -> impl Iterator<Item = &'static str> {
    let rdma = Model::every().map(Model::name);
    // `sc` is a model of either language.
    let corerma = Variant::ALL.into_iter().filter(|&v| v != Variant::Sc);
    rdma.chain(corerma.map(Variant::name))
}

fn parse_model(text: &str) -> Option<ModelChoice> {
    let is_file = Path::new(text).extension().is_some_and(|e| e == "cat");
    let file = || is_file.then(|| ModelChoice::File(text.to_owned()));
    let rdma = text.parse().ok().map(ModelChoice::BuiltIn);
    rdma.or_else(|| text.parse().ok().map(ModelChoice::CoreRma))
        .or_else(file)
}

impl std::str::FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        let with_atomicity = text
            .rsplit_once('/')
            .and_then(|(model, rmw)| Some((model, rmw.parse::<RmwAtomicity>().ok()?)));
        let (model, rmw) = with_atomicity.unwrap_or((text, RmwAtomicity::default()));
        match parse_model(model) {
            Some(model) => Ok(Choice { model, rmw }),
            None => Err(match text.parse::<Setting>() {
                Err(error) => format!("{error}, or a model file (*.cat)"),
                Ok(_) => "not a model".to_owned(),
            }),
        }
    }
}

impl Choice {
    /// Reads the model.
    pub(crate) fn load(&self) -> Result<Under, Error> {
        Ok(Under {
            model: load(&self.model)?,
            rmw: self.rmw,
        })
    }
}

/// Reads a model. Errors and warnings of a file are printed.
pub(crate) fn load(choice: &ModelChoice) -> Result<Loaded, Error> {
    let name = match choice {
        ModelChoice::BuiltIn(model) => return Ok(Loaded::BuiltIn(*model)),
        ModelChoice::CoreRma(model) => return Ok(Loaded::CoreRma(*model)),
        ModelChoice::File(name) => name,
    };
    let text = text_of(name)?;
    match ModelFile::parse(name, &text, &Files) {
        Ok(file) => {
            diagnostics::print_model(file.warnings());
            Ok(Loaded::File(Arc::new(file)))
        }
        Err(errors) => {
            diagnostics::print_model(&errors);
            Err(Error::Model(name.clone()))
        }
    }
}

/// Folders in which model files are looked up, besides those of the files that include them.
static FOLDERS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Makes folders known in which model files are looked up. The first call counts.
pub(crate) fn look_in(folders: Vec<PathBuf>) -> Result<(), Error> {
    if let Some(wrong) = folders.iter().find(|f| !f.is_dir()) {
        return Err(Error::Usage(format!(
            "-I {}: there is no such folder",
            wrong.display()
        )));
    }
    FOLDERS.get_or_init(|| folders);
    Ok(())
}

/// Returns the path of a file in one of the folders, if it is in one.
fn in_folders(name: &str) -> Option<PathBuf> {
    let folders = FOLDERS.get().into_iter().flatten();
    folders.map(|f| f.join(name)).find(|path| path.exists())
}

/// Returns the text of a model file, of one in the folders of `-I`, or of the embedded one of that name.
pub(crate) fn text_of(name: &str) -> Result<String, Error> {
    if let (false, Some(path)) = (Path::new(name).exists(), in_folders(name)) {
        return model_text(&path);
    }
    match (model_text(Path::new(name)), cat::find(name)) {
        (Ok(text), _) => Ok(text),
        (Err(_), Some(embedded)) if !Path::new(name).exists() => Ok(embedded.to_owned()),
        (Err(error), _) => Err(error),
    }
}

/// Reads a text, as far as the parser of model files takes. A text that is not UTF-8 is drawn with the place where it ceases to be.
fn model_text(path: &Path) -> Result<String, Error> {
    let bytes = read::start(path, limits::SOURCE_BYTES_MAX as u64)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        // The text was cut, perhaps inside a character. What is left is too long and is refused for that.
        Err(error) if error.as_bytes().len() > limits::SOURCE_BYTES_MAX => {
            Ok(String::from_utf8_lossy(error.as_bytes()).into_owned())
        }
        Err(error) => {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let name = path.display().to_string();
            diagnostics::print_not_utf8(&name, &String::from_utf8_lossy(valid));
            Err(Error::Model(name))
        }
    }
}

/// Marks the names of embedded files, so that what they include is embedded too.
const EMBEDDED: &str = "built-in ";

/// Finds included files: beside the file that includes them, in the folders of `-I`, or else embedded.
pub(crate) struct Files;

impl Includes for Files {
    fn read(&self, includer: &str, path: &str) -> Result<Included, String> {
        if !includer.starts_with(EMBEDDED) {
            let folder = Path::new(includer).parent().unwrap_or(Path::new(""));
            let beside = Some(folder.join(path)).filter(|path| path.exists());
            if let Some(found) = beside.or_else(|| in_folders(path)) {
                return match model_text(&found) {
                    Ok(text) => Ok(Included {
                        name: found.display().to_string(),
                        text,
                    }),
                    Err(error) => Err(error.to_string()),
                };
            }
        }
        match cat::find(path) {
            Some(text) => Ok(Included {
                name: format!("{EMBEDDED}{path}"),
                text: text.to_owned(),
            }),
            None => Err("there is no such file beside it, in a folder of -I, or built in".to_owned()),
        }
    }
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loaded::BuiltIn(model) => f.pad(model.name()),
            Loaded::CoreRma(model) => fmt::Display::fmt(model, f),
            Loaded::File(file) => f.pad(file.name()),
        }
    }
}

impl fmt::Display for Under {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rmw {
            RmwAtomicity::Hca => write!(f, "{}", self.model),
            RmwAtomicity::Glob => write!(f, "{}/glob", self.model),
        }
    }
}

impl From<Setting> for Under {
    fn from(setting: Setting) -> Under {
        Under {
            model: Loaded::BuiltIn(setting.model),
            rmw: setting.rmw,
        }
    }
}

impl Under {
    /// Returns the settings of a model file for a program: both atomicities if it has remote read-modify-writes.
    pub(crate) fn of_file(file: &Arc<ModelFile>, program: &Program) -> Vec<Under> {
        let atomicities: &[RmwAtomicity] = match Features::of(program).rmw {
            true => &RmwAtomicity::ALL,
            false => &[RmwAtomicity::Hca],
        };
        let under = |&rmw: &RmwAtomicity| Under {
            model: Loaded::File(file.clone()),
            rmw,
        };
        atomicities.iter().map(under).collect()
    }

    /// Returns the setting of a built-in model, for which tests state verdicts.
    pub(crate) fn setting(&self) -> Option<Setting> {
        match self.model {
            Loaded::BuiltIn(model) => Some(Setting { model, rmw: self.rmw }),
            Loaded::CoreRma(_) | Loaded::File(_) => None,
        }
    }

    /// Finds the outcomes that the test's conditions show. The error says why the model does not apply.
    pub(crate) fn decide(
        &self,
        litmus: &Litmus,
        engine: Engine,
        budget: &Budget<'_>,
    ) -> Result<Answer, String> {
        match (&self.model, self.setting()) {
            (Loaded::File(file), _) => {
                let operands = litmus.all_shown();
                let operands = (!litmus.queries.is_empty()).then_some(operands.as_slice());
                let search = cat::decide(&litmus.program, file, self.rmw, operands, budget);
                search.map(answer).map_err(|e| e.to_string())
            }
            (_, Some(setting)) => check::decide(litmus, setting, engine, budget).map_err(|e| e.to_string()),
            (Loaded::CoreRma(model), None) => Err(not_of_corerma(*model)),
            (Loaded::BuiltIn(_), None) => unreachable!("a built-in model has a setting"),
        }
    }

    /// Finds all outcomes of a program. The error says why the model does not apply.
    pub(crate) fn outcomes(
        &self,
        program: &Program,
        engine: Engine,
        budget: &Budget<'_>,
    ) -> Result<Search, String> {
        match (&self.model, self.setting()) {
            (Loaded::File(file), _) => {
                cat::decide(program, file, self.rmw, None, budget).map_err(|e| e.to_string())
            }
            (_, Some(setting)) => check::run(program, setting, engine, budget)
                .map(|a| a.search)
                .map_err(|e| e.to_string()),
            (Loaded::CoreRma(model), None) => Err(not_of_corerma(*model)),
            (Loaded::BuiltIn(_), None) => unreachable!("a built-in model has a setting"),
        }
    }

    /// Refuses engines that a model file does not have.
    pub(crate) fn allows(&self, engine: Engine) -> Result<(), Error> {
        match (&self.model, engine) {
            (Loaded::File(file), Engine::Operational | Engine::Concrete | Engine::Both) => {
                Err(Error::Usage(format!(
                    "--engine {engine}: {} is a model file, which has axioms and no machine: use --engine declarative",
                    file.name()
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Finds a model that is of coreRMA and not of RDMA, as `sc` is.
pub(crate) fn corerma_alone(name: &str) -> Option<CoreRma> {
    name.parse().ok().filter(|&model| model != CoreRma::SC)
}

/// Says that a model of coreRMA does not apply.
pub(crate) fn not_of_corerma(model: CoreRma) -> String {
    format!(
        "{model} does not apply: the test is not of coreRMA; `mowgli distinguish rdma-tso {model}` compares the two on the programs that \
         they share"
    )
}

/// Returns the model under which a test of coreRMA is asked about: `corerma` unless one is named.
pub(crate) fn of_corerma(named: Option<Loaded>) -> Result<CoreRma, Error> {
    match named {
        None => Ok(CoreRma::STOCK),
        Some(model) => model.of_corerma().ok_or_else(|| {
            Error::Usage(format!(
                "{model} does not apply: the test is of coreRMA, whose models are {}",
                Variant::ALL.map(Variant::name).join(", ")
            ))
        }),
    }
}

impl Loaded {
    /// Returns the model as one of coreRMA: `sc` is one of either language.
    pub(crate) fn of_corerma(&self) -> Option<CoreRma> {
        match self {
            Loaded::CoreRma(model) => Some(*model),
            Loaded::BuiltIn(Model::Sc) => Some(CoreRma::SC),
            Loaded::BuiltIn(_) | Loaded::File(_) => None,
        }
    }
}

fn answer(search: Search) -> Answer {
    Answer {
        search,
        disagreement: None,
    }
}
