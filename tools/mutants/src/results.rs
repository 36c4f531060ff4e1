//! Results of mutations as lines of JSON, in a file that a later run continues.
//!
//! Used by the command `loco-mutants`.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Mutation, Outcome};

/// The result of one mutation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The object.
    pub object: String,
    /// Name of the mutation.
    pub name: String,
    /// [`Mutation::fingerprint`].
    pub change: u64,
    /// True if the changed code runs only after a timeout or a loss.
    pub after_failure: bool,
    /// The reason why the change breaks no promise, if it breaks none.
    pub harmless: Option<String>,
    /// The outcome of the trial.
    pub outcome: Outcome,
}

impl Line {
    /// Makes the result of `mutation`.
    pub fn new(mutation: &Mutation, outcome: Outcome) -> Line {
        Line {
            object: mutation.object.clone(),
            name: mutation.name.clone(),
            change: mutation.fingerprint(),
            after_failure: mutation.after_failure,
            harmless: mutation.harmless.clone(),
            outcome,
        }
    }
}

/// Results so far, and the file that keeps them, if there is one.
#[derive(Debug, Default)]
pub struct Results {
    file: Option<File>,
    of: HashMap<(String, String, u64), Outcome>,
}

impl Results {
    /// Reads the results of a file, which is made if it is not there. The later of two lines about one change holds.
    ///
    /// # Errors
    /// Returns the errors of reading, and `InvalidData` for a line that is no result.
    pub fn open(path: &Path) -> io::Result<Results> {
        let mut results = Results::default();
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        for (at, line) in text.lines().enumerate() {
            let line: Line = serde_json::from_str(line).map_err(|error| {
                let line = at + 1;
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("line {line} is no result: {error}"),
                )
            })?;
            results.keep(&line);
        }
        results.file = Some(OpenOptions::new().create(true).append(true).open(path)?);
        Ok(results)
    }

    /// Returns the outcome of a mutation, if it was tried with its present text.
    pub fn of(&self, mutation: &Mutation) -> Option<&Outcome> {
        let key = (
            mutation.object.clone(),
            mutation.name.clone(),
            mutation.fingerprint(),
        );
        self.of.get(&key)
    }

    /// Adds a result, to the file as well.
    ///
    /// # Errors
    /// Returns the errors of writing.
    pub fn add(&mut self, line: &Line) -> io::Result<()> {
        self.keep(line);
        match &mut self.file {
            Some(file) => file.write_all(format!("{}\n", serde_json::to_string(line)?).as_bytes()),
            None => Ok(()),
        }
    }

    fn keep(&mut self, line: &Line) {
        let key = (line.object.clone(), line.name.clone(), line.change);
        self.of.insert(key, line.outcome.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_run_knows_the_results_of_changes_that_are_as_they_were() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results");
        let mut mutation = Mutation {
            name: "waits-for-none".into(),
            object: "barrier".into(),
            file: "loco/objects/src/objects/barrier.rs".into(),
            find: "wait()".into(),
            replace: String::new(),
            wrong: "waits for none".into(),
            after_failure: false,
            request: false,
            livelock: None,
            network: None,
            program: None,
            tests: None,
            harmless: None,
            planted: false,
            lock_free: false,
        };
        let mut first = Results::open(&path).expect("a new file");
        for outcome in [Outcome::Hangs { seconds: 1.0 }, Outcome::DoesNotBuild] {
            first.add(&Line::new(&mutation, outcome)).expect("it is written");
        }
        let second = Results::open(&path).expect("the file is there");
        assert_eq!(second.of(&mutation), Some(&Outcome::DoesNotBuild));
        mutation.replace = "wait_unfenced()".into();
        assert_eq!(second.of(&mutation), None);
        fs::write(&path, "{}").expect("it is written");
        let error = Results::open(&path).expect_err("no result");
        assert!(error.to_string().starts_with("line 1 "), "{error}");
    }
}
