//! Litmus tests to run: from files, from the catalogue, and random ones.
//!
//! Relies on `mowgli`'s language, catalogue and generator. Used by the command and by [`crate::job`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mowgli::catalogue;
use mowgli::generate::{self, Shape, families::Family};
use mowgli::litmus::{self, Condition, Formula, Litmus, Quantifier, Query};
use mowgli::program::Program;
use mowgli_corerma::catalogue as of_corerma;
use mowgli_corerma::litmus as corerma;

use crate::code::Code;
use crate::corerma::CoreRma;
use crate::error::{Error, Result};
use crate::files::read_text;

/// A test to run.
#[derive(Clone, Debug)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// The group of tests that it belongs to: the folder of the catalogue, the pivot of a generated test, or `random`.
    pub family: String,
    /// The test.
    pub litmus: Litmus,
    /// The fingerprint of program and conditions.
    pub hash: String,
    /// The test of coreRMA that this one is run for, if it is.
    pub corerma: Option<CoreRma>,
}

/// The tests that were asked for.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The tests that can be run.
    pub tests: Vec<Test>,
    /// The names of the tests that no fabric can run, each with the reason.
    pub left_out: Vec<(String, &'static str)>,
}

impl Test {
    /// Takes a test.
    pub fn new(litmus: Litmus, family: &str) -> Test {
        Test {
            name: litmus.name.clone(),
            family: family.to_owned(),
            hash: litmus::fingerprint(&litmus),
            litmus,
            corerma: None,
        }
    }

    /// Takes a test of coreRMA. Its conditions are not taken over: every outcome is judged.
    ///
    /// # Errors
    /// Returns why no fabric can run it.
    pub fn of_corerma(litmus: corerma::Litmus, family: &str) -> std::result::Result<Test, &'static str> {
        let (corerma, program) = CoreRma::translate(&litmus)?;
        let mut test = Test::of_program(litmus.name, family, program);
        test.litmus.description = litmus.description;
        test.corerma = Some(corerma);
        Ok(test)
    }

    /// Makes a test without a condition from a program. Its threads get the names that a file of the test requires.
    pub fn of_program(name: String, family: &str, mut program: Program) -> Test {
        for (index, thread) in program.threads.iter_mut().enumerate() {
            thread.name = format!("P{index}");
        }
        let condition = Condition {
            quantifier: Quantifier::Exists,
            formula: Formula::Const(true),
        };
        let litmus = Litmus {
            name,
            description: None,
            program,
            observed: Vec::new(),
            queries: vec![Query {
                condition,
                expected: litmus::Expected::default(),
            }],
            stated: Vec::new(),
        };
        Test::new(litmus, family)
    }
}

/// Returns the tests that `names` name, each a file, a folder of files (with the folders in it), a test or a folder of the
/// catalogue, or `catalogue` for all of it but coreRMA's examples, which have the folder `corerma16`.
///
/// # Errors
/// Fails if a file cannot be read or has a mistake, or if there is no such test.
pub fn load(names: &[String]) -> Result<Loaded> {
    let mut loaded = Loaded::default();
    for name in names {
        let path = Path::new(name);
        if path.is_dir() {
            for file in files(path)? {
                loaded.read(&file)?;
            }
        } else if path.is_file() {
            loaded.read(path)?;
        } else if !loaded.take_examples(name)? {
            loaded.tests.extend(of_catalogue(name)?);
        }
    }
    Ok(loaded)
}

impl Loaded {
    /// Takes a test of coreRMA, or its name and why it is left out.
    fn take(&mut self, litmus: corerma::Litmus, family: &str) {
        let name = litmus.name.clone();
        match Test::of_corerma(litmus, family) {
            Ok(test) => self.tests.push(test),
            Err(why) => self.left_out.push((name, why)),
        }
    }

    /// Takes the examples of coreRMA'16 that a name names. Returns whether there are any.
    fn take_examples(&mut self, name: &str) -> Result<bool> {
        let folder = of_corerma::Entry::FOLDER;
        let mut any = false;
        for entry in of_corerma::entries() {
            if name == folder || name == entry.name {
                let litmus = entry.parse();
                let litmus = litmus.map_err(|error| Error::Input(format!("{}: {error}", entry.name)))?;
                self.take(litmus, folder);
                any = true;
            }
        }
        Ok(any)
    }

    /// Reads a file.
    fn read(&mut self, path: &Path) -> Result<()> {
        let text = read_text(path).map_err(Error::file(path))?;
        let mistake = |error| Error::Input(format!("{}: {error}", path.display()));
        let folder = path.parent().and_then(Path::file_name);
        let folder = folder.map_or("files".into(), |name| name.to_string_lossy());
        let family = |description: &Option<String>| {
            pivot(description.as_deref()).unwrap_or_else(|| folder.clone().into_owned())
        };
        if corerma::is_dialect(&text) {
            let litmus = corerma::parse(&text).map_err(mistake)?.litmus;
            let family = family(&litmus.description);
            self.take(litmus, &family);
        } else {
            let litmus = litmus::parse(&text).map_err(mistake)?.litmus;
            let family = family(&litmus.description);
            self.tests.push(Test::new(litmus, &family));
        }
        Ok(())
    }
}

