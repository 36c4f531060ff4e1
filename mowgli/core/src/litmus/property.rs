//! The properties of programs that statements about robustness name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A property of programs that Robust'25 defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Property {
    /// Every consistent execution is sequentially consistent (Defs. 5 and 11).
    Robust,
    /// Locally data-race free (Def. 7).
    Ldrf,
    /// Fenced (Defs. 8 and 13).
    Fenced,
    /// Tree-fenced (Defs. 9 and 14).
    TreeFenced,
}

impl Property {
    /// Every property.
    pub const ALL: [Property; 4] = [
        Property::Robust,
        Property::Ldrf,
        Property::Fenced,
        Property::TreeFenced,
    ];

    /// Returns the word that files and reports use.
    pub const fn keyword(self) -> &'static str {
        match self {
            Property::Robust => "robust",
            Property::Ldrf => "ldrf",
            Property::Fenced => "fenced",
            Property::TreeFenced => "tree-fenced",
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.keyword())
    }
}
