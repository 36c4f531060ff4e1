//! The choice of a fabric, and the options of each.

use loco_fabric::Result;
#[cfg(feature = "ofi")]
use loco_ofi::OfiConfig;
#[cfg(feature = "shm")]
use loco_shm::ShmConfig;
#[cfg(feature = "tcp")]
use loco_tcp::TcpConfig;
#[cfg(feature = "verbs")]
use loco_verbs::VerbsConfig;

use crate::choice::FabricChoice;

/// Options of the fabrics.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AnyConfig {
    /// The choice of a fabric.
    pub choice: FabricChoice,
    /// The configuration of the shared-memory fabric.
    #[cfg(feature = "shm")]
    pub shm: ShmConfig,
    /// The configuration of the verbs fabric.
    #[cfg(feature = "verbs")]
    pub verbs: VerbsConfig,
    /// The configuration of the TCP fabric.
    #[cfg(feature = "tcp")]
    pub tcp: TcpConfig,
    /// The configuration of the libfabric fabric. A provider in `choice` comes before the one here.
    #[cfg(feature = "ofi")]
    pub ofi: OfiConfig,
}

loco_fabric::setters!(AnyConfig { choice: FabricChoice });
#[cfg(feature = "shm")]
loco_fabric::setters!(AnyConfig { shm: ShmConfig });
#[cfg(feature = "verbs")]
loco_fabric::setters!(AnyConfig { verbs: VerbsConfig });
#[cfg(feature = "tcp")]
loco_fabric::setters!(AnyConfig { tcp: TcpConfig });
#[cfg(feature = "ofi")]
loco_fabric::setters!(AnyConfig { ofi: OfiConfig });

impl AnyConfig {
    /// Returns the default configuration, changed by the environment (`LOCO_FABRIC`, and the variables that
    /// `VerbsConfig::from_env`, `TcpConfig::from_env` and `OfiConfig::from_env` read).
    ///
    /// # Errors
    /// Returns [`FabricError::Config`](loco_fabric::FabricError::Config), which names the variable that cannot be understood.
    pub fn from_env() -> Result<AnyConfig> {
        Ok(AnyConfig {
            choice: FabricChoice::from_env()?,
            #[cfg(feature = "shm")]
            shm: ShmConfig::default(),
            #[cfg(feature = "verbs")]
            verbs: VerbsConfig::from_env()?,
            #[cfg(feature = "tcp")]
            tcp: TcpConfig::from_env()?,
            #[cfg(feature = "ofi")]
            ofi: OfiConfig::from_env()?,
        })
    }
}
