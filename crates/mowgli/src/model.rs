//! The memory models by name, and the one switch that is not part of a model.
//!
//! Names are fixed strings: litmus files, the command line and JSON reports use the same ones. Both engines, the
//! litmus language and the command take their model from here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A memory model. The strings of [`Model::name`] are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Model {
    /// Sequential consistency; programs without remote operations only.
    #[serde(rename = "sc")]
    Sc,
    /// x86-TSO; programs without remote operations only.
    #[serde(rename = "tso")]
    Tso,
    /// RDMA over a sequentially consistent CPU (Robust'25 section 3.2).
    #[serde(rename = "rdma-sc")]
    RdmaSc,
    /// RDMA over x86-TSO (RDMA-TSO'24 Def. 4.4).
    #[serde(rename = "rdma-tso")]
    RdmaTso,
    /// RDMA over x86-TSO without the PCIe guarantees (RDMA-TSO'24 section 4, last variant).
    #[serde(rename = "rdma-tso-nopcie")]
    RdmaTsoNoPcie,
    /// RDMA over x86-TSO with work identifiers and `wait` instead of `poll` (LOCO'26 Def. F.2).
    #[serde(rename = "rdma-wait")]
    RdmaWait,
}

impl Model {
    /// Every model, from the strongest to the weakest where they compare.
    pub const ALL: [Model; 6] = [
        Model::Sc,
        Model::Tso,
        Model::RdmaSc,
        Model::RdmaTso,
        Model::RdmaTsoNoPcie,
        Model::RdmaWait,
    ];

    /// The model's name in files, options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Model::Sc => "sc",
            Model::Tso => "tso",
            Model::RdmaSc => "rdma-sc",
            Model::RdmaTso => "rdma-tso",
            Model::RdmaTsoNoPcie => "rdma-tso-nopcie",
            Model::RdmaWait => "rdma-wait",
        }
    }

    /// One line that says what the model is and where it is defined.
    pub const fn summary(self) -> &'static str {
        match self {
            Model::Sc => "sequential consistency, CPU operations only",
            Model::Tso => "x86-TSO, CPU operations only",
            Model::RdmaSc => "RDMA over a sequentially consistent CPU (Robust'25 3.2)",
            Model::RdmaTso => "RDMA over x86-TSO (RDMA-TSO'24 Def. 4.4)",
            Model::RdmaTsoNoPcie => "rdma-tso without the PCIe guarantees (RDMA-TSO'24 section 4)",
            Model::RdmaWait => "RDMA over x86-TSO with work identifiers (LOCO'26 Def. F.2)",
        }
    }

    /// Whether the model has remote operations.
    pub const fn is_remote(self) -> bool {
        !matches!(self, Model::Sc | Model::Tso)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A string that names no model (or no atomicity); carries the string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} '{found}': expected one of {expected}")]
pub struct UnknownName {
    /// What was asked for: "model" or "atomicity".
    pub kind: &'static str,
    /// What was found.
    pub found: String,
    /// The accepted names, separated by commas.
    pub expected: String,
}

impl FromStr for Model {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Model, UnknownName> {
        Model::ALL
            .into_iter()
            .find(|m| m.name() == s)
            .ok_or_else(|| UnknownName {
                kind: "model",
                found: s.to_owned(),
                expected: Model::ALL.map(Model::name).join(", "),
            })
    }
}

/// Against whom a remote read-modify-write is atomic (`docs/rmw.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RmwAtomicity {
    /// Against other remote read-modify-writes on the same node only (`IBV_ATOMIC_HCA`).
    #[default]
    #[serde(rename = "hca")]
    Hca,
    /// Against every access, the CPU's and puts included (`IBV_ATOMIC_GLOB`).
    #[serde(rename = "glob")]
    Glob,
}

impl RmwAtomicity {
    /// Both settings, the default first.
    pub const ALL: [RmwAtomicity; 2] = [RmwAtomicity::Hca, RmwAtomicity::Glob];

    /// The setting's name in files, options and reports.
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
        RmwAtomicity::ALL
            .into_iter()
            .find(|a| a.name() == s)
            .ok_or_else(|| UnknownName {
                kind: "atomicity",
                found: s.to_owned(),
                expected: RmwAtomicity::ALL.map(RmwAtomicity::name).join(", "),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for model in Model::ALL {
            assert_eq!(model.name().parse(), Ok(model));
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
}
