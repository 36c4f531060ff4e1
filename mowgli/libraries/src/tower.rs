//! Towers: settings that compose (LOCO'26 Fig. 1).
//!
//! A ring buffer over shared variables over RDMA^WAIT over RDMA^TSO is `I_RBL+I_SV+I_W`. An implementation calls those below it, and
//! the specifications of the other libraries. Implementations are put in the order of Fig. 1, in whatever order they are named.
//! Theorem 3.14 says that locally sound implementations may be stacked; [`crate::judge`] runs clients on the stack.

use std::fmt;
use std::str::FromStr;

use crate::client::{Setting, UnknownSetting};
use crate::implementation::{Implementation, Rules};
use crate::implementations::{IBal, IMsv, IMsw, IRbl, ISv, IW};
use crate::libraries::{Reach, libraries};
use crate::library::Libraries;

/// The settings that stand for an implementation, upper ones first, and the implementations.
const LAYERS: [(Setting, &dyn Implementation); 6] = [
    (
        Setting::ImplRing,
        &IRbl {
            strong: false,
            fence_own: false,
            mistake: None,
        },
    ),
    (
        Setting::ImplBarrier,
        &IBal {
            reach: Reach::Participants,
            mistake: None,
        },
    ),
    (Setting::ImplMixedVariable, &IMsv { mistake: None }),
    (Setting::ImplMixedSize, &IMsw { mistake: None }),
    (
        Setting::ImplSv,
        &ISv {
            strong: false,
            mistake: None,
        },
    ),
    (Setting::ImplWait, &IW { mistake: None }),
];

/// Specifications, and implementations in place of some of them. Written with `+` between the settings: `I_RBL+I_SV+I_W`, `weak-ring+I_SV`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tower {
    /// A setting that stands for no implementation.
    specifications: Setting,
    /// Which of [`LAYERS`] it has.
    layers: [bool; LAYERS.len()],
}

/// Returns the place of an implementation among [`LAYERS`].
fn layer(setting: Setting) -> Option<usize> {
    LAYERS.iter().position(|(s, _)| *s == setting)
}

impl Tower {
    /// Returns the settings that compose, those of implementations first; at least one.
    pub fn settings(self) -> impl Iterator<Item = Setting> {
        let of_layers = (0..LAYERS.len()).filter(move |&at| self.layers[at]);
        let plain = self.specifications == Setting::Spec && self.layers.contains(&true);
        let specifications = (!plain).then_some(self.specifications);
        of_layers.map(|at| LAYERS[at].0).chain(specifications)
    }

    /// Returns the one setting that it consists of, unless there are several. Clients state verdicts for single settings.
    pub fn single(self) -> Option<Setting> {
        let mut settings = self.settings();
        settings.next().filter(|_| settings.next().is_none())
    }

    /// Returns the specifications of all libraries, over the papers' network.
    pub fn specifications(self) -> Libraries<'static> {
        libraries(self.specifications)
    }

    /// Returns the rules over the papers' network. Returns `None` for `shipped`, which code runs.
    pub fn rules(self, iterations_max: u32) -> Option<Rules<'static>> {
        let implementations = LAYERS.iter().zip(self.layers);
        let implementations = implementations.filter(|(_, has)| *has).map(|((_, i), _)| *i);
        (self.specifications != Setting::Shipped).then(|| {
            Rules {
                libraries: self.specifications(),
                implementations: Vec::new(),
                iterations_max,
            }
            .stacked(implementations)
        })
    }
}

impl From<Setting> for Tower {
    fn from(setting: Setting) -> Tower {
        let mut layers = [false; LAYERS.len()];
        let specifications = match layer(setting) {
            Some(at) => {
                layers[at] = true;
                Setting::Spec
            }
            None => setting,
        };
        Tower {
            specifications,
            layers,
        }
    }
}

impl fmt::Display for Tower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.settings().map(Setting::name).collect();
        f.pad(&names.join("+"))
    }
}

/// A name that is not that of a tower.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownTower {
    /// A part is no setting.
    #[error(transparent)]
    Setting(#[from] UnknownSetting),
    /// Two parts do not go together.
    #[error(
        "{0} and {1} do not compose: a setting has one kind of specifications, and each implementation once"
    )]
    Apart(Setting, Setting),
}

mowgli::debug_as_display!(UnknownTower);

impl FromStr for Tower {
    type Err = UnknownTower;

    fn from_str(name: &str) -> Result<Tower, UnknownTower> {
        let mut parts = name.split('+').map(str::parse::<Setting>);
        let first = parts.next().unwrap_or_else(|| name.parse())?;
        let mut tower = Tower::from(first);
        let mut stated = layer(first).is_none().then_some(first);
        for part in parts {
            let part = part?;
            let apart = |other| UnknownTower::Apart(other, part);
            match (layer(part), stated) {
                (Some(at), _) if tower.layers[at] => return Err(apart(part)),
                (Some(_), Some(Setting::Shipped)) => return Err(apart(Setting::Shipped)),
                (Some(at), _) => tower.layers[at] = true,
                (None, Some(other)) => return Err(apart(other)),
                (None, None) if part == Setting::Shipped => return Err(apart(first)),
                (None, None) => {
                    tower.specifications = part;
                    stated = Some(part);
                }
            }
        }
        Ok(tower)
    }
}
