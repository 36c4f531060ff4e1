//! Options of the libfabric fabric.

use std::time::Duration;

use loco_fabric::{FabricError, Result};
use loco_host::HugePages;

use crate::ffi::Api;
use crate::order::Trust;

/// The configuration of one node's libfabric fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfiConfig {
    /// The provider by libfabric's name (`tcp`, `verbs`, `efa`, `cxi`; `loco fabrics` lists them). Without a name, the
    /// fabric takes the first of libfabric's list that can be used, providers of RDMA devices before others, except
    /// those that the environment variable `FI_PROVIDER` leaves out.
    pub provider: Option<String>,
    /// Whether, without a name, lists of providers include emulations and test aids (default false). A node takes
    /// these only by name.
    pub any_provider: bool,
    /// The address of this node on the network, for providers that run over IP. Without one, a provider takes the
    /// first that libfabric offers, which is no loopback address unless there is no other.
    pub address: Option<String>,
    /// The promises of the provider that the orders of operations rely on.
    pub trust: Trust,
    /// The bytes of this node's registered memory (default 8 GiB), where registration costs nothing. Pages are taken from
    /// the system only when they are touched.
    pub memory_limit_bytes: usize,
    /// The bytes of this node's registered memory (default 256 MiB), where registration pins it.
    pub pinned_limit_bytes: usize,
    /// The page size of the memory (default [`HugePages::TwoMiB`]).
    pub huge_pages: HugePages,
    /// The maximum number of operations of one queue pair that have not been polled (default 256).
    pub queue_depth: usize,
    /// The largest inline put, in bytes (default 512).
    pub inline_bytes_max: usize,
    /// The time that the nodes wait for one another at set-up (default 30 s).
    pub set_up_timeout: Duration,
    /// The library (default: the host's).
    #[doc(hidden)]
    pub library: Library,
}

/// The library by which a node reaches its network.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub enum Library {
    /// The host's libfabric.
    #[default]
    System,
    /// One that the program brings along, with functions that have the meaning of libfabric's manuals. Tests give one whose
    /// providers are as weak as they may be.
    Given(&'static Api),
}

impl PartialEq for Library {
    fn eq(&self, other: &Library) -> bool {
        match (self, other) {
            (Library::System, Library::System) => true,
            (Library::Given(one), Library::Given(other)) => std::ptr::eq(*one, *other),
            _ => false,
        }
    }
}

impl Eq for Library {}

loco_fabric::setters!(OfiConfig {
    provider: Option<String>,
    any_provider: bool,
    address: Option<String>,
    trust: Trust,
    memory_limit_bytes: usize,
    pinned_limit_bytes: usize,
    huge_pages: HugePages,
    queue_depth: usize,
    inline_bytes_max: usize,
    set_up_timeout: Duration,
});

impl OfiConfig {
    /// Sets the library.
    #[doc(hidden)]
    #[must_use]
    pub fn library(self, library: Library) -> OfiConfig {
        OfiConfig { library, ..self }
    }
}

impl Default for OfiConfig {
    fn default() -> OfiConfig {
        OfiConfig {
            provider: None,
            any_provider: false,
            address: None,
            trust: Trust::Known,
            memory_limit_bytes: 8 << 30,
            pinned_limit_bytes: 256 << 20,
            huge_pages: HugePages::default(),
            queue_depth: 256,
            inline_bytes_max: 512,
            set_up_timeout: Duration::from_secs(30),
            library: Library::System,
        }
    }
}

impl OfiConfig {
    /// Returns the default configuration, changed by the environment: `LOCO_OFI_ADDRESS`, and `LOCO_OFI_TRUST` (`known` or
    /// `attributes`).
    ///
    /// # Errors
    /// Returns [`FabricError::Config`], which names the variable that cannot be understood.
    pub fn from_env() -> Result<OfiConfig> {
        OfiConfig::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<OfiConfig> {
        let set = |name| variable(name).filter(|value: &String| !value.is_empty());
        let trust = match set("LOCO_OFI_TRUST").as_deref() {
            None | Some("known") => Trust::Known,
            Some("attributes") => Trust::Attributes,
            Some(other) => {
                return Err(FabricError::Config(format!(
                    "LOCO_OFI_TRUST: `{other}` is neither `known` nor `attributes`"
                )));
            }
        };
        Ok(OfiConfig {
            address: set("LOCO_OFI_ADDRESS"),
            trust,
            ..OfiConfig::default()
        })
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(FabricError::Config(format!("`OfiConfig`: {what}")));
        if self.memory_limit_bytes == 0 || self.pinned_limit_bytes == 0 {
            return wrong("a memory limit is 0: 256 MiB is usual");
        }
        if !(1..=1 << 15).contains(&self.queue_depth) {
            return wrong("`queue_depth` must be 1 to 32768: 256 is usual");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &'static str, value: &'static str) -> Result<OfiConfig> {
        OfiConfig::from_variables(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn the_environment_chooses_address_and_trust() {
        let config = parse("LOCO_OFI_ADDRESS", "192.0.2.1").unwrap();
        assert_eq!(config.address.as_deref(), Some("192.0.2.1"));
        assert_eq!(
            parse("LOCO_OFI_TRUST", "attributes").unwrap().trust,
            Trust::Attributes
        );
        assert_eq!(parse("LOCO_OFI_TRUST", "").unwrap(), OfiConfig::default());
        let error = parse("LOCO_OFI_TRUST", "blind").unwrap_err().to_string();
        assert!(error.contains("LOCO_OFI_TRUST"), "{error}");
    }
}
