//! Minimal tests of any model by its rules ([`mowgli_generate::suite`]), as a source of `mowgli generate`.

use std::sync::atomic::AtomicBool;

use mowgli::litmus::Verdict;
use mowgli::outcome::{Budget, Limit};
use mowgli_generate::enumerate::{Unit, units};
use mowgli_generate::language::Language;
use mowgli_generate::suite::{Generator, Test};

use super::Args;
use super::source::{Made, Source};
use crate::Error;
use crate::theories::{self, Named};

/// The size of tests if none is given.
const SIZE: usize = 4;

/// The minimal tests of a model.
pub(super) struct Minimal {
    model: Named,
    description: String,
    pivot: Option<String>,
    language: Language,
    units: Vec<Unit>,
}

impl Minimal {
    /// Reads model, pivot and bounds.
    pub(super) fn new(args: &Args) -> Result<Minimal, Error> {
        if args.table6 || args.flushed || args.unconnected || args.decided {
            return Err(Error::Usage(format!(
                "--table6, --flushed, --unconnected and --decided are for models of coreRMA, and {} is none",
                args.model
            )));
        }
        let model = theories::named(&args.model)?;
        let size = theories::size(args.size.unwrap_or(SIZE))?;
        let language = args.bounds.restrict(model.theory.language(size));
        let pivot = args.pivot.clone();
        // A rule that the model does not have is told now.
        Minimal::generator(&model, language, pivot.as_deref())?;
        let by = pivot
            .as_deref()
            .map_or("every rule".to_owned(), |p| format!("rule {p}"));
        Ok(Minimal {
            description: format!(
                "minimal tests of {} by {by}: {}",
                model.identity,
                theories::describe(&language)
            ),
            model,
            pivot,
            units: units(&language),
            language,
        })
    }

    fn generator<'m>(
        model: &'m Named,
        language: Language,
        pivot: Option<&str>,
    ) -> Result<Generator<'m>, Error> {
        Generator::new(&*model.theory, language, pivot).map_err(|e| {
            let rules: Vec<String> = model.theory.rules().iter().map(|r| r.name().to_owned()).collect();
            Error::Usage(format!("{e}; the rules are {}", rules.join(" ")))
        })
    }

    /// Names a test after its unit and place there, which do not depend on the run.
    fn made(&self, unit: usize, place: usize, test: &Test) -> Made {
        let model = self
            .model
            .theory
            .name()
            .trim_end_matches(".cat")
            .replace(['/', '\\'], "-");
        let name = format!("{model}-{}-{unit:05}-{place:04}", test.size);
        let pivot = match &self.pivot {
            Some(pivot) => format!("pivot {pivot}"),
            None => format!("pivots {}", test.rules.join(" ")),
        };
        let description = format!(
            "minimal: forbidden by {}, allowed without its {pivot}",
            self.model.theory.name()
        );
        let verdicts = [(self.model.setting, Verdict::Forbidden)];
        Made {
            text: theories::text(&name, description, &test.program, &test.condition, &verdicts),
            name,
            outcomes: 1,
        }
    }
}

impl Source for Minimal {
    fn describe(&self) -> String {
        self.description.clone()
    }

    fn units(&self) -> usize {
        self.units.len()
    }

    fn unit(&self, unit: usize, cancel: &AtomicBool) -> Result<Vec<Made>, Limit> {
        let budget = Budget {
            cancel: Some(cancel),
            ..Budget::default()
        };
        // The rule's name was looked up when the source was made.
        let generator = Minimal::generator(&self.model, self.language, self.pivot.as_deref())
            .map_err(|_| Limit::Cancelled)?;
        let found = generator.tests(&self.units[unit], &budget)?;
        let tests = found.tests.iter().enumerate();
        Ok(tests.map(|(place, test)| self.made(unit, place, test)).collect())
    }
}
