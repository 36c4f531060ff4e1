//! Models for which tests are generated, by name: built-in ones, model files, and those of coreRMA on the language that they share with
//! RDMA ([`mowgli_corerma::common`]).

use std::cell::RefCell;
use std::collections::BTreeSet;

use mowgli::cat::{Included, Includes};
use mowgli::check::applicable;
use mowgli::counted::counted;
use mowgli::explore;
use mowgli::litmus::{self, Condition, Litmus, Quantifier, Query, Setting, Verdict};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::outcome::{Budget, Limit, Outcome};
use mowgli::program::Program;
use mowgli_corerma::common;
use mowgli_corerma::switches::Model as CoreRma;
use mowgli_generate::file::FromFile;
use mowgli_generate::language::{Language, Regions};
use mowgli_generate::theory::{BuiltIn, Rule, Theory};

use crate::{Error, choice, diagnostics, values};

/// A model by name.
pub(crate) struct Named {
    /// The model.
    pub(crate) theory: Box<dyn Theory>,
    /// The setting of a built-in model.
    pub(crate) setting: Option<Setting>,
    /// The model of coreRMA.
    pub(crate) corerma: Option<CoreRma>,
    /// Name and atomicity, and for a file also a fingerprint of its text and of the texts that it includes. Two
    /// models with one identity are the same.
    pub(crate) identity: String,
}

/// Keeps the texts of the files that a model file includes.
#[derive(Default)]
struct Recorded(RefCell<String>);

impl Includes for Recorded {
    fn read(&self, includer: &str, path: &str) -> Result<Included, String> {
        let included = choice::Files.read(includer, path)?;
        self.0.borrow_mut().push_str(&included.text);
        Ok(included)
    }
}

/// Finds a model: a built-in one, with `/glob` for the other atomicity of remote read-modify-writes, or a file `*.cat`.
pub(crate) fn named(name: &str) -> Result<Named, Error> {
    if name.ends_with(".cat") {
        let text = choice::text_of(name)?;
        let files = Recorded::default();
        let parsed = FromFile::parse(name, &text, &files, RmwAtomicity::Hca);
        let theory = parsed.map_err(|errors| {
            diagnostics::print_model(&errors);
            Error::Model(name.to_owned())
        })?;
        return Ok(Named {
            theory: Box::new(theory),
            setting: None,
            corerma: None,
            identity: format!(
                "{name} ({})",
                litmus::fingerprint_of(&(text + &files.0.into_inner()))
            ),
        });
    }
    if let Some(model) = choice::corerma_alone(name) {
        return Ok(Named {
            theory: Box::new(Shared {
                model,
                name: model.to_string(),
            }),
            setting: None,
            corerma: Some(model),
            identity: model.to_string(),
        });
    }
    let setting: Setting = name.parse().map_err(|e| {
        Error::Usage(format!(
            "{e}, a model of coreRMA (corerma, corerma-ib, ...), or a file *.cat"
        ))
    })?;
    Ok(Named {
        theory: Box::new(BuiltIn::new(setting.model, setting.rmw)),
        setting: Some(setting),
        // Tests of coreRMA state verdicts for `sc`, too.
        corerma: (setting.model == Model::Sc).then_some(CoreRma::SC),
        identity: setting.to_string(),
    })
}

/// A model of coreRMA on programs of RDMA.
struct Shared {
    model: CoreRma,
    name: String,
}

impl Theory for Shared {
    fn name(&self) -> &str {
        &self.name
    }

    fn language(&self, size: u8) -> Language {
        Language {
            constant_puts: false,
            fences: false,
            remote_fences: false,
            cas: false,
            regions: Regions::Unknown,
            ..Language::of(Model::RdmaTso, size)
        }
    }

    fn applies(&self, program: &Program) -> bool {
        common::from_rdma(program).is_some()
    }

    fn outcomes(&self, program: &Program, _: &Budget<'_>) -> Result<BTreeSet<Outcome>, Limit> {
        let translated = common::from_rdma(program);
        let found = translated.and_then(|program| common::outcomes(&program, &self.model.switches()));
        found.ok_or_else(|| Limit::TooLarge(format!("a program has no outcomes under {}", self.name)))
    }

    fn rules(&self) -> Vec<Box<dyn Rule + '_>> {
        // `mowgli generate` has a generator of its own for the rules of coreRMA.
        Vec::new()
    }
}

impl Named {
    /// Returns whether the machine of a built-in model reaches the condition; nothing for other models, or if a limit was reached.
    pub(crate) fn machine_allows(
        &self,
        program: &Program,
        condition: &mowgli_generate::condition::Condition,
        budget: &Budget<'_>,
    ) -> Option<bool> {
        let setting = self.setting?;
        let mut program = program.clone();
        if !setting.model.tier().has_relaxed_regions() {
            // To such a model a region is memory like any other.
            program.locations.iter_mut().for_each(|l| l.relaxed = false);
        }
        let program = &program;
        applicable(program, setting.model).ok()?;
        let found = explore::outcomes(program, setting.model, setting.rmw, budget);
        let allows = found.outcomes.iter().any(|o| condition.holds(o));
        (allows || found.is_complete()).then_some(allows)
    }
}

