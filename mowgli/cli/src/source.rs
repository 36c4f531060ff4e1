//! Loads tests from files, folders, `@list` files, standard input and the built-in catalogue.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mowgli::catalogue;
use mowgli::litmus::{Diagnostic, Dialect, Litmus, ParseError, limits, parse};
use mowgli::program::Program;
use mowgli::star::x86;
use mowgli_corerma::catalogue as corerma_catalogue;
use mowgli_corerma::litmus as corerma;

use crate::Error;
use crate::diagnostics::{self, Report};
use crate::read::{self, LIST_BYTES_MAX, error as read_error};

/// Most bytes of a test. Parsers refuse longer texts.
const TEST_BYTES_MAX: u64 = limits::SOURCE_BYTES_MAX as u64;

/// A test that parsed, of RDMA unless its dialect is another.
pub(crate) struct Test<P: Dialect = Program> {
    /// Path, or the catalogue's path of a built-in test.
    pub(crate) path: String,
    /// The text.
    pub(crate) source: String,
    /// The test.
    pub(crate) litmus: Litmus<P>,
}

/// A test of coreRMA that parsed.
pub(crate) type CoreRmaTest = Test<mowgli_corerma::program::Program>;

/// One test, of either language.
pub(crate) enum AnyTest {
    /// Of the models of RDMA.
    Rdma(Test),
    /// Of coreRMA.
    CoreRma(CoreRmaTest),
}

/// The tests, and the diagnostics of their texts, which have been printed.
#[derive(Default)]
pub(crate) struct Loaded {
    /// Tests that parsed.
    pub(crate) tests: Vec<Test>,
    /// Tests of coreRMA that parsed.
    pub(crate) corerma: Vec<CoreRmaTest>,
    /// Errors of the texts that were refused.
    pub(crate) refused: Vec<Report>,
    /// Warnings about the tests.
    pub(crate) warnings: Vec<Report>,
    /// Paths and texts of the tests with warnings, and the warnings, until they are printed.
    unprinted: Vec<(String, String, Vec<Diagnostic>)>,
}

/// Loads every test that the arguments name; the whole catalogue if there are none.
pub(crate) fn load(paths: &[String]) -> Result<Loaded, Error> {
    let mut loaded = Loaded::default();
    if paths.is_empty() {
        for entry in catalogue::entries() {
            loaded.add(entry.path(), entry.source.to_owned());
        }
        for entry in corerma_catalogue::entries() {
            loaded.add(entry.path(), entry.source.to_owned());
        }
    }
    for path in paths {
        loaded.argument(path)?;
    }
    let unprinted = std::mem::take(&mut loaded.unprinted);
    loaded.warnings = diagnostics::print_warnings(&unprinted);
    Ok(loaded)
}

/// Loads the one test of RDMA that an argument names.
pub(crate) fn load_one(path: &str) -> Result<Test, Error> {
    match load_any(path)? {
        AnyTest::Rdma(test) => Ok(test),
        AnyTest::CoreRma(_) => Err(Error::Usage(format!(
            "{path} is a test of coreRMA, which `mowgli check`, `explain`, `compare`, `list` and `show` take"
        ))),
    }
}

/// Loads the one test that an argument names.
pub(crate) fn load_any(path: &str) -> Result<AnyTest, Error> {
    let Loaded {
        mut tests,
        mut corerma,
        refused,
        ..
    } = load(&[path.to_owned()])?;
    match (tests.pop(), corerma.pop(), refused.len()) {
        (Some(test), None, 0) if tests.is_empty() => Ok(AnyTest::Rdma(test)),
        (None, Some(test), 0) if corerma.is_empty() => Ok(AnyTest::CoreRma(test)),
        (_, _, 0) => Err(Error::Usage(format!("{path} holds several tests: name one"))),
        (_, _, n) => Err(Error::Parse(n)),
    }
}

impl Loaded {
    fn argument(&mut self, argument: &str) -> Result<(), Error> {
        if let Some(list) = argument.strip_prefix('@') {
            return self.list(Path::new(list));
        }
        if argument == "-" {
            self.bytes("<stdin>".to_owned(), read::standard_input(TEST_BYTES_MAX)?);
            return Ok(());
        }
        let path = Path::new(argument);
        if path.is_dir() {
            return self.folder(path);
        }
        if path.exists() {
            return self.file(path);
        }
        if let Some(entry) = catalogue::find(argument) {
            self.add(entry.path(), entry.source.to_owned());
            return Ok(());
        }
        let Some(entry) = corerma_catalogue::find(argument) else {
            let hint = nearest(argument);
            return Err(Error::NoSuchTest {
                name: argument.to_owned(),
                hint,
            });
        };
        self.add(entry.path(), entry.source.to_owned());
        Ok(())
    }

