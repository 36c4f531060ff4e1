//! Options of the TCP fabric.

use std::net::IpAddr;
use std::time::Duration;

use loco_fabric::{FabricError, Result};
use loco_host::HugePages;

/// The configuration of one node's TCP fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpConfig {
    /// The address at which this node listens while the connections are made, and that it tells the others. Without one
    /// (the default) the connections take the way of the control connections.
    pub address: Option<IpAddr>,
    /// Whether everything that is sent is encrypted and authenticated (default false). All nodes must agree. Without it the
    /// nodes still make sure of one another when they connect, but whoever can read or change what is sent on the network can
    /// do so from then on.
    pub encrypt: bool,
    /// The bytes of this node's registered memory (default 8 GiB). Pages are taken from the system only when they are touched.
    pub memory_limit_bytes: usize,
    /// The page size of the memory (default [`HugePages::TwoMiB`]).
    pub huge_pages: HugePages,
    /// The maximum number of operations of one queue pair that have not been polled (default 256).
    pub queue_depth: usize,
    /// The largest inline put, in bytes (default 512).
    pub inline_bytes_max: usize,
    /// The time that the nodes wait for one another at set-up (default 30 s).
    pub set_up_timeout: Duration,
}

loco_fabric::setters!(TcpConfig {
    address: Option<IpAddr>,
    encrypt: bool,
    memory_limit_bytes: usize,
    huge_pages: HugePages,
    queue_depth: usize,
    inline_bytes_max: usize,
    set_up_timeout: Duration,
});

impl Default for TcpConfig {
    fn default() -> TcpConfig {
        TcpConfig {
            address: None,
            encrypt: false,
            memory_limit_bytes: 8 << 30,
            huge_pages: HugePages::default(),
            queue_depth: 256,
            inline_bytes_max: 512,
            set_up_timeout: Duration::from_secs(30),
        }
    }
}

impl TcpConfig {
    /// Returns the default configuration, changed by the environment: `LOCO_TCP_ADDRESS`, an IP address, and
    /// `LOCO_TCP_ENCRYPT` (`yes` or `no`).
    ///
    /// # Errors
    /// Returns [`FabricError::Config`], which names the variable that cannot be understood.
    pub fn from_env() -> Result<TcpConfig> {
        TcpConfig::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<TcpConfig> {
        let set = |name| variable(name).filter(|value: &String| !value.is_empty());
        let address = match set("LOCO_TCP_ADDRESS") {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                FabricError::Config(format!(
                    "LOCO_TCP_ADDRESS: `{text}` is no IP address: write one of this host's, as 192.0.2.1"
                ))
            })?),
        };
        let encrypt = match set("LOCO_TCP_ENCRYPT").as_deref() {
            None | Some("no") => false,
            Some("yes") => true,
            Some(other) => {
                return Err(FabricError::Config(format!(
                    "LOCO_TCP_ENCRYPT: `{other}` is neither `yes` nor `no`"
                )));
            }
        };
        Ok(TcpConfig {
            address,
            encrypt,
            ..TcpConfig::default()
        })
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(FabricError::Config(format!("`TcpConfig`: {what}")));
        if self.memory_limit_bytes == 0 {
            return wrong("`memory_limit_bytes` is 0: 256 MiB is usual");
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

    fn parse(name: &'static str, value: &'static str) -> Result<TcpConfig> {
        TcpConfig::from_variables(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn the_environment_chooses_address_and_encryption() {
        let config = parse("LOCO_TCP_ADDRESS", "192.0.2.1").unwrap();
        assert_eq!(config.address, Some([192, 0, 2, 1].into()));
        assert!(parse("LOCO_TCP_ENCRYPT", "yes").unwrap().encrypt);
        assert_eq!(parse("LOCO_TCP_ENCRYPT", "").unwrap(), TcpConfig::default());
        for (name, value) in [("LOCO_TCP_ADDRESS", "here"), ("LOCO_TCP_ENCRYPT", "1")] {
            let error = parse(name, value).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        for config in [
            TcpConfig::default().queue_depth(0),
            TcpConfig::default().memory_limit_bytes(0),
        ] {
            assert!(matches!(config.check(), Err(FabricError::Config(_))));
        }
        assert_eq!(TcpConfig::default().check(), Ok(()));
    }
}
