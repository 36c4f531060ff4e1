//! What `loco nic` tells the library through the environment.

use std::path::PathBuf;
use std::sync::OnceLock;

use loco_fabric::Tier;

use crate::abroad::Abroad;
use crate::log;

/// How much the NIC does out of the ordinary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stress {
    /// Everything at once and in order: the plain, fast emulation.
    None,
    /// Every liberty of the tier, all the time.
    Default,
    /// Every liberty of the tier in phases, and little of them between.
    Auto,
}

/// The settings of this process.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The folder where processes meet.
    pub world: PathBuf,
    /// The other hosts of the world, or what is wrong with what was said of them.
    pub abroad: Result<Option<Abroad>, String>,
    /// What the network keeps in order.
    pub tier: Tier,
    /// How much the NIC does out of the ordinary.
    pub stress: Stress,
    /// What random choices begin with.
    pub seed: u64,
    /// The file to which counts are appended when the process ends.
    pub report: Option<PathBuf>,
    /// The file to which a timeline is appended.
    pub trace: Option<PathBuf>,
    /// One of so many datagrams and unreliable messages is lost; 0 for none.
    pub drop: u64,
}

/// Returns the settings, which are read once.
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(read)
}

/// Returns the other hosts, if this world has any.
pub(crate) fn abroad() -> Option<&'static Abroad> {
    settings().abroad.as_ref().ok()?.as_ref()
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> Option<u64> {
    let value = variable(name)?;
    let number = value.parse().ok();
    if number.is_none() {
        log::say(format_args!("{name}={value} is not a number, and is ignored"));
    }
    number
}

fn read() -> Settings {
    let tier = variable("LOCO_NIC_TIER").and_then(|name| {
        let tier = Tier::ALL.into_iter().find(|tier| tier.name() == name);
        if tier.is_none() {
            log::say(format_args!("LOCO_NIC_TIER={name} is no tier; this is ibta"));
        }
        tier
    });
    let stress = match variable("LOCO_NIC_STRESS").as_deref() {
        Some("default") => Stress::Default,
        Some("auto") => Stress::Auto,
        None | Some("none") => Stress::None,
        Some(other) => {
            log::say(format_args!(
                "LOCO_NIC_STRESS={other} is not none, default or auto; this is none"
            ));
            Stress::None
        }
    };
    Settings {
        world: variable("LOCO_NIC_WORLD").map_or_else(default_world, PathBuf::from),
        abroad: variable("LOCO_NIC_HOSTS")
            .map(|hosts| Abroad::read(&hosts, number("LOCO_NIC_HOST")))
            .transpose(),
        tier: tier.unwrap_or(Tier::Ibta),
        stress,
        seed: number("LOCO_NIC_SEED").unwrap_or(0),
        report: variable("LOCO_NIC_REPORT").map(PathBuf::from),
        trace: variable("LOCO_NIC_TRACE").map(PathBuf::from),
        drop: number("LOCO_NIC_DROP").unwrap_or(0),
    }
}

/// Returns the folder where processes of one user meet, unless they are told another.
pub fn default_world() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    std::env::temp_dir().join(format!("loco-nic-{user}"))
}
