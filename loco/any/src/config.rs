//! The choice of a fabric, and the options of each.

use loco_fabric::{FabricError, Result};
use loco_host::HugePages;
use loco_job::var;
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
    /// Returns the default configuration, changed by the environment (`LOCO_FABRIC`, `LOCO_PAGES` as [`pages`](Self::pages) has
    /// it, and the variables that `VerbsConfig::from_env`, `TcpConfig::from_env` and `OfiConfig::from_env` read).
    ///
    /// # Errors
    /// Returns [`FabricError::Config`](loco_fabric::FabricError::Config), which names the variable that cannot be understood.
    pub fn from_env() -> Result<AnyConfig> {
        let config = AnyConfig {
            choice: FabricChoice::from_env()?,
            #[cfg(feature = "shm")]
            shm: ShmConfig::default(),
            #[cfg(feature = "verbs")]
            verbs: VerbsConfig::from_env()?,
            #[cfg(feature = "tcp")]
            tcp: TcpConfig::from_env()?,
            #[cfg(feature = "ofi")]
            ofi: OfiConfig::from_env()?,
        };
        match std::env::var(var::PAGES) {
            Ok(pages) => {
                let pages = pages.parse().map_err(|unknown: FabricError| {
                    FabricError::Config(format!("{}: {unknown}", var::PAGES))
                })?;
                Ok(config.pages(pages))
            }
            Err(_) => Ok(config),
        }
    }

    /// Sets the pages of the registered memory of every fabric. Pages of 1 GiB need arenas of that size, which are set too.
    #[must_use]
    pub fn pages(mut self, pages: HugePages) -> AnyConfig {
        let least = if pages == HugePages::OneGiB { 1 << 30 } else { 0 };
        #[cfg(feature = "shm")]
        {
            self.shm.huge_pages = pages;
            self.shm.arena_bytes = self.shm.arena_bytes.max(least);
        }
        #[cfg(feature = "verbs")]
        {
            self.verbs.huge_pages = pages;
            self.verbs.arena_bytes = self.verbs.arena_bytes.max(least);
        }
        #[cfg(feature = "tcp")]
        {
            self.tcp.huge_pages = pages;
        }
        #[cfg(feature = "ofi")]
        {
            self.ofi.huge_pages = pages;
        }
        self
    }
}

#[cfg(all(test, feature = "shm", feature = "verbs"))]
mod tests {
    use super::*;

    #[test]
    fn giant_pages_have_arenas_of_their_size() {
        let config = AnyConfig::default().pages(HugePages::OneGiB);
        assert_eq!(config.verbs.huge_pages, HugePages::OneGiB);
        assert_eq!([config.shm.arena_bytes, config.verbs.arena_bytes], [1 << 30; 2]);
        let config = AnyConfig::default().pages(HugePages::Never);
        assert_eq!(config.shm.huge_pages, HugePages::Never);
        assert_eq!(config.verbs.arena_bytes, VerbsConfig::default().arena_bytes);
    }
}
