//! Judges clients under a setting and over a network: their outcomes, and the verdict on each condition.

use std::fmt;
use std::str::FromStr;

use mowgli::model::{Tier, UnknownName};
use mowgli::outcome::Budget;

use crate::client::outcome::Outcomes;
use crate::client::{Client, Formula, Query, Setting, UnknownSetting, Verdict};
use crate::implementation::{Implementation, Rules};
use crate::implementations::{IBal, IMsw, IRbl, ISv, IW};
use crate::libraries::{Reach, libraries};
use crate::outcomes::outcomes;

/// The most iterations of a client's loops that are considered, unless the caller says otherwise.
pub const ITERATIONS_MAX: u32 = 3;

/// A setting over a network. Its name is that of the setting (`spec`), with the tier if the network is not the papers'
/// (`spec+ooo-rw`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Under {
    /// The setting.
    pub setting: Setting,
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
        let stated = query.expected.get(&self.setting).copied();
        stated.filter(|_| self.tier == Tier::Ibta)
    }
}

impl From<Setting> for Under {
    fn from(setting: Setting) -> Under {
        Under {
            setting,
            tier: Tier::Ibta,
        }
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
    Setting(#[from] UnknownSetting),
    /// There is no such tier.
    #[error(transparent)]
    Tier(#[from] UnknownName),
}

mowgli::debug_as_display!(UnknownUnder);

impl FromStr for Under {
    type Err = UnknownUnder;

    fn from_str(name: &str) -> Result<Under, UnknownUnder> {
        let (setting, tier) = name.split_once('+').unwrap_or((name, Tier::Ibta.name()));
        Ok(Under {
            setting: setting.parse()?,
            tier: tier.parse()?,
        })
    }
}

/// Returns the rules of a setting over the papers' network. Returns `None` for `shipped`, which code runs.
pub fn rules(setting: Setting, iterations_max: u32) -> Option<Rules<'static>> {
    let implementation: Option<&'static dyn Implementation> = match setting {
        Setting::Spec | Setting::TransitiveBarrier | Setting::WeakRing | Setting::PaperRing => None,
        Setting::ImplSv => Some(&ISv {
            strong: false,
            mistake: None,
        }),
        Setting::ImplBarrier => Some(&IBal {
            reach: Reach::Participants,
            mistake: None,
        }),
        Setting::ImplRing => Some(&IRbl {
            strong: false,
            fence_own: false,
            mistake: None,
        }),
        Setting::ImplMixedSize => Some(&IMsw { mistake: None }),
        Setting::ImplWait => Some(&IW { mistake: None }),
        Setting::Shipped => return None,
    };
    Some(Rules {
        libraries: libraries(setting),
        implementations: implementation.into_iter().collect(),
        iterations_max,
    })
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
        libraries: libraries(setting).on(tier),
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
    let mut out = format!("Client {} {under}\n", client.name);
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
        let stated = match under.stated(query) {
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
