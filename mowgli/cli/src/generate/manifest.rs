//! The manifest of a folder of generated tests: what is made there, and which units are on disk.
//!
//! It is a file of JSON lines. The first says what is made, each further one says that a unit is complete. A line is added after
//! the unit's tests are written, so a run that was stopped anywhere goes on with the first unit that has no line. When the
//! last unit is complete, the lines are put into order, so that the file does not depend on the number of workers.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::read::{self, RESULT_BYTES_MAX};
use crate::shard::Shard;

/// Version of the form of the file.
const VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    version: u32,
    source: String,
    units: usize,
    shard: String,
}

/// The record of a complete unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unit {
    /// The unit.
    pub(super) unit: usize,
    /// Its tests.
    pub(super) tests: usize,
    /// Outcomes of its tests.
    pub(super) outcomes: usize,
}

/// A manifest that is open for adding lines.
#[derive(Debug)]
pub(super) struct Manifest {
    path: PathBuf,
    file: File,
    header: Header,
    done: BTreeMap<usize, Unit>,
}

impl Manifest {
    /// Opens the manifest of a folder and reads which units are complete, or begins one. Each shard has its own, so that
    /// shards can share a folder.
    ///
    /// # Errors
    ///
    /// Fails when the folder cannot be used, or holds the tests of another source.
    pub(super) fn open(folder: &Path, source: &str, units: usize, shard: Shard) -> Result<Manifest, Error> {
        fs::create_dir_all(folder).map_err(|e| write_error(folder, e))?;
        let name = if shard == Shard::WHOLE {
            "manifest.jsonl".to_owned()
        } else {
            format!("manifest-{}.jsonl", shard.to_string().replace('/', "-of-"))
        };
        let path = folder.join(name);
        let header = Header {
            version: VERSION,
            source: source.to_owned(),
            units,
            shard: shard.to_string(),
        };
        let text = match read::text(&path, RESULT_BYTES_MAX, "a manifest") {
            Ok(text) => text,
            Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let done = lines(&text, &header, &path)?;
        // A crash may leave half of a last line. That is dropped: the file is written anew, and replaced in one step.
        let mut manifest = Manifest {
            file: replace(&path, &render(&header, &done))?,
            path,
            header,
            done,
        };
        manifest
            .file
            .flush()
            .map_err(|e| write_error(&manifest.path, e))?;
        Ok(manifest)
    }

    /// Returns the units that are complete.
    pub(super) fn done(&self) -> &BTreeMap<usize, Unit> {
        &self.done
    }

    /// Adds the line of a unit whose tests are on disk.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub(super) fn complete(&mut self, unit: Unit) -> Result<(), Error> {
        self.done.insert(unit.unit, unit);
        let line = json_line(&unit);
        self.file
            .write_all(line.as_bytes())
            .map_err(|e| write_error(&self.path, e))
    }

    /// Puts the lines into order, when no unit is left.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub(super) fn finish(self) -> Result<(), Error> {
        replace(&self.path, &render(&self.header, &self.done)).map(drop)
    }
}

fn render(header: &Header, done: &BTreeMap<usize, Unit>) -> String {
    let mut text = json_line(header);
    for unit in done.values() {
        text.push_str(&json_line(unit));
    }
    text
}

fn json_line(value: &impl Serialize) -> String {
    // Numbers and texts have a form in JSON.
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}

/// Reads the complete lines, and checks that they are of the same source.
fn lines(text: &str, header: &Header, path: &Path) -> Result<BTreeMap<usize, Unit>, Error> {
    let mut done = BTreeMap::new();
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let mut lines = whole.lines();
    let Some(first) = lines.next() else {
        return Ok(done);
    };
    let of_another = |found: &str| {
        Error::Usage(format!(
            "{} was begun for {found}, and this run is for {}; name another folder, or remove this one",
            path.display(),
            header.source
        ))
    };
    match serde_json::from_str::<Header>(first) {
        Ok(found) if found == *header => {}
        Ok(found) => return Err(of_another(&found.source)),
        Err(_) => return Err(of_another("something else")),
    }
    for (number, line) in lines.enumerate() {
        let unit: Unit = serde_json::from_str(line).map_err(|e| {
            let line = number + 2;
            Error::Usage(format!(
                "{}:{line}: not a line of a manifest ({e}); remove it and its unit is made again",
                path.display()
            ))
        })?;
        done.insert(unit.unit, unit);
    }
    Ok(done)
}

/// Writes a file beside `path` and puts it in its place. Returns the file, open at its end.
fn replace(path: &Path, text: &str) -> Result<File, Error> {
    let beside = path.with_extension("jsonl.new");
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    written.map_err(|e| write_error(path, e))?;
    OpenOptions::new()
        .append(true)
        .open(path)
        .map_err(|e| write_error(path, e))
}

pub(super) fn write_error(path: &Path, source: io::Error) -> Error {
    Error::Write {
        path: path.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_dropped_and_another_source_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut manifest = Manifest::open(folder.path(), "a", 3, Shard::WHOLE).unwrap();
        for unit in [2, 0] {
            let unit = Unit {
                unit,
                tests: 1,
                outcomes: 2,
            };
            manifest.complete(unit).unwrap();
        }
        let path = folder.path().join("manifest.jsonl");
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"unit\":1,");
        fs::write(&path, text).unwrap();
        let manifest = Manifest::open(folder.path(), "a", 3, Shard::WHOLE).unwrap();
        assert_eq!(manifest.done().keys().copied().collect::<Vec<_>>(), [0, 2]);
        let error = Manifest::open(folder.path(), "b", 3, Shard::WHOLE).unwrap_err();
        assert!(error.to_string().contains("was begun for a"), "{error}");
    }
}
