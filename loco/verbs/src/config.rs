//! Options of the verbs fabric.

use std::time::Duration;

use loco_fabric::{FabricError, Result, Tier};
use loco_host::HugePages;

use super::provider::Provider;
use super::sysfs::Wanted;

/// The configuration of one node's verbs fabric.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VerbsConfig {
    /// The source of RDMA.
    pub provider: Provider,
    /// The device by name (`mlx5_0`, `rxe0`). Without a name, the fabric takes the first device that has an
    /// active port and a usable address.
    pub device: Option<String>,
    /// The port of the device, from 1. Without a number, the fabric takes the first active port.
    pub port: Option<u8>,
    /// The index in the port's GID table. Without an index, the fabric takes a routable RoCE v2 GID, IPv4
    /// before IPv6.
    pub gid_index: Option<u32>,
    /// The bytes of one arena, which is registered (and so pinned) as a whole (default 64 MiB). A longer
    /// allocation gets an arena of its own.
    pub arena_bytes: usize,
    /// The bytes of all arenas of this node together (default 8 GiB).
    pub memory_limit_bytes: usize,
    /// The page size of the arenas (default [`HugePages::TwoMiB`]).
    pub huge_pages: HugePages,
    /// The number of slots of one queue pair (default 256; rounded up to a power of two and limited by the device). One
    /// slot is kept for the end, so one operation fewer can be under way and not polled.
    pub queue_depth: usize,
    /// The largest inline put to ask the device for, in bytes (default 512; the device may grant less).
    pub inline_bytes_max: usize,
    /// The order that the device keeps by itself. Without a tier the fabric relies on the order of devices that are known to it, and
    /// elsewhere on none (`ooo-all`). A tier stronger than that of a known device is refused. Nothing checks others: on a
    /// device that orders less, data may be seen after its flag.
    pub order: Option<Tier>,
    /// The time that a packet waits for its acknowledgement: 4.096 us times two to this power (default 16,
    /// 0.27 s). An operation fails after eight tries. 0 leaves the time to the connection manager.
    pub ack_timeout: u8,
    /// The time that the port may be down before operations under way fail (default 5 s). The device's own
    /// retries usually end them before. Soft-RoCE would wait for ever, because its packets do not even leave
    /// then. An operation that the peer did not acknowledge waits as long for the job to find the peer lost, and fails with
    /// the device's error after that.
    pub link_timeout: Duration,
    /// The time that making a queue pair may take (default 30 s).
    pub connect_timeout: Duration,
    /// The time that the nodes wait for one another at set-up (default 30 s).
    pub set_up_timeout: Duration,
}

loco_fabric::setters!(VerbsConfig {
    provider: Provider,
    device: Option<String>,
    port: Option<u8>,
    gid_index: Option<u32>,
    arena_bytes: usize,
    memory_limit_bytes: usize,
    huge_pages: HugePages,
    queue_depth: usize,
    inline_bytes_max: usize,
    order: Option<Tier>,
    ack_timeout: u8,
    link_timeout: Duration,
    connect_timeout: Duration,
    set_up_timeout: Duration,
});

impl Default for VerbsConfig {
    fn default() -> VerbsConfig {
        VerbsConfig {
            provider: Provider::System,
            device: None,
            port: None,
            gid_index: None,
            arena_bytes: 64 << 20,
            memory_limit_bytes: 8 << 30,
            huge_pages: HugePages::default(),
            queue_depth: 256,
            inline_bytes_max: 512,
            order: None,
            ack_timeout: 16,
            link_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(30),
            set_up_timeout: Duration::from_secs(30),
        }
    }
}

