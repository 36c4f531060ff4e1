//! The built-in catalogue: every file of `litmus/`, embedded so that the command works anywhere.
//!
//! `table.rs` lists the files; the test `catalogue` keeps it equal to the folder (set `MOWGLI_BLESS=1` to rewrite it).

use crate::litmus::{self, Litmus, ParseError};

/// An [`Entry`] of the table; paths start from the table's file.
macro_rules! entry {
    ($folder:literal, $name:literal) => {
        Entry {
            folder: $folder,
            name: $name,
            source: include_str!(concat!("../../../../litmus/", $folder, "/", $name, ".litmus")),
            expected: include_str!(concat!(
                "../../../../litmus/",
                $folder,
                "/",
                $name,
                ".litmus.expected"
            )),
        }
    };
}

mod table;

use table::TABLE;

/// A test of the catalogue, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Folder: the paper or the theme.
    pub folder: &'static str,
    /// The test's name.
    pub name: &'static str,
    /// Its text.
    pub source: &'static str,
    /// What `mowgli check` says of it, without times: the `.expected` file.
    pub expected: &'static str,
}

impl Entry {
    /// The parsed test.
    ///
    /// # Errors
    ///
    /// None for the entries of [`entries`]: a test parses them all.
    pub fn parse(&self) -> Result<Litmus, ParseError> {
        litmus::parse(self.source).map(|parsed| parsed.litmus)
    }

    /// Path below the repository: `litmus/FOLDER/NAME.litmus`.
    pub fn path(&self) -> String {
        format!("litmus/{}/{}.litmus", self.folder, self.name)
    }
}

/// Every entry, by folder and name.
pub fn entries() -> &'static [Entry] {
    TABLE
}

/// The entry of this name (letters may differ in case if no entry has the exact name).
pub fn find(name: &str) -> Option<&'static Entry> {
    let exact = TABLE.iter().find(|e| e.name == name);
    exact.or_else(|| TABLE.iter().find(|e| e.name.eq_ignore_ascii_case(name)))
}