/// Bounds on the programs of generated tests.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Bounds {
    /// Most threads (processes) of a test
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<usize>(1..=SIZE_MAX as u64))]
    pub(crate) processes: Option<usize>,
    /// Most nodes of a test
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u8>(1..=PLACES_MAX))]
    nodes: Option<u8>,
    /// Most locations of a test
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = values::whole::<u8>(1..=PLACES_MAX))]
    locations: Option<u8>,
    /// What tests do not have: mfence, rfence, cas, poll, wait, put, strong (requests for strong order), relaxed (regions)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = ["mfence", "rfence", "cas", "poll", "wait", "put", "strong", "relaxed"])]
    without: Vec<String>,
    /// Also use remote read-modify-writes
    #[arg(long = "with-rmw")]
    rmw: bool,
}

/// The most nodes of a test, and the most locations.
const PLACES_MAX: u64 = 8;
/// The most instructions of a test, and the most threads.
pub(crate) const SIZE_MAX: usize = 12;

impl Bounds {
    /// Returns whether an option besides the number of processes is given.
    pub(crate) fn is_of_instructions(&self) -> bool {
        self.nodes.is_some() || self.locations.is_some() || !self.without.is_empty() || self.rmw
    }

    /// Restricts a language, which is a model's own, to what the options admit.
    pub(crate) fn restrict(&self, language: Language) -> Language {
        let has = |name: &str| !self.without.iter().any(|w| w == name);
        let threads = self.processes.map(|n| n as u8);
        Language {
            threads: threads.unwrap_or(language.threads),
            nodes: self.nodes.unwrap_or(language.nodes),
            locations: self.locations.unwrap_or(language.locations),
            remote: language.remote && has("put"),
            constant_puts: language.constant_puts && has("put"),
            fences: language.fences && has("mfence"),
            remote_fences: language.remote_fences && has("rfence"),
            cas: language.cas && has("cas"),
            polls: language.polls && has("poll"),
            waits: language.waits && has("wait"),
            rmw: language.remote && self.rmw,
            strong: language.strong && has("strong") && has("put"),
            regions: match has("relaxed") {
                true => language.regions,
                false => Regions::Ignored,
            },
            ..language
        }
    }
}

/// Reads a size.
pub(crate) fn size(size: usize) -> Result<u8, Error> {
    if (1..=SIZE_MAX).contains(&size) {
        return Ok(size as u8);
    }
    Err(Error::Usage(format!(
        "--size {size}: a test has 1 to {SIZE_MAX} instructions"
    )))
}

/// Says in a few words what the programs of a language may have.
pub(crate) fn describe(language: &Language) -> String {
    let parts = [
        (
            language.remote,
            if language.constant_puts {
                "put get"
            } else {
                "put-of-location get"
            },
        ),
        (language.fences, "mfence"),
        (language.remote_fences, "rfence"),
        (language.cas, "cas"),
        (language.rmw, "rmw"),
        (language.polls, "poll"),
        (language.waits, "wait"),
        (language.strong, "strong"),
        (language.relaxed(), "relaxed"),
    ];
    let has: Vec<&str> = parts.iter().filter(|p| p.0).map(|p| p.1).collect();
    format!(
        "size {}, {}, {}, {}; load store {}",
        language.size,
        counted(language.threads, "thread"),
        counted(language.nodes, "node"),
        counted(language.locations, "location"),
        has.join(" ")
    )
}

/// Writes a generated test as text, with a verdict for each built-in model under which it has a meaning; `~exists` for a model without a
/// name in the language.
pub(crate) fn text(
    name: &str,
    description: String,
    program: &Program,
    condition: &mowgli_generate::condition::Condition,
    verdicts: &[(Option<Setting>, Verdict)],
) -> String {
    let stated = verdicts
        .iter()
        .filter_map(|&(setting, verdict)| Some((setting?, verdict)))
        .filter(|(setting, _)| applicable(program, setting.model).is_ok());
    let expected: litmus::Expected = stated.collect();
    let quantifier = match expected.is_empty() {
        true => Quantifier::NotExists,
        false => Quantifier::Exists,
    };
    let litmus = Litmus {
        name: name.to_owned(),
        description: Some(description),
        program: program.clone(),
        observed: Vec::new(),
        queries: vec![Query {
            condition: Condition {
                quantifier,
                formula: condition.formula(),
            },
            expected,
        }],
        stated: Vec::new(),
    };
    litmus.print()
}
