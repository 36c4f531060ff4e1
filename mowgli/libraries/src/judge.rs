//! Judges clients under a setting and over a network: their outcomes, and the verdict on each condition.

use std::fmt;
use std::str::FromStr;

use mowgli::model::{Tier, UnknownName};
use mowgli::outcome::Budget;

use crate::client::outcome::Outcomes;
use crate::client::{Client, Formula, Query, Setting, Verdict};
use crate::implementation::Rules;
use crate::outcomes::outcomes;
use crate::tower::{Tower, UnknownTower};

/// The most iterations of a client's loops that are considered, unless the caller says otherwise.
pub const ITERATIONS_MAX: u32 = 3;

/// A setting, or several that compose, over a network. Its name is that of the setting (`spec`, `I_RBL+I_SV`), with the tier if the
/// network is not the papers' (`spec+ooo-rw`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Under {
    /// The setting.
    pub setting: Tower,
    /// The tier of the network.
    pub tier: Tier,
}

impl Under {
    /// Returns the rules. Returns `None` for `shipped`, which code runs.
    pub fn rules(self, iterations_max: u32) -> Option<Rules<'static>> {
        Some(rules(self.setting, iterations_max)?.on(self.tier))
    }

    /// Returns the verdict that the client states on a condition. Clients state verdicts about the papers' network.
    pub fn stated(self, query: &Query) -> Option<Verdict> {
        let stated = self
            .setting
            .single()
            .and_then(|s| query.expected.get(&s).copied());
        stated.filter(|_| self.tier == Tier::Ibta)
    }
}

impl From<Tower> for Under {
    fn from(setting: Tower) -> Under {
        Under {
            setting,
            tier: Tier::Ibta,
        }
    }
}

impl From<Setting> for Under {
    fn from(setting: Setting) -> Under {
        Tower::from(setting).into()
    }
}

impl fmt::Display for Under {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tier {
            Tier::Ibta => write!(f, "{}", self.setting),
            tier => write!(f, "{}+{tier}", self.setting),
        }
    }
}

/// A name that is not that of a setting over a network.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownUnder {
    /// There is no such setting.
    #[error(transparent)]
    Setting(#[from] UnknownTower),
    /// There is no such tier.
    #[error(transparent)]
    Tier(#[from] UnknownName),
}

mowgli::debug_as_display!(UnknownUnder);

impl FromStr for Under {
    type Err = UnknownUnder;

    fn from_str(name: &str) -> Result<Under, UnknownUnder> {
        // A last part that is no setting is the tier.
        let (setting, tier) = match name.rsplit_once('+') {
            Some((setting, tier)) if tier.parse::<Setting>().is_err() => (setting, tier),
            _ => (name, Tier::Ibta.name()),
        };
        Ok(Under {
            setting: setting.parse()?,
            tier: tier.parse()?,
        })
    }
}

/// Returns the rules of a setting over the papers' network. Returns `None` for `shipped`, which code runs.
pub fn rules(setting: impl Into<Tower>, iterations_max: u32) -> Option<Rules<'static>> {
    setting.into().rules(iterations_max)
}

/// Returns the outcomes of a client under a setting, or `None` where [`rules`] has none.
pub fn outcomes_under(client: &Client, under: impl Into<Under>, budget: Budget<'_>) -> Option<Outcomes> {
    let rules = under.into().rules(ITERATIONS_MAX)?;
    Some(outcomes(client, &rules, budget))
}

/// Returns the outcomes that the specifications of a setting allow over its network. The specifications of `shipped` are
/// what the shipped objects promise.
pub fn outcomes_by_specification(client: &Client, under: impl Into<Under>, budget: Budget<'_>) -> Outcomes {
    let Under { setting, tier } = under.into();
    let rules = Rules {
        libraries: setting.specifications().on(tier),
        implementations: Vec::new(),
        iterations_max: ITERATIONS_MAX,
    };
    outcomes(client, &rules, budget)
}

/// Returns the verdict on a formula, or `None` if the outcomes are incomplete and do not decide it.
pub fn verdict(client: &Client, formula: &Formula, found: &Outcomes) -> Option<Verdict> {
    let holds = found.outcomes.iter().filter(|o| formula.holds(client, o)).count();
    match (holds, found.outcomes.len(), found.is_complete()) {
        (0, _, true) => Some(Verdict::Forbidden),
        (0, _, false) => None,
        (some, all, true) if some == all => Some(Verdict::Required),
        _ => Some(Verdict::Allowed),
    }
}

/// Returns whether a verdict is as expected. A formula that every outcome satisfies is also allowed.
pub fn agrees(expected: Verdict, found: Verdict) -> bool {
    expected == found || (expected, found) == (Verdict::Allowed, Verdict::Required)
}

/// Returns a report on a client under a setting, as `mowgli outcomes` prints it: outcomes, then verdicts.
pub fn report(client: &Client, under: impl Into<Under>, found: &Outcomes) -> String {
    let under = under.into();
    report_as(client, &under.to_string(), &|query| under.stated(query), found)
}

/// Returns a report as [`report`] does, under a name, with the verdicts that are stated on the conditions.
pub fn report_as(
    client: &Client,
    name: &str,
    stated: &dyn Fn(&Query) -> Option<Verdict>,
    found: &Outcomes,
) -> String {
    let mut out = format!("Client {} {name}\n", client.name);
    out.push_str(&format!("Outcomes {}\n", found.outcomes.len()));
    for outcome in &found.outcomes {
        let marks: String = client
            .queries
            .iter()
            .map(|q| {
                if q.condition.formula.holds(client, outcome) {
                    '*'
                } else {
                    ' '
                }
            })
            .collect();
        let line = format!("{marks} {}", outcome.display(client));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    for (at, query) in client.queries.iter().enumerate() {
        let name = client.query_name(at);
        let found = match verdict(client, &query.condition.formula, found) {
            Some(verdict) => verdict.to_string(),
            None => "unknown".to_owned(),
        };
        let stated = match stated(query) {
            Some(verdict) => format!(" (stated: {verdict})"),
            None => String::new(),
        };
        out.push_str(&format!(
            "{name}: {} is {found}{stated}\n",
            client.formula(&query.condition.formula)
        ));
    }
    if let mowgli::outcome::Completeness::Incomplete(limit) = &found.completeness {
        out.push_str(&format!("Incomplete: {limit}\n"));
    }
    out
}
