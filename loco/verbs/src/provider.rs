//! The source of RDMA and everything that depends on it: the table of functions, the candidates, and the
//! known facts about a device.

use std::path::Path;
use std::time::Duration;

use loco_fabric::{FabricError, Result, Tier};

use crate::ffi::{self, Api};
use crate::listed;
use crate::sysfs::{self, Choice, Wanted};

/// A source of RDMA.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Provider {
    /// The host's libibverbs and librdmacm.
    #[default]
    System,
    /// A library that the program brings along. Tests give one that plays a device.
    #[doc(hidden)]
    Given(Given),
}

/// A library that the program brings along, and the one device that it has.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Given {
    /// The functions. They have the meaning that the manuals of libibverbs and librdmacm give them.
    pub api: &'static Api,
    /// The device, as the connection manager finds it by its address.
    pub device: Choice,
    /// The tier of the device, if it is known.
    pub tier: Option<Tier>,
    /// Whether fenced operations of the device may never start.
    pub fences_stall: bool,
}

impl Provider {
    /// Returns the table of functions.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] when a library is missing, with the packages that contain it.
    pub(crate) fn api(&self) -> Result<&'static Api> {
        match self {
            Provider::Given(given) => Ok(given.api),
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
            Provider::System => sysfs::choose(&listed::devices(), wanted),
            Provider::Given(given) => Ok(vec![given.device.clone()]),
        }
    }

    /// Returns `limit`, the time that the port of a device may be down, if the host tells whether it is down.
    pub(crate) fn link_limit(&self, limit: Duration, choice: &Choice) -> Option<Duration> {
        match self {
            Provider::System => listed::find(&choice.device).is_none().then_some(limit),
            Provider::Given(_) => None,
        }
    }

    /// Returns true if fenced operations of the device may never start.
    pub(crate) fn fences_stall(&self, choice: &Choice) -> bool {
        match self {
            Provider::System => sysfs::is_soft_roce(Path::new(sysfs::ROOT), &choice.device),
            Provider::Given(given) => given.fences_stall,
        }
    }

    /// Returns the tier of the device, if it is known.
    pub(crate) fn tier(&self, choice: &Choice) -> Option<Tier> {
        match self {
            Provider::System => match listed::find(&choice.device) {
                Some(listed) => listed.tier,
                None => sysfs::tier_of_software(Path::new(sysfs::ROOT), &choice.device),
            },
            Provider::Given(given) => given.tier,
        }
    }

    /// Returns true if the source is this host's own libraries and devices.
    pub(crate) fn is_system(&self) -> bool {
        matches!(self, Provider::System)
    }
}
