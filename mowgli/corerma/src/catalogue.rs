//! Embeds the examples of coreRMA'16, every file of `litmus/corerma16/`, so that the command works without the repository.
//!
//! The test `catalogue` compares the list with the folder. Used by the command and by tests.

use mowgli::litmus::ParseError;

use crate::litmus::{self, Litmus};

/// Builds the list of entries. The paths are relative to this file.
macro_rules! entries {
    ($($name:literal),* $(,)?) => {
        &[$(Entry {
            name: $name,
            source: include_str!(concat!("../litmus/", $name, ".litmus")),
            expected: include_str!(concat!("../litmus/", $name, ".litmus.expected")),
        }),*]
    };
}

/// Every entry, sorted by name.
const ENTRIES: &[Entry] = entries![
    "RMA-1",
    "RMA-1-plain",
    "RMA-3a",
    "RMA-3a-plain",
    "RMA-3b",
    "RMA-3b-plain",
    "RMA-3c",
    "RMA-3c-plain",
    "RMA-3d",
    "RMA-3d-plain",
    "RMA-6",
    "RMA-7-left",
    "RMA-7-right",
    "RMA-8",
    "RMA-9",
    "RMA-MP4",
];

/// A test as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The test's name.
    pub name: &'static str,
    /// Its text.
    pub source: &'static str,
    /// The `.expected` file: the reports under every model, without times.
    pub expected: &'static str,
}

impl Entry {
    /// The folder below `litmus/`.
    pub const FOLDER: &'static str = "corerma16";

    /// Parses the test.
    ///
    /// # Errors
    ///
    /// None for the entries of [`entries`]: a test parses them all.
    pub fn parse(&self) -> Result<Litmus, ParseError> {
        litmus::parse(self.source).map(|parsed| parsed.litmus)
    }

    /// Returns the path below the repository.
    pub fn path(&self) -> String {
        format!("litmus/{}/{}.litmus", Entry::FOLDER, self.name)
    }
}

/// Returns every entry, sorted by name.
pub fn entries() -> &'static [Entry] {
    ENTRIES
}

/// Finds the entry of this name. If no entry has the exact name, the case of letters is ignored.
pub fn find(name: &str) -> Option<&'static Entry> {
    let exact = ENTRIES.iter().find(|e| e.name == name);
    exact.or_else(|| ENTRIES.iter().find(|e| e.name.eq_ignore_ascii_case(name)))
}