impl VerbsConfig {
    /// Returns the default configuration, changed by the environment: `LOCO_VERBS_DEVICE` (`name` or
    /// `name:port`), `LOCO_VERBS_GID` (an index), `LOCO_VERBS_ARENA_MIB`, `LOCO_VERBS_ORDER` (`auto`, or the tier of the
    /// device: `ibta`, `ooo-rw`, `ooo-all`, `relaxed`).
    ///
    /// # Errors
    /// Returns [`FabricError::Config`], which names the variable that cannot be understood.
    pub fn from_env() -> Result<VerbsConfig> {
        VerbsConfig::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<VerbsConfig> {
        let mut config = VerbsConfig::default();
        if let Some(value) = variable("LOCO_VERBS_DEVICE").filter(|value| !value.is_empty()) {
            match value.split_once(':') {
                None => config.device = Some(value),
                Some((device, port)) => {
                    config.device = Some(device.to_owned());
                    config.port = Some(number("LOCO_VERBS_DEVICE", port)?);
                }
            }
        }
        if let Some(value) = variable("LOCO_VERBS_GID") {
            config.gid_index = Some(number("LOCO_VERBS_GID", &value)?);
        }
        if let Some(value) = variable("LOCO_VERBS_ARENA_MIB") {
            let mib: u32 = number("LOCO_VERBS_ARENA_MIB", &value)?;
            config.arena_bytes = (mib as usize) << 20;
        }
        if let Some(value) = variable("LOCO_VERBS_ORDER").filter(|value| !value.is_empty()) {
            config.order = tier(&value)?;
        }
        config.check()?;
        Ok(config)
    }

    /// Returns the criteria by which the device is chosen.
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        Wanted {
            device: self.device.as_deref(),
            port: self.port,
            gid_index: self.gid_index,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(FabricError::Config(format!("`VerbsConfig`: {what}")));
        if self.arena_bytes == 0 {
            return wrong("`arena_bytes` is 0: 64 MiB is usual");
        }
        if !(2..=1 << 15).contains(&self.queue_depth) {
            return wrong("`queue_depth` must be 2 to 32768: 256 is usual");
        }
        if self.ack_timeout > 31 {
            return wrong("`ack_timeout` is a power of two up to 31: 16 is usual");
        }
        if self.order == Some(Tier::Unordered) {
            return wrong(
                "`order` is `unordered`, and reliable connections of verbs order more: give `ooo-all` or a stronger tier, or \
                 use the ofi fabric",
            );
        }
        if self.port == Some(0) {
            return wrong("`port` counts from 1");
        }
        Ok(())
    }
}

/// Reads the tier that `LOCO_VERBS_ORDER` names, if it names one.
fn tier(value: &str) -> Result<Option<Tier>> {
    let tier = match value {
        "auto" => None,
        "ibta" => Some(Tier::Ibta),
        "ooo-rw" => Some(Tier::OooRw),
        "ooo-all" => Some(Tier::OooAll),
        "relaxed" | "pcie-relaxed" => Some(Tier::PcieRelaxed),
        other => {
            return Err(FabricError::Config(format!(
                "LOCO_VERBS_ORDER: `{other}` is none of auto, ibta, ooo-rw, ooo-all, relaxed"
            )));
        }
    };
    Ok(tier)
}

fn number<T: std::str::FromStr>(variable: &str, value: &str) -> Result<T> {
    value
        .parse()
        .map_err(|_| FabricError::Config(format!("{variable}: `{value}` is not a number in range")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &'static str, value: &'static str) -> Result<VerbsConfig> {
        VerbsConfig::from_variables(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn the_environment_chooses_device_and_gid() {
        let config = parse("LOCO_VERBS_DEVICE", "mlx5_1:2").unwrap();
        assert_eq!((config.device.as_deref(), config.port), (Some("mlx5_1"), Some(2)));
        assert_eq!(parse("LOCO_VERBS_DEVICE", "rxe0").unwrap().port, None);
        assert_eq!(parse("LOCO_VERBS_GID", "3").unwrap().gid_index, Some(3));
        assert_eq!(parse("LOCO_VERBS_ARENA_MIB", "4").unwrap().arena_bytes, 4 << 20);
    }

    #[test]
    fn the_environment_names_the_tier_of_the_device() {
        let order = |value| parse("LOCO_VERBS_ORDER", value).unwrap().order;
        assert_eq!([order(""), order("auto")], [None, None]);
        let tiers = ["ibta", "ooo-rw", "ooo-all", "relaxed"].map(order);
        let known = [Tier::Ibta, Tier::OooRw, Tier::OooAll, Tier::PcieRelaxed];
        assert_eq!(tiers, known.map(Some));
        for value in ["strict", "unordered", "IBTA"] {
            let error = parse("LOCO_VERBS_ORDER", value).unwrap_err().to_string();
            let known = "none of auto, ibta, ooo-rw, ooo-all, relaxed";
            assert!(error.contains(known) && error.contains(value), "{error}");
        }
        let config = VerbsConfig::default().order(Some(Tier::Unordered));
        assert!(config.check().is_err(), "no device of verbs is of that tier");
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (name, value) in [
            ("LOCO_VERBS_DEVICE", "mlx5_1:x"),
            ("LOCO_VERBS_DEVICE", "mlx5_1:0"),
            ("LOCO_VERBS_GID", "-1"),
            ("LOCO_VERBS_ARENA_MIB", "0"),
        ] {
            assert!(
                matches!(parse(name, value), Err(FabricError::Config(_))),
                "{name}={value}"
            );
        }
    }
}
