//! The choice of a fabric, and the options of each.

use std::fmt;
use std::str::FromStr;

use loco_fabric::{FabricError, Result};
use loco_job::var;
#[cfg(feature = "shm")]
use loco_shm::ShmConfig;
#[cfg(feature = "verbs")]
use loco_verbs::VerbsConfig;

/// The choice of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FabricChoice {
    /// Shared memory between processes of one host.
    Shm,
    /// RDMA.
    Verbs,
    /// RDMA if every node has a usable device, else shared memory.
    #[default]
    Auto,
}

impl FromStr for FabricChoice {
    type Err = FabricError;

    fn from_str(name: &str) -> Result<FabricChoice> {
        match name {
            "shm" => Ok(FabricChoice::Shm),
            "verbs" => Ok(FabricChoice::Verbs),
            "auto" => Ok(FabricChoice::Auto),
            _ => Err(FabricError::Config(format!(
                "no fabric `{name}`: there are shm, verbs and auto"
            ))),
        }
    }
}

impl fmt::Display for FabricChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FabricChoice::Shm => "shm",
            FabricChoice::Verbs => "verbs",
            FabricChoice::Auto => "auto",
        })
    }
}

impl FabricChoice {
    /// Returns the choice of the environment variable `LOCO_FABRIC`, or [`Auto`](FabricChoice::Auto) without
    /// it.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] when it names no fabric.
    pub fn from_env() -> Result<FabricChoice> {
        match std::env::var(var::FABRIC) {
            Ok(name) if !name.is_empty() => name.parse(),
            _ => Ok(FabricChoice::default()),
        }
    }
}

/// Options of the fabrics.
#[derive(Clone, Debug, Default)]
pub struct AnyConfig {
    /// The choice of a fabric.
    pub choice: FabricChoice,
    /// The configuration of the shared-memory fabric.
    #[cfg(feature = "shm")]
    pub shm: ShmConfig,
    /// The configuration of the verbs fabric.
    #[cfg(feature = "verbs")]
    pub verbs: VerbsConfig,
}

impl AnyConfig {
    /// Returns the default configuration, changed by the environment (`LOCO_FABRIC`, and the variables that
    /// `VerbsConfig::from_env` reads).
    ///
    /// # Errors
    /// Returns [`FabricError::Config`], which names the variable that cannot be understood.
    pub fn from_env() -> Result<AnyConfig> {
        Ok(AnyConfig {
            choice: FabricChoice::from_env()?,
            #[cfg(feature = "shm")]
            shm: ShmConfig::default(),
            #[cfg(feature = "verbs")]
            verbs: VerbsConfig::from_env()?,
        })
    }
}
