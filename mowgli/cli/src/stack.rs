//! Implementations as the command line names them: built-in ones, files `*.impl`, and several on one another, `I_RBL+I_SV+mine.impl`.

use std::path::Path;

use mowgli::litmus::limits;
use mowgli_libraries::client::{Library, Setting};
use mowgli_libraries::implementation::{Implementation, Rules};
use mowgli_libraries::implementations::list::{self, Named};
use mowgli_libraries::text::{self, Text};
use mowgli_libraries::tower::Tower;

use crate::{Error, diagnostics, read};

/// Implementations that stand on one another, upper ones first.
pub(crate) struct Stack(Vec<Part>);

enum Part {
    BuiltIn(&'static Named<'static>),
    /// The name on the command line, and what the file says.
    File(String, Box<Text>),
}

impl Part {
    fn name(&self) -> &str {
        match self {
            Part::BuiltIn(named) => named.name,
            Part::File(path, _) => path,
        }
    }

    fn implementation(&self) -> &dyn Implementation {
        match self {
            Part::BuiltIn(named) => named.implementation,
            Part::File(_, text) => &**text,
        }
    }
}

impl Stack {
    /// Reads what a name stands for. Mistakes in files are printed.
    pub(crate) fn load(name: &str) -> Result<Stack, Error> {
        // A path may contain a `+`.
        let names: Vec<&str> = match Path::new(name).exists() {
            true => vec![name],
            false => name.split('+').collect(),
        };
        let mut parts = names
            .into_iter()
            .map(part)
            .collect::<Result<Vec<Part>, Error>>()?;
        parts.sort_by_key(|p| p.implementation().library().layer());
        for pair in parts.windows(2) {
            let [a, b] = [&pair[0], &pair[1]].map(|p| p.implementation().library());
            if a == b {
                return Err(Error::Usage(format!(
                    "{} and {} both implement {}: name one of them",
                    pair[0].name(),
                    pair[1].name(),
                    a.name()
                )));
            }
        }
        Ok(Stack(parts))
    }

    /// Returns the name of the whole.
    pub(crate) fn name(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(Part::name).collect();
        names.join("+")
    }

    /// Returns the implementations, upper ones first.
    pub(crate) fn implementations(&self) -> Vec<&dyn Implementation> {
        self.0.iter().map(Part::implementation).collect()
    }

    /// Returns the specification that the uppermost implementation is compared with, if nobody names another.
    pub(crate) fn setting(&self) -> Setting {
        match self.0.first() {
            Some(Part::BuiltIn(named)) => named.setting,
            _ => Setting::Spec,
        }
    }

    /// Returns the uppermost implementation as the list has it, if it is a built-in one and stands alone.
    pub(crate) fn built_in(&self) -> Option<&'static Named<'static>> {
        match self.0.as_slice() {
            [Part::BuiltIn(named)] => Some(named),
            _ => None,
        }
    }

    /// Returns what is said about the uppermost implementation.
    pub(crate) fn about(&self) -> &str {
        match self.0.first() {
            Some(Part::BuiltIn(named)) => named.about,
            Some(Part::File(_, text)) => text.description().unwrap_or_default(),
            None => "",
        }
    }

    /// Returns the rules of clients that run on it.
    pub(crate) fn rules(&self, iterations_max: u32) -> Rules<'_> {
        let specifications = Tower::from(self.setting()).specifications();
        let rules = Rules {
            libraries: specifications,
            implementations: Vec::new(),
            iterations_max,
        };
        rules.stacked(self.implementations())
    }
}

fn part(name: &str) -> Result<Part, Error> {
    if let Some(named) = list::by_name(name) {
        return Ok(Part::BuiltIn(named));
    }
    if Path::new(name).extension().is_none_or(|e| e != "impl") {
        return Err(Error::Usage(format!(
            "there is no implementation {name}; `mowgli refine --list` names them, and a file of one's own is called *.impl"
        )));
    }
    let source = match (Path::new(name).exists(), text::find(name)) {
        (false, Some(built_in)) => built_in.to_owned(),
        _ => read::text(
            Path::new(name),
            limits::SOURCE_BYTES_MAX as u64,
            "an implementation",
        )?,
    };
    match text::parse(&source) {
        Ok(text) => Ok(Part::File(name.to_owned(), Box::new(text))),
        Err(error) => {
            diagnostics::print(name, &source, &error.diagnostics);
            Err(Error::Model(name.to_owned()))
        }
    }
}

/// The specification with which an implementation is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// The library's usual specification.
    Library(Library),
    /// A variant of the specifications.
    Setting(Setting),
}

impl std::str::FromStr for Of {
    type Err = String;

    fn from_str(word: &str) -> Result<Of, String> {
        let specified = [
            Setting::Spec,
            Setting::TransitiveBarrier,
            Setting::WeakRing,
            Setting::PaperRing,
        ];
        let library = Library::by_word(word).map(Of::Library);
        let setting = || specified.into_iter().find(|s| s.name() == word).map(Of::Setting);
        library.or_else(setting).ok_or_else(|| {
            let libraries = Library::ALL.map(Library::word).join(", ");
            let settings = specified.map(Setting::name).join(", ");
            format!("neither a library ({libraries}) nor a kind of specifications ({settings})")
        })
    }
}

impl Of {
    /// Returns the kind of specifications that the stack is compared with.
    pub(crate) fn setting(of: Option<Of>, stack: &Stack) -> Result<Setting, Error> {
        let library = stack.implementations().first().map(|i| i.library());
        match of {
            None => Ok(stack.setting()),
            Some(Of::Setting(setting)) => Ok(setting),
            Some(Of::Library(asked)) if library == Some(asked) => Ok(stack.setting()),
            Some(Of::Library(asked)) => Err(Error::Usage(format!(
                "--of {}: {} implements {}",
                asked.word(),
                stack.name(),
                library.map_or("nothing", Library::name)
            ))),
        }
    }
}
