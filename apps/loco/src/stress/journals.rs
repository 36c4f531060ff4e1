//! The files in which the nodes of `loco stress` record their calls, and the fabric that they chose.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use loco::fabric::Secret;
use loco_history::{History, read_journal};
use serde::de::DeserializeOwned;

use crate::error::CliError;

/// The file with the name of the fabric.
const FABRIC: &str = "fabric";

/// A directory for the journals, removed at the end.
pub(super) struct Journals(PathBuf);

impl Journals {
    /// Chooses a name that no other directory has. The launcher makes the directory.
    pub(super) fn new() -> Result<Journals, CliError> {
        let name = format!("loco-stress-{}", Secret::random_text()?);
        Ok(Journals(std::env::temp_dir().join(name)))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.0
    }

    /// Reads all journals and removes them. This comes before the check, which takes long and may be
    /// interrupted.
    pub(super) fn read(self) -> Result<Recorded, CliError> {
        let reading = || CliError::os("reading the journals");
        let mut recorded = BTreeMap::new();
        for entry in std::fs::read_dir(&self.0).map_err(reading())? {
            let path = entry.map_err(reading())?.path();
            let bytes = std::fs::read(&path).map_err(reading())?;
            recorded.insert(path.file_name().map(OsStr::to_owned).unwrap_or_default(), bytes);
        }
        Ok(Recorded(recorded))
    }
}

/// The contents of the journals, by the names of their files.
pub(super) struct Recorded(BTreeMap<OsString, Vec<u8>>);

impl Recorded {
    /// Returns the name of the fabric that the nodes used.
    pub(super) fn fabric(&self) -> String {
        let name = self.0.get(OsStr::new(FABRIC)).map_or(&[][..], Vec::as_slice);
        String::from_utf8_lossy(name).into_owned()
    }

    /// Returns the calls of one thread.
    pub(super) fn of<C: DeserializeOwned, R: DeserializeOwned>(
        &self,
        part: &str,
        node: u16,
        thread: u16,
    ) -> Result<History<C, R>, CliError> {
        let failed = |error| CliError::Os {
            what: "reading a journal",
            source: error,
        };
        let name = name(part, node, thread);
        let bytes = self.0.get(OsStr::new(&name));
        let bytes = bytes.ok_or_else(|| failed(io::Error::other(format!("there is no {name}"))))?;
        read_journal(&bytes[..]).map_err(|error| failed(io::Error::other(error)))
    }
}

impl Drop for Journals {
    fn drop(&mut self) {
        // An error here would help nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Records the name of the fabric in use.
pub(super) fn write_fabric(directory: &Path, name: &str) -> Result<(), CliError> {
    std::fs::write(directory.join(FABRIC), name).map_err(CliError::os("writing the name of the fabric"))
}

/// Returns the path of a thread's journal. `part` distinguishes two histories of one thread.
pub(super) fn path(directory: &Path, part: &str, node: u16, thread: u16) -> PathBuf {
    directory.join(name(part, node, thread))
}

fn name(part: &str, node: u16, thread: u16) -> String {
    format!("{part}-{node}-{thread}.jsonl")
}
