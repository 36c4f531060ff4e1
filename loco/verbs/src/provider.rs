//! The source of RDMA and everything that depends on it: the table of functions, the candidates, and the
//! known facts about a device.

use std::path::Path;
use std::time::Duration;

use loco_fabric::{FabricError, Result, Tier};

use crate::ffi::{self, Api};
#[cfg(feature = "soft-device")]
use crate::soft::{self, SoftDevice};
use crate::sysfs::{self, Choice, Wanted};

/// A source of RDMA.
#[derive(Clone, Debug, Default)]
pub enum Provider {
    /// The host's libibverbs and librdmacm.
    #[default]
    System,
    #[cfg(feature = "soft-device")]
    /// A device that this process plays in software, for tests: no library, no kernel, injected faults.
    Soft(SoftDevice),
}

impl Provider {
    /// Returns the table of functions.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] when a library is missing, with the packages that contain it.
    pub(crate) fn api(&self) -> Result<&'static Api> {
        match self {
            #[cfg(feature = "soft-device")]
            Provider::Soft(_) => Ok(soft::api()),
            Provider::System => ffi::system().map_err(|error| {
                FabricError::Config(format!(
                    "RDMA libraries: {error}; install libibverbs1, librdmacm1 and ibverbs-providers (Debian, Ubuntu) \
                     or rdma-core (Fedora, RHEL, SUSE)"
                ))
            }),
        }
    }

    /// Returns the devices, ports and addresses that `wanted` allows, best first.
    pub(crate) fn choices(&self, wanted: &Wanted<'_>) -> Result<Vec<Choice>> {
        match self {
            Provider::System => sysfs::choose(&sysfs::devices(Path::new(sysfs::ROOT)), wanted),
            #[cfg(feature = "soft-device")]
            Provider::Soft(device) => Ok(vec![device.choice()]),
        }
    }

    /// Returns `limit`, the time that the port may be down, if the host tells whether it is down.
    pub(crate) fn link_limit(&self, limit: Duration) -> Option<Duration> {
        match self {
            Provider::System => Some(limit),
            #[cfg(feature = "soft-device")]
            Provider::Soft(_) => None,
        }
    }

    /// Returns true if fenced operations of the device may never start.
    pub(crate) fn fences_stall(&self, choice: &Choice) -> bool {
        match self {
            Provider::System => sysfs::is_soft_roce(Path::new(sysfs::ROOT), &choice.device),
            #[cfg(feature = "soft-device")]
            Provider::Soft(device) => device.fences_stall(),
        }
    }

    /// Returns the tier of the device, if it is known.
    pub(crate) fn tier(&self, choice: &Choice) -> Option<Tier> {
        match self {
            Provider::System => sysfs::tier_of_software(Path::new(sysfs::ROOT), &choice.device),
            #[cfg(feature = "soft-device")]
            Provider::Soft(device) => device.tier(),
        }
    }

    /// Returns true if the source is this host's own libraries and devices.
    pub(crate) fn is_system(&self) -> bool {
        matches!(self, Provider::System)
    }
}
