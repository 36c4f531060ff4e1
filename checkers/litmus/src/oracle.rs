//! Asks the model which outcomes of a test it allows.
//!
//! Without a choice, tests that `wait` are judged by `rdma-wait`, all others by `rdma-tso`, over the tier and with the
//! atomicity that the fabric states. On a fabric of tier `pcie-relaxed` every location is in a region of relaxed ordering,
//! whatever a test says, since that is how such a fabric treats all memory. Relies on `mowgli`'s declarative engine and on its model files. Used by [`crate::job`] and by the
//! inference.

use std::borrow::Cow;
use std::path::Path;
use std::time::{Duration, Instant};

use loco_fabric::{Atomicity, Caps};
use mowgli::cat::{self, Embedded, Included, Includes, ModelFile};
use mowgli::check::{self, Engine, Features};
use mowgli::litmus::Setting;
use mowgli::model::{Model, RmwAtomicity, Tier, UnknownName};
use mowgli::outcome::Budget;
use mowgli::program::Program;
use mowgli_corerma::switches::Model as OfCoreRma;

use crate::allowed::Allowed;
use crate::error::{Error, Result};
use crate::files::read_text;
use crate::test::Test;

/// The longest time that the model may take for a test.
const PATIENCE: Duration = Duration::from_secs(10);

/// The model by which outcomes are judged.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// The model, or `None` for the model that fits the test.
    pub model: Option<Theory>,
    /// The accesses against which remote read-modify-writes are atomic.
    pub atomicity: RmwAtomicity,
    /// The order of the fabric's network.
    pub tier: Tier,
}

/// A model that was chosen.
#[derive(Clone, Debug)]
pub enum Theory {
    /// A built-in model.
    BuiltIn(Model),
    /// A model from a file.
    File(Box<ModelFile>),
    /// A variant of coreRMA, which judges tests of coreRMA only.
    CoreRma(OfCoreRma),
}

impl Oracle {
    /// Makes the oracle for a fabric with these atomics.
    pub fn new(model: Option<Theory>, atomicity: Atomicity) -> Oracle {
        let atomicity = match atomicity {
            Atomicity::Glob => RmwAtomicity::Glob,
            Atomicity::Hca | Atomicity::None => RmwAtomicity::Hca,
        };
        Oracle {
            model,
            atomicity,
            tier: Tier::Ibta,
        }
    }

    /// Makes the oracle for a fabric with these capabilities.
    ///
    /// # Errors
    /// Fails if the models do not know the fabric's tier.
    pub fn of(model: Option<Theory>, caps: &Caps) -> Result<Oracle> {
        let tier = caps.order.tier.name().parse();
        Ok(Oracle {
            tier: tier.map_err(|error: UnknownName| Error::Input(error.to_string()))?,
            ..Oracle::new(model, caps.atomicity)
        })
    }

    /// Returns the outcomes that the model allows of a test that is run as this program. Without a choice, the stock rules judge
    /// tests of coreRMA, as in coreRMA'16 Table 6.
    pub fn judge(&self, test: &Test, program: &Program) -> Allowed {
        match (&test.corerma, &self.model) {
            (Some(corerma), None) => corerma.allowed(OfCoreRma::STOCK, &budget()),
            (Some(corerma), Some(Theory::CoreRma(model))) => corerma.allowed(*model, &budget()),
            _ => self.ask(program),
        }
    }

    /// Returns the outcomes that the model allows of a program. If the model has no meaning for the program, it
    /// allows nothing and the result is not complete.
    pub fn ask(&self, program: &Program) -> Allowed {
        let budget = budget();
        let (model, search) = match &self.model {
            Some(Theory::CoreRma(model)) => {
                return Allowed {
                    model: model.to_string(),
                    ..Allowed::default()
                };
            }
            Some(Theory::File(file)) => {
                let search = cat::outcomes(program, file, self.atomicity, &budget);
                (file.name().to_owned(), search)
            }
            chosen => {
                let model = match chosen {
                    Some(Theory::BuiltIn(model)) => *model,
                    _ => on(self.tier, usual(program)),
                };
                let program = &*self.as_placed(program, model);
                let setting = Setting {
                    model,
                    rmw: self.atomicity,
                };
                match check::run(program, setting, Engine::Declarative, &budget) {
                    Ok(answer) => (model.name().to_owned(), answer.search),
                    Err(_) => {
                        return Allowed {
                            model: model.name().to_owned(),
                            ..Allowed::default()
                        };
                    }
                }
            }
        };
        Allowed {
            model,
            complete: search.is_complete(),
            outcomes: search.outcomes,
        }
    }
}

