//! The names of the memory models and of the tiers of networks, and the atomicity of remote read-modify-writes, which is no part of a
//! model.
//!
//! Litmus files, the command line and JSON reports use these names, which do not change. Both engines, the litmus language and the
//! command take their model from here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A memory model. The strings of [`Model::name`] are stable.
///
/// The papers' models of RDMA are about networks of [`Tier::Ibta`]. [`Model::on`] gives the same model over a network that orders less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Model {
    /// Sequential consistency, remote operations included (Robust'25 Def. 5).
    Sc,
    /// x86-TSO; programs without remote operations only.
    Tso,
    /// RDMA over a sequentially consistent CPU (Robust'25 section 3.2).
    RdmaSc,
    /// RDMA over x86-TSO (RDMA-TSO'24 Def. 4.4).
    RdmaTso,
    /// RDMA over x86-TSO without the PCIe guarantees (RDMA-TSO'24 section 4, last variant).
    RdmaTsoNoPcie,
    /// RDMA over x86-TSO with work identifiers and `wait` instead of `poll` (LOCO'26 Def. F.2).
    RdmaWait,
    /// A model of RDMA over a network that orders less than the papers' (`docs/ordering-models.md`). [`Model::on`] makes it.
    Tiered(Tiered),
}

/// A model of RDMA with a tier other than [`Tier::Ibta`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tiered {
    base: Base,
    tier: Tier,
}

/// The models whose order of the network is a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Base {
    Sc,
    Tso,
    Wait,
}

/// The order that a network keeps among the operations of one queue pair (`docs/ordering-models.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The order of the InfiniBand specification, which the papers' models have.
    #[default]
    Ibta,
    /// Data of writes and reads is placed in any order; atomics keep theirs (mlx5 `dp_ordering` tier 1).
    OooRw,
    /// Every operation is carried out in any order (mlx5 `dp_ordering` tier 2).
    OooAll,
    /// The order of InfiniBand, but the bus reorders writes into regions registered for relaxed ordering.
    PcieRelaxed,
    /// Neither the network nor the bus keeps an order (EFA SRD, RUD of Ultra Ethernet).
    Unordered,
}

impl Tier {
    /// Every tier, the papers' first.
    pub const ALL: [Tier; 5] = [
        Tier::Ibta,
        Tier::OooRw,
        Tier::OooAll,
        Tier::PcieRelaxed,
        Tier::Unordered,
    ];

