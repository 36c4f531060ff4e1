//! The names of the memory models, and the atomicity of remote read-modify-writes, which is no part of a model.
//!
//! Litmus files, the command line and JSON reports use these names, which do not change. Both engines, the litmus language and the
//! command take their model from here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A memory model. The strings of [`Model::name`] are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Model {
    /// Sequential consistency, remote operations included (Robust'25 Def. 5).
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
    /// Every model. Where two are comparable, the stronger comes first.
    pub const ALL: [Model; 6] = [
        Model::Sc,
        Model::Tso,
        Model::RdmaSc,
        Model::RdmaTso,
        Model::RdmaTsoNoPcie,
        Model::RdmaWait,
    ];

    /// The models for which robustness is defined: those of Robust'25, and RDMA^WAIT, to which the extension is ours.
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} '{found}': expected one of {expected}")]
pub struct UnknownName {
    /// The kind of name: "model", "atomicity" or "engine".
    pub kind: &'static str,
    /// The string.
    pub found: String,
    /// The accepted names, separated by commas.
    pub expected: String,
}

impl UnknownName {
    /// Finds the item of this name. `kind` says of what kind the items are.
    ///
    /// # Errors
    ///
    /// Names what was asked for and every name there is.
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
        UnknownName::find("model", &Model::ALL, Model::name, s)
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