impl Oracle {
    /// Returns why a test says nothing on this fabric, and the remedy: it asks for regions of relaxed ordering, which neither the
    /// fabric nor the model has.
    pub(crate) fn lacks_regions(&self, program: &Program) -> Option<String> {
        let has_regions = match &self.model {
            Some(Theory::File(_)) => true,
            Some(Theory::BuiltIn(model)) => check::applicable(program, *model).is_ok(),
            Some(Theory::CoreRma(_)) => true,
            None => self.tier == Tier::PcieRelaxed,
        };
        if has_regions || program.locations.iter().all(|location| !location.relaxed) {
            return None;
        }
        Some(format!(
            "it has regions of relaxed ordering, and a fabric of tier {} has none: leave `relaxed` out of the test, or judge it by \
             `--model rdma-tso+pcie-relaxed`",
            self.tier
        ))
    }

    /// Returns the program with its locations in the regions that the fabric has.
    fn as_placed<'p>(&self, program: &'p Program, model: Model) -> Cow<'p, Program> {
        if self.tier != Tier::PcieRelaxed || model.tier() != self.tier {
            return Cow::Borrowed(program);
        }
        let mut program = program.clone();
        for location in &mut program.locations {
            location.relaxed = true;
        }
        Cow::Owned(program)
    }
}

/// Returns what a search for the outcomes of a test may take.
fn budget() -> Budget<'static> {
    Budget {
        deadline: Some(Instant::now() + PATIENCE),
        ..Budget::default()
    }
}

/// Returns the model over a network of this tier; every model that [`usual`] returns has one.
pub fn on(tier: Tier, model: Model) -> Model {
    model.on(tier).unwrap_or(model)
}

/// Returns the model of such a program on a network of tier `ibta`.
pub fn usual(program: &Program) -> Model {
    match Features::of(program).wait {
        true => Model::RdmaWait,
        false => Model::RdmaTso,
    }
}

/// Finds the files that a model file includes: beside it, or else among the built-in ones.
struct Beside;

impl Includes for Beside {
    fn read(&self, includer: &str, path: &str) -> std::result::Result<Included, String> {
        let folder = Path::new(includer).parent().unwrap_or(Path::new(""));
        let beside = folder.join(path);
        if beside.is_file() {
            return match read_text(&beside) {
                Ok(text) => Ok(Included {
                    name: beside.display().to_string(),
                    text,
                }),
                Err(error) => Err(error.to_string()),
            };
        }
        Embedded.read(includer, path)
    }
}

impl Theory {
    /// Returns the built-in model of this name, or the model of this file if the name ends in `.cat`.
    ///
    /// # Errors
    /// Fails if there is no such model, if the file cannot be read, or if the file has a mistake, whose place is
    /// named.
    pub fn named(name: &str) -> Result<Theory> {
        let path = Path::new(name);
        if path.extension().is_none_or(|extension| extension != "cat") {
            if let Ok(model) = name.parse() {
                return Ok(Theory::CoreRma(model));
            }
            let others = "corerma and its variants for tests of coreRMA, or a file `NAME.cat`";
            let model = name
                .parse()
                .map_err(|error| Error::Input(format!("{error}, {others}")))?;
            return Ok(Theory::BuiltIn(model));
        }
        let text = match (read_text(path), cat::find(name)) {
            (Ok(text), _) => text,
            (Err(_), Some(text)) if !path.exists() => text.to_owned(),
            (Err(source), _) => return Err(Error::file(path)(source)),
        };
        let file = ModelFile::parse(name, &text, &Beside).map_err(|errors| {
            let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
            Error::Input(format!("{name}: {}", texts.join("\n")))
        })?;
        Ok(Theory::File(Box::new(file)))
    }
}