fn of_catalogue(name: &str) -> Result<Vec<Test>> {
    let chosen = |entry: &&catalogue::Entry| name == "catalogue" || entry.folder == name;
    let mut entries: Vec<_> = catalogue::entries().iter().filter(chosen).collect();
    if entries.is_empty() {
        entries.extend(catalogue::find(name));
    }
    if entries.is_empty() {
        return Err(Error::Input(format!(
            "{name} is no file, no folder, and no test of the catalogue: `mowgli list` lists these"
        )));
    }
    let parse = |entry: &catalogue::Entry| match entry.parse() {
        Ok(litmus) => Ok(Test::new(litmus, entry.folder)),
        Err(error) => Err(Error::Input(format!("{}: {error}", entry.path()))),
    };
    entries.into_iter().map(parse).collect()
}

/// Returns the `.litmus` files below a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(Error::file(&folder))? {
            let path = entry.map_err(Error::file(&folder))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "litmus") {
                found.insert(path);
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// Returns the first pivot that a generated test states in its description.
fn pivot(description: Option<&str>) -> Option<String> {
    let after = description?.split("pivot").nth(1)?;
    let word = after
        .trim_start_matches(['s', ':', ' '])
        .split([',', ';', ' '])
        .next()?;
    // The pivot of a test of coreRMA is a rule, with a colon behind it.
    let word = word.trim_end_matches(':');
    (!word.is_empty()).then(|| word.to_owned())
}

/// Makes `count` random programs that can run on a fabric. Seeds count from `seed`. Seeds whose program cannot run
/// are skipped.
pub fn random(count: usize, seed: u64) -> Vec<Test> {
    let programs = (seed..).map(|seed| {
        let small = Shape {
            rmw: seed.is_multiple_of(4),
            ..Shape::SMALL
        };
        let (family, program) = match seed % 3 {
            0 => ("random", generate::program(seed, &small)),
            1 => ("random-waits", Family::Waiting.program(seed)),
            _ => ("random-tree", Family::Tree.program(seed)),
        };
        Test::of_program(format!("{family}-{seed}"), family, program)
    });
    let runs =
        |test: &Test| Code::new(&test.litmus.program, 1).is_ok() && !polls_in_vain(&test.litmus.program);
    programs.filter(runs).take(count).collect()
}

/// Returns whether a thread of straight-line code polls more often than it posts. It would hang on a fabric.
fn polls_in_vain(program: &Program) -> bool {
    use mowgli::program::Instr;
    program.threads.iter().any(|thread| {
        let mut open = vec![0i32; usize::from(program.nodes)];
        let node = |loc: mowgli::program::Loc| usize::from(program.locations[usize::from(loc.0)].node.0);
        thread.code.iter().any(|instr| {
            match instr.request().0 {
                Instr::Put { dst: far, .. }
                | Instr::Get { src: far, .. }
                | Instr::RemoteFaa { target: far, .. }
                | Instr::RemoteCas { target: far, .. }
                | Instr::RemoteSwap { target: far, .. } => open[node(*far)] += 1,
                Instr::Poll { node } => open[usize::from(node.0)] -= 1,
                _ => {}
            }
            open.iter().any(|&open| open < 0)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tests_can_be_read_again() {
        for test in random(300, 1) {
            let text = test.litmus.print();
            let read = litmus::parse(&text).unwrap_or_else(|e| panic!("{}: {e}\n{text}", test.name));
            assert_eq!(litmus::fingerprint(&read.litmus), test.hash, "{}", test.name);
        }
    }

    #[test]
    fn a_generated_test_belongs_to_its_first_pivot() {
        let family = |description: &str| {
            let text = format!("RDMA t\n\"{description}\"\n{{ x@1=0; }}\nP0@1 ;\nx := 1 ;\nexists ([x]=1)\n");
            let litmus = litmus::parse(&text).unwrap_or_else(|e| panic!("{e:?}")).litmus;
            pivot(litmus.description.as_deref())
        };
        let generated = "minimal: forbidden by rdma-tso, allowed without its pivots oppo:G7 ob:rb";
        assert_eq!(family(generated).as_deref(), Some("oppo:G7"));
        let one = "minimal: forbidden by rdma-tso, allowed without its pivot G8";
        assert_eq!(family(one).as_deref(), Some("G8"));
        let of_corerma = "pivot IR: P0 X := get(X^1) -> P0 X := get(Y^1); size 9; generated from corerma";
        assert_eq!(family(of_corerma).as_deref(), Some("IR"));
        assert_eq!(family("message passing"), None);
    }
}