    /// Loads what a list names. A list has one path on each line, relative to the list's folder; `#` starts a comment.
    fn list(&mut self, list: &Path) -> Result<(), Error> {
        let text = read::text(list, LIST_BYTES_MAX, "a list of tests")?;
        let folder = list.parent().unwrap_or(Path::new(""));
        let mut is_empty = true;
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            is_empty = false;
            // Lists in lists are not followed, since a list could name itself.
            let path = folder.join(line);
            match path.is_dir() {
                true => self.folder(&path)?,
                false => self.file(&path)?,
            }
        }
        match is_empty {
            true => Err(Error::EmptyList(list.display().to_string())),
            false => Ok(()),
        }
    }

    fn folder(&mut self, folder: &Path) -> Result<(), Error> {
        let mut found = BTreeSet::new();
        collect(folder, &mut found)?;
        if found.is_empty() {
            return Err(Error::NoTests(folder.display().to_string()));
        }
        found.iter().try_for_each(|path| self.file(path))
    }

    fn file(&mut self, path: &Path) -> Result<(), Error> {
        let source = read::start(path, TEST_BYTES_MAX)?;
        self.bytes(path.display().to_string(), source);
        Ok(())
    }

    fn bytes(&mut self, path: String, bytes: Vec<u8>) {
        match String::from_utf8(bytes) {
            Ok(source) => self.add(path, source),
            Err(error) if error.as_bytes().len() > limits::SOURCE_BYTES_MAX => {
                // The text was cut in the middle of a character. What is left is still too long and is refused for that.
                let source = String::from_utf8_lossy(error.as_bytes()).into_owned();
                self.add(path, source);
            }
            Err(error) => {
                let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let valid = String::from_utf8_lossy(valid);
                self.refused.push(diagnostics::print_not_utf8(&path, &valid));
            }
        }
    }

    /// Parses a text in the language of its first word.
    fn add(&mut self, path: String, source: String) {
        if corerma::is_dialect(&source) {
            let parsed = corerma::parse(&source).map(|p| (p.litmus, p.warnings));
            if let Some(litmus) = self.judged(&path, &source, parsed) {
                self.corerma.push(CoreRmaTest { path, source, litmus });
            }
        } else {
            let parsed = match x86::is_x86(&source) {
                true => x86::parse(&source).map(|litmus| (litmus, Vec::new())),
                false => parse(&source).map(|p| (p.litmus, p.warnings)),
            };
            if let Some(litmus) = self.judged(&path, &source, parsed) {
                self.tests.push(Test { path, source, litmus });
            }
        }
    }

    /// Prints the diagnostics of a text and keeps them. Returns the test if there is no error.
    fn judged<L>(
        &mut self,
        path: &str,
        source: &str,
        parsed: Result<(L, Vec<Diagnostic>), ParseError>,
    ) -> Option<L> {
        match parsed {
            Ok((litmus, warnings)) => {
                if !warnings.is_empty() {
                    self.unprinted
                        .push((path.to_owned(), source.to_owned(), warnings));
                }
                Some(litmus)
            }
            Err(error) => {
                self.refused
                    .push(diagnostics::print(path, source, &error.diagnostics));
                None
            }
        }
    }
}

/// Collects every `*.litmus` file below a folder.
fn collect(folder: &Path, out: &mut BTreeSet<PathBuf>) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(|source| read_error(folder, source))? {
        let path = entry.map_err(|source| read_error(folder, source))?.path();
        // Links to folders are not followed: they may lead back.
        if path.is_dir() && !path.is_symlink() {
            collect(&path, out)?;
        } else if path.extension().is_some_and(|e| e == "litmus") {
            out.insert(path);
        }
    }
    Ok(())
}

/// Finds a built-in name that contains the name asked for, or is contained in it.
fn nearest(name: &str) -> Option<String> {
    let wanted = name.to_lowercase();
    let names = || {
        let of_rdma = catalogue::entries().iter().map(|e| e.name);
        of_rdma.chain(corerma_catalogue::entries().iter().map(|e| e.name))
    };
    let close = names().find(|n| n.to_lowercase().contains(&wanted) || wanted.contains(&n.to_lowercase()));
    close.map(str::to_owned)
}