    /// Returns the name that files, options and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Ibta => "ibta",
            Tier::OooRw => "ooo-rw",
            Tier::OooAll => "ooo-all",
            Tier::PcieRelaxed => "pcie-relaxed",
            Tier::Unordered => "unordered",
        }
    }

    /// Says in one line what the tier is.
    pub const fn summary(self) -> &'static str {
        match self {
            Tier::Ibta => "the order of the InfiniBand specification, which the papers' models have",
            Tier::OooRw => {
                "data of writes and reads is placed in any order, atomics keep theirs (mlx5 dp_ordering 1)"
            }
            Tier::OooAll => "all operations are carried out in any order (mlx5 dp_ordering 2)",
            Tier::PcieRelaxed => "as ibta, but the bus reorders writes into relaxed regions",
            Tier::Unordered => "neither the network nor the bus keeps an order (EFA SRD)",
        }
    }

    /// Returns whether the network carries out the operations of a queue pair in another order than theirs.
    pub const fn reorders_network(self) -> bool {
        matches!(self, Tier::OooRw | Tier::OooAll | Tier::Unordered)
    }

    /// Returns whether messages of one queue pair take its receives in any order.
    pub const fn takes_receives_in_any_order(self) -> bool {
        matches!(self, Tier::OooAll | Tier::Unordered)
    }

    /// Returns whether tests may name regions of relaxed ordering: whether they have a meaning on this tier.
    pub const fn has_relaxed_regions(self) -> bool {
        matches!(self, Tier::PcieRelaxed)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Tier {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Tier, UnknownName> {
        UnknownName::find("tier", &Tier::ALL, Tier::name, s)
    }
}

/// Returns a model of RDMA with a tier.
const fn tiered(base: Base, tier: Tier) -> Model {
    Model::Tiered(Tiered { base, tier })
}

impl Model {
    /// Every model over the papers' network, [`Tier::Ibta`]. Where two are comparable, the stronger comes first.
    pub const ALL: [Model; 6] = [
        Model::Sc,
        Model::Tso,
        Model::RdmaSc,
        Model::RdmaTso,
        Model::RdmaTsoNoPcie,
        Model::RdmaWait,
    ];

    /// Every model over another network, by tier.
    pub const TIERED: [Model; 12] = [
        tiered(Base::Sc, Tier::OooRw),
        tiered(Base::Tso, Tier::OooRw),
        tiered(Base::Wait, Tier::OooRw),
        tiered(Base::Sc, Tier::OooAll),
        tiered(Base::Tso, Tier::OooAll),
        tiered(Base::Wait, Tier::OooAll),
        tiered(Base::Sc, Tier::PcieRelaxed),
        tiered(Base::Tso, Tier::PcieRelaxed),
        tiered(Base::Wait, Tier::PcieRelaxed),
        tiered(Base::Sc, Tier::Unordered),
        tiered(Base::Tso, Tier::Unordered),
        tiered(Base::Wait, Tier::Unordered),
    ];

    /// Returns every model, those of [`Model::ALL`] first.
    pub fn every() -> impl Iterator<Item = Model> {
        Model::ALL.into_iter().chain(Model::TIERED)
    }

    /// Returns the same model over a network of this tier; `None` if the model's network is no parameter.
    pub const fn on(self, tier: Tier) -> Option<Model> {
        let base = match self.base() {
            Model::RdmaSc => Base::Sc,
            Model::RdmaTso => Base::Tso,
            Model::RdmaWait => Base::Wait,
            _ => {
                return match tier {
                    Tier::Ibta => Some(self),
                    _ => None,
                };
            }
        };
        Some(match tier {
            Tier::Ibta => self.base(),
            _ => tiered(base, tier),
        })
    }

    /// Returns the model over the papers' network.
    pub const fn base(self) -> Model {
        match self {
            Model::Tiered(t) => match t.base {
                Base::Sc => Model::RdmaSc,
                Base::Tso => Model::RdmaTso,
                Base::Wait => Model::RdmaWait,
            },
            other => other,
        }
    }

    /// Returns the tier of the model's network.
    pub const fn tier(self) -> Tier {
        match self {
            Model::Tiered(t) => t.tier,
            _ => Tier::Ibta,
        }
    }

    /// The models over the papers' network for which robustness is defined: those of Robust'25, and RDMA^WAIT, to which the extension is ours.
    pub const ROBUSTNESS: [Model; 3] = [Model::RdmaSc, Model::RdmaTso, Model::RdmaWait];

    /// Returns the name that files, options and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Model::Sc => "sc",
            Model::Tso => "tso",
            Model::RdmaSc => "rdma-sc",
            Model::RdmaTso => "rdma-tso",
            Model::RdmaTsoNoPcie => "rdma-tso-nopcie",
            Model::RdmaWait => "rdma-wait",
            Model::Tiered(Tiered { base, tier }) => match (base, tier) {
                (Base::Sc, Tier::Ibta) => "rdma-sc",
                (Base::Tso, Tier::Ibta) => "rdma-tso",
                (Base::Wait, Tier::Ibta) => "rdma-wait",
                (Base::Sc, Tier::OooRw) => "rdma-sc+ooo-rw",
                (Base::Tso, Tier::OooRw) => "rdma-tso+ooo-rw",
                (Base::Wait, Tier::OooRw) => "rdma-wait+ooo-rw",
                (Base::Sc, Tier::OooAll) => "rdma-sc+ooo-all",
                (Base::Tso, Tier::OooAll) => "rdma-tso+ooo-all",
                (Base::Wait, Tier::OooAll) => "rdma-wait+ooo-all",
                (Base::Sc, Tier::PcieRelaxed) => "rdma-sc+pcie-relaxed",
                (Base::Tso, Tier::PcieRelaxed) => "rdma-tso+pcie-relaxed",
                (Base::Wait, Tier::PcieRelaxed) => "rdma-wait+pcie-relaxed",
                (Base::Sc, Tier::Unordered) => "rdma-sc+unordered",
                (Base::Tso, Tier::Unordered) => "rdma-tso+unordered",
                (Base::Wait, Tier::Unordered) => "rdma-wait+unordered",
            },
        }
    }

    /// Says in one line what the model is and where it is defined.
    pub const fn summary(self) -> &'static str {
        match self {
            Model::Sc => "sequential consistency; remote operations take effect in program order, too",
            Model::Tso => "x86-TSO, CPU operations only",
            Model::RdmaSc => "RDMA over a sequentially consistent CPU (Robust'25 3.2)",
            Model::RdmaTso => "RDMA over x86-TSO (RDMA-TSO'24 Def. 4.4)",
            Model::RdmaTsoNoPcie => "rdma-tso without the PCIe guarantees (RDMA-TSO'24 section 4)",
            Model::RdmaWait => "RDMA over x86-TSO with work identifiers (LOCO'26 Def. F.2)",
            Model::Tiered(t) => t.tier.summary(),
        }
    }

    /// Returns whether the model is a model of RDMA: neither `sc` nor `tso`.
    pub const fn is_remote(self) -> bool {
        !matches!(self, Model::Sc | Model::Tso)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a string that names no model, atomicity or engine.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} '{found}': expected one of {expected}")]
