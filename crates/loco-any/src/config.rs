//! Which fabric to use, and how each is set up.

use std::fmt;
use std::str::FromStr;

use loco_fabric::{FabricError, Result};
use loco_job::var;
#[cfg(feature = "shm")]
use loco_shm::ShmConfig;
#[cfg(feature = "verbs")]
use loco_verbs::VerbsConfig;

/// Which fabric to use.
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
    /// What the environment variable `LOCO_FABRIC` says; [`Auto`](FabricChoice::Auto) without it.
    ///
    /// # Errors
    /// [`FabricError::Config`] when it names no fabric.
    pub fn from_env() -> Result<FabricChoice> {
        match std::env::var(var::FABRIC) {
            Ok(name) if !name.is_empty() => name.parse(),
            _ => Ok(FabricChoice::default()),
        }
    }
}

/// How the fabrics are set up.
#[derive(Clone, Debug, Default)]
pub struct AnyConfig {
    /// Which to use.
    pub choice: FabricChoice,
    /// Of the shared-memory fabric.
    #[cfg(feature = "shm")]
    pub shm: ShmConfig,
    /// Of the verbs fabric.
    #[cfg(feature = "verbs")]
    pub verbs: VerbsConfig,
}

impl AnyConfig {
    /// Returns the defaults, with what the environment says (`LOCO_FABRIC`, and the variables that
    /// `VerbsConfig::from_env` reads).
    ///
    /// # Errors
    /// [`FabricError::Config`] naming the variable that cannot be understood.
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
