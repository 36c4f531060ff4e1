//! Embeds the catalogue, every file of `litmus/`, so that the command works without the repository.
//!
//! `table.rs` lists the files. The test `catalogue` compares the list with the folder and rewrites it under `MOWGLI_BLESS=1`.
//! Used by the command and by tests.

use crate::litmus::{self, Litmus, ParseError};

/// Builds an [`Entry`] of the table. The paths are relative to the table's file.
macro_rules! entry {
    ($folder:literal, $name:literal) => {
        Entry {
            folder: $folder,
            name: $name,
            source: include_str!(concat!("../../litmus/", $folder, "/", $name, ".litmus")),
            expected: include_str!(concat!("../../litmus/", $folder, "/", $name, ".litmus.expected")),
        }
    };
}

mod table;

use table::TABLE;

/// A test of the catalogue as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The folder, which names the paper or the theme.
    pub folder: &'static str,
    /// The test's name.
    pub name: &'static str,
    /// Its text.
    pub source: &'static str,
    /// The `.expected` file: the reports of `mowgli check` under every model that applies, without times.
    pub expected: &'static str,
}

impl Entry {
    /// Parses the test.
    ///
    /// # Errors
    ///
    /// None for the entries of [`entries`]: a test parses them all.
    pub fn parse(&self) -> Result<Litmus, ParseError> {
        litmus::parse(self.source).map(|parsed| parsed.litmus)
    }

    /// Returns the path below the repository: `litmus/FOLDER/NAME.litmus`.
    pub fn path(&self) -> String {
        format!("litmus/{}/{}.litmus", self.folder, self.name)
    }
}

/// Returns every entry, sorted by folder and name.
pub fn entries() -> &'static [Entry] {
    TABLE
}

/// Finds the entry of this name. If no entry has the exact name, the case of letters is ignored.
pub fn find(name: &str) -> Option<&'static Entry> {
    let exact = TABLE.iter().find(|e| e.name == name);
    exact.or_else(|| TABLE.iter().find(|e| e.name.eq_ignore_ascii_case(name)))
}
