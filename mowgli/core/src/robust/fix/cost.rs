//! Costs of additions.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The costs of additions. Only their ratios matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Costs {
    /// A remote fence.
    pub rfence: u64,
    /// A CPU memory fence.
    pub mfence: u64,
    /// A poll that was not there.
    pub poll: u64,
    /// A poll that is made earlier than before. At most `poll`.
    #[serde(rename = "move")]
    pub moved: u64,
    /// A get that is added for its completion alone. The poll that waits for it is counted besides.
    pub get: u64,
}

impl Default for Costs {
    /// Ranks additions by how long they keep the CPU waiting. A remote fence does not (1). An `mfence` empties the
    /// store buffer (2). A get is one more message (4) that the network carries meanwhile. A poll waits for a round
    /// trip (20). A moved poll costs less (10), because the poll that it replaces already waited for a part of the
    /// round trip.
    fn default() -> Costs {
        Costs {
            rfence: 1,
            mfence: 2,
            poll: 20,
            moved: 10,
            get: 4,
        }
    }
}

/// A list of costs that cannot be used.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCost {
    /// A part that is no cost.
    #[error("`{0}` is no cost: write poll=2, or several of rfence, mfence, poll, move and get with commas")]
    Unknown(String),
    /// A cost of 0, or a very large one.
    #[error("the cost of {0} must be from 1 to 1000000")]
    OutOfRange(&'static str),
    /// A poll that moves costs more than one that is added.
    #[error("a moved poll cannot cost more than an added one: write move={0} or less")]
    Moved(u64),
}

crate::debug_as_display!(BadCost);

impl Costs {
    fn all(&self) -> [(&'static str, u64); 5] {
        [
            ("rfence", self.rfence),
            ("mfence", self.mfence),
            ("poll", self.poll),
            ("move", self.moved),
            ("get", self.get),
        ]
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.all().map(|(name, cost)| format!("{name}={cost}"));
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Costs {
    type Err = BadCost;

    /// Reads `poll=2,get=1`. What is not named keeps its default, except that a moved poll costs no more than an added one.
    fn from_str(s: &str) -> Result<Costs, BadCost> {
        let mut costs = Costs::default();
        let mut moved = false;
        for part in s.split(',') {
            let unknown = || BadCost::Unknown(part.to_owned());
            let (name, value) = part.split_once('=').ok_or_else(unknown)?;
            let value: u64 = value.trim().parse().map_err(|_| unknown())?;
            let slot = match name.trim() {
                "rfence" => &mut costs.rfence,
                "mfence" => &mut costs.mfence,
                "poll" => &mut costs.poll,
                "move" => {
                    moved = true;
                    &mut costs.moved
                }
                "get" => &mut costs.get,
                _ => return Err(unknown()),
            };
            *slot = value;
        }
        if !moved {
            costs.moved = costs.moved.min(costs.poll);
        }
        if let Some((name, _)) = costs
            .all()
            .into_iter()
            .find(|(_, c)| !(1..=1_000_000).contains(c))
        {
            return Err(BadCost::OutOfRange(name));
        }
        match costs.moved > costs.poll {
            true => Err(BadCost::Moved(costs.poll)),
            false => Ok(costs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_and_checked() {
        let costs: Costs = "poll=2,get=1".parse().unwrap_or_default();
        assert_eq!((costs.poll, costs.moved, costs.get, costs.rfence), (2, 2, 1, 1));
        assert_eq!(costs.to_string(), "rfence=1,mfence=2,poll=2,move=2,get=1");
        assert_eq!("poll".parse::<Costs>(), Err(BadCost::Unknown("poll".to_owned())));
        assert_eq!(
            "pol=1".parse::<Costs>(),
            Err(BadCost::Unknown("pol=1".to_owned()))
        );
        assert_eq!("rfence=0".parse::<Costs>(), Err(BadCost::OutOfRange("rfence")));
        assert_eq!("poll=2,move=3".parse::<Costs>(), Err(BadCost::Moved(2)));
    }
}
