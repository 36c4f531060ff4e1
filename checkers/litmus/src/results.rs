//! A file of results: one [`Record`] on each line, appended when a test ends. An interrupted run therefore loses
//! nothing and can be continued.
//!
//! Used by the command.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::read_line;
use crate::job::Plan;
use crate::record::Record;
use crate::test::Test;

/// A file of results that grows.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    file: File,
    /// The number of runs in the file for each key.
    there: BTreeMap<Key, u64>,
}

/// Identifies what was run: fingerprint, test, fabric, nodes and stress.
type Key = (String, String, String, usize, String);

fn key(record: &Record) -> Key {
    (
        record.hash.clone(),
        record.test.clone(),
        record.fabric.clone(),
        record.nodes,
        record.stress.clone(),
    )
}

/// Reads the results of a file.
///
/// # Errors
/// Fails if the file cannot be read, or if a line of it is no result. The message names the line.
pub fn read(path: &Path) -> Result<Vec<Record>> {
    let mut file = BufReader::new(File::open(path).map_err(Error::file(path))?);
    let mut records = Vec::new();
    for number in 0.. {
        let Some(line) = read_line(&mut file).map_err(Error::file(path))? else {
            break;
        };
        if line.trim().is_empty() {
            continue;
        }
        let record = serde_json::from_str(&line).map_err(|error| {
            Error::Input(format!(
                "{}:{}: no result of `loco litmus run`: {error}",
                path.display(),
                number + 1
            ))
        })?;
        records.push(record);
    }
    Ok(records)
}

impl Results {
    /// Opens a file, or makes it. A last line that was cut short, by a full disk or a crash, is removed.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written, or if it holds something else.
    pub fn open(path: &Path) -> Result<Results> {
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(Error::file(path))?;
        if !file.metadata().map_err(Error::file(path))?.is_file() {
            let why = "results are kept in a regular file, which can be read again";
            return Err(Error::Input(format!("{}: {why}", path.display())));
        }
        let text = std::fs::read(path).map_err(Error::file(path))?;
        let whole = memchr::memrchr(b'\n', &text).map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(Error::file(path))?;
        }
        let mut there = BTreeMap::new();
        for record in read(path)? {
            let runs: &mut u64 = there.entry(key(&record)).or_default();
            *runs = record.runs.max(*runs);
        }
        file.seek(SeekFrom::End(0)).map_err(Error::file(path))?;
        Ok(Results {
            path: path.to_owned(),
            file,
            there,
        })
    }

    /// Returns whether a test has been run as the plan asks, on a job of `nodes` nodes of this fabric.
    pub fn has(&self, test: &Test, plan: &Plan, fabric: &str, nodes: usize) -> bool {
        let key = (
            test.hash.clone(),
            test.name.clone(),
            fabric.to_owned(),
            nodes,
            plan.stress.to_string(),
        );
        self.there.get(&key).is_some_and(|&runs| runs >= plan.runs)
    }

    /// Appends a result.
    ///
    /// # Errors
    /// Fails if the file cannot be written: the disk is full, for example.
    pub fn append(&mut self, record: &Record) -> Result<()> {
        let line = serde_json::to_string(record)
            .map_err(|error| Error::Input(format!("writing a result as JSON: {error}")))?;
        self.file
            .write_all(format!("{line}\n").as_bytes())
            .map_err(Error::file(&self.path))?;
        self.there.insert(key(record), record.runs);
        Ok(())
    }
}