pub struct UnknownName {
    /// The kind of name: "model", "atomicity" or "engine".
    pub kind: &'static str,
    /// The string.
    pub found: String,
    /// The accepted names, separated by commas.
    pub expected: String,
}

crate::debug_as_display!(UnknownName);

impl UnknownName {
    /// Finds the item of this name. `kind` says of what kind the items are.
    ///
    /// # Errors
    ///
    /// Returns the name that was asked for and every name there is.
    pub fn find<T: Copy>(
        kind: &'static str,
        all: &[T],
        name: impl Fn(T) -> &'static str,
        wanted: &str,
    ) -> Result<T, UnknownName> {
        let found = all.iter().copied().find(|&item| name(item) == wanted);
        found.ok_or_else(|| UnknownName {
            kind,
            found: wanted.to_owned(),
            expected: all.iter().map(|&item| name(item)).collect::<Vec<_>>().join(", "),
        })
    }
}

impl FromStr for Model {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Model, UnknownName> {
        let Some((base, tier)) = s.split_once('+') else {
            return UnknownName::find("model", &Model::ALL, Model::name, s);
        };
        let base: Model = base.parse()?;
        let tier: Tier = tier.parse()?;
        // `rdma-tso+ibta` is `rdma-tso`.
        base.on(tier).ok_or_else(|| UnknownName {
            kind: "model with a tier",
            found: s.to_owned(),
            expected: Model::ROBUSTNESS.map(|m| format!("{m}+{tier}")).join(", "),
        })
    }
}

impl From<Model> for &'static str {
    fn from(model: Model) -> &'static str {
        model.name()
    }
}

impl TryFrom<String> for Model {
    type Error = UnknownName;

    fn try_from(name: String) -> Result<Model, UnknownName> {
        name.parse()
    }
}

/// The accesses against which a remote read-modify-write is atomic (`docs/rmw.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RmwAtomicity {
    /// Other remote read-modify-writes on the same node only (`IBV_ATOMIC_HCA`).
    #[default]
    #[serde(rename = "hca")]
    Hca,
    /// Every access, including those of CPUs and of puts (`IBV_ATOMIC_GLOB`).
    #[serde(rename = "glob")]
    Glob,
}

impl RmwAtomicity {
    /// Both atomicities, the default first.
    pub const ALL: [RmwAtomicity; 2] = [RmwAtomicity::Hca, RmwAtomicity::Glob];

    /// Returns the name that files, options and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            RmwAtomicity::Hca => "hca",
            RmwAtomicity::Glob => "glob",
        }
    }
}

impl fmt::Display for RmwAtomicity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for RmwAtomicity {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<RmwAtomicity, UnknownName> {
        UnknownName::find("atomicity", &RmwAtomicity::ALL, RmwAtomicity::name, s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for model in Model::every() {
            assert_eq!(model.name().parse(), Ok(model));
            assert_eq!(model.base().on(model.tier()), Some(model));
            assert_eq!(serde_json::to_string(&model).unwrap(), format!("\"{model}\""));
        }
        for atomicity in RmwAtomicity::ALL {
            assert_eq!(atomicity.name().parse(), Ok(atomicity));
        }
        assert!(
            "rdma"
                .parse::<Model>()
                .unwrap_err()
                .to_string()
                .contains("rdma-tso-nopcie")
        );
    }

    #[test]
    fn an_unknown_tier_lists_the_known_ones_and_a_model_without_tiers_says_which_have_them() {
        let error = |name: &str| name.parse::<Model>().unwrap_err().to_string();
        assert_eq!(
            error("rdma-tso+ooo"),
            "unknown tier 'ooo': expected one of ibta, ooo-rw, ooo-all, pcie-relaxed, unordered"
        );
        assert!(error("tso+ooo-rw").contains("rdma-wait+ooo-rw"));
        assert_eq!("rdma-tso+ibta".parse(), Ok(Model::RdmaTso));
        assert_eq!("tso+ibta".parse(), Ok(Model::Tso));
    }
}
