//! Litmus tests to run: from files, from the catalogue, and random ones.
//!
//! Relies on `mowgli`'s language, catalogue and generator. Used by the command and by [`crate::job`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mowgli::catalogue;
use mowgli::generate::{self, Shape, families::Family};
use mowgli::litmus::{self, Condition, Formula, Litmus, Quantifier, Query};
use mowgli::program::Program;

use crate::code::Code;
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
}

impl Test {
    /// Takes a test.
    pub fn new(litmus: Litmus, family: &str) -> Test {
        Test {
            name: litmus.name.clone(),
            family: family.to_owned(),
            hash: litmus::fingerprint(&litmus),
            litmus,
        }
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
/// catalogue, or `catalogue` for all of it.
///
/// # Errors
/// Fails if a file cannot be read or has a mistake, or if there is no such test.
pub fn load(names: &[String]) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for name in names {
        let path = Path::new(name);
        if path.is_dir() {
            for file in files(path)? {
                tests.extend(read(&file)?);
            }
        } else if path.is_file() {
            tests.extend(read(path)?);
        } else {
            tests.extend(of_catalogue(name)?);
        }
    }
    Ok(tests)
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

/// Reads a file. Returns `None` for a test of another dialect: coreRMA's programs are not programs for a queue pair.
fn read(path: &Path) -> Result<Option<Test>> {
    let text = read_text(path).map_err(Error::file(path))?;
    if mowgli::syntax::dialect(&text).is_some_and(|dialect| dialect != "RDMA") {
        return Ok(None);
    }
    let litmus = litmus::parse(&text)
        .map_err(|error| Error::Input(format!("{}: {error}", path.display())))?
        .litmus;
    let folder = path.parent().and_then(Path::file_name);
    let folder = folder.map_or("files".into(), |name| name.to_string_lossy());
    let family = pivot(&litmus).unwrap_or(folder.into_owned());
    Ok(Some(Test::new(litmus, &family)))
}

/// Returns the first pivot that a generated test states in its description.
fn pivot(litmus: &Litmus) -> Option<String> {
    let description = litmus.description.as_ref()?;
    let after = description.split("pivot").nth(1)?;
    let word = after
        .trim_start_matches(['s', ':', ' '])
        .split([',', ';', ' '])
        .next()?;
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
                | Instr::RemoteCas { target: far, .. } => open[node(*far)] += 1,
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
            pivot(&litmus)
        };
        let generated = "minimal: forbidden by rdma-tso, allowed without its pivots oppo:G7 ob:rb";
        assert_eq!(family(generated).as_deref(), Some("oppo:G7"));
        let one = "minimal: forbidden by rdma-tso, allowed without its pivot G8";
        assert_eq!(family(one).as_deref(), Some("G8"));
        assert_eq!(family("message passing"), None);
    }
}
