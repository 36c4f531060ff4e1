//! The answer to `parse`, and the names in it that every language of tests has.

use mowgli::litmus::KEYWORDS;
use mowgli::program::Location;
use serde::Serialize;

use crate::text::{Diagnostic, Range};

#[derive(Default, Serialize)]
pub(crate) struct Answer {
    /// `litmus`, `corerma`, `client` or `model`: what the text was read as.
    pub(super) kind: &'static str,
    pub(super) name: Option<String>,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Names that can be completed.
    pub(super) names: Vec<Name>,
    /// Models or settings that apply, and others with the reason why they do not.
    pub(super) settings: Vec<SettingEntry>,
    /// The conditions, as formulas and with their quantifiers.
    pub(super) conditions: Vec<ConditionEntry>,
    /// Where the text has each instruction, by thread.
    pub(super) instructions: Vec<Vec<Range>>,
    /// Whether the text can be run.
    pub(super) usable: bool,
}

#[derive(Serialize)]
pub(super) struct Name {
    name: String,
    /// `keyword`, `location`, `register`, `object`, `method`, `model`, `set` or `relation`.
    kind: &'static str,
    detail: String,
}

#[derive(Serialize)]
pub(super) struct SettingEntry {
    pub(super) name: String,
    pub(super) summary: String,
    /// Why it has no meaning for this text.
    pub(super) not_applicable: Option<String>,
    /// Whether robustness and the machine are defined: of built-in models.
    pub(super) has_machine: bool,
    pub(super) has_robustness: bool,
    /// The tier of the network, if it is not that of the papers.
    pub(super) tier: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct ConditionEntry {
    pub(super) name: String,
    pub(super) condition: String,
    pub(super) formula: String,
}

pub(super) fn name(name: &str, kind: &'static str, detail: impl Into<String>) -> Name {
    Name {
        name: name.to_owned(),
        kind,
        detail: detail.into(),
    }
}

/// Returns the keywords of litmus tests, which all languages share.
pub(super) fn keywords() -> Vec<Name> {
    KEYWORDS.iter().map(|word| name(word, "keyword", "")).collect()
}

/// Returns the names of locations.
pub(super) fn locations(locations: &[Location]) -> impl Iterator<Item = Name> {
    let detail = |location: &Location| format!("on node {}", location.node);
    locations
        .iter()
        .map(move |location| name(&location.name, "location", detail(location)))
}
