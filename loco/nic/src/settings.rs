//! What `loco nic` tells the library through the environment, or a program that the library is linked into by a call.

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

/// How the NIC chooses when its steps are late. Bounds are from 1 to 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// Every step by chance.
    Random,
    /// By priorities of chains of steps, which change at one point less than this depth in every window (PCT).
    Pct(u32),
    /// At once and in order, but for so many delays in every window.
    Delays(u32),
}

impl Schedule {
    /// Reads `random`, `pct:DEPTH` or `delays:COUNT`.
    fn read(text: &str) -> Option<Schedule> {
        let bound = |number: &str| number.parse().ok().filter(|bound| (1..=16).contains(bound));
        match text.split_once(':') {
            None => (text == "random").then_some(Schedule::Random),
            Some(("pct", depth)) => bound(depth).map(Schedule::Pct),
            Some(("delays", count)) => bound(count).map(Schedule::Delays),
            Some(_) => None,
        }
    }
}

/// How often something is broken on request: at one of so many requests on average, or never for 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// A datagram or an unreliable message is lost.
    pub drop: u64,
    /// The link to the request's target is lost for good.
    pub lose_link: u64,
    /// The request's queue pair breaks.
    pub kill_qp: u64,
}

/// The most devices.
const DEVICES_MAX: u8 = 8;

/// The settings of this process.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The folder where processes meet.
    pub world: PathBuf,
    /// The other hosts of the world, or what is wrong with what was said of them.
    pub abroad: Result<Option<Abroad>, String>,
    /// The number of devices.
    pub devices: u8,
    /// What the network keeps in order.
    pub tier: Tier,
    /// How much the NIC does out of the ordinary.
    pub stress: Stress,
    /// How the NIC chooses when its steps are late.
    pub schedule: Schedule,
    /// What random choices begin with.
    pub seed: u64,
    /// The file to which counts are appended when the process ends.
    pub report: Option<PathBuf>,
    /// The file to which a timeline is appended.
    pub trace: Option<PathBuf>,
    /// What is broken on request.
    pub faults: Faults,
    /// Whether an atomic pushes data in regions of relaxed ordering to memory, as this project reads `ibv_reg_mr(3)`, and
    /// others do not.
    pub atomics_push: bool,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Returns the settings, which are read once.
pub(crate) fn settings() -> &'static Settings {
    SETTINGS.get_or_init(|| read(&|name| std::env::var(name).ok()))
}

/// Takes settings from `variable` in place of the environment, which a program that the library is linked into shares with all its
/// threads. Returns false if they have been read before: they stay as they are.
pub fn set(variable: impl Fn(&str) -> Option<String>) -> bool {
    SETTINGS.set(read(&variable)).is_ok()
}

/// Returns the other hosts, if this world has any.
pub(crate) fn abroad() -> Option<&'static Abroad> {
    settings().abroad.as_ref().ok()?.as_ref()
}

fn read(source: &dyn Fn(&str) -> Option<String>) -> Settings {
    let variable = |name: &str| source(name).filter(|value| !value.is_empty());
    let number = |name: &str| {
        let value = variable(name)?;
        let number: Option<u64> = value.parse().ok();
        if number.is_none() {
            log::say(format_args!("{name}={value} is not a number, and is ignored"));
        }
        number
    };
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
    let devices = variable("LOCO_NIC_DEVICES").map_or(1, |text| {
        let number = text
            .parse()
            .ok()
            .filter(|number| (1..=DEVICES_MAX).contains(number));
        number.unwrap_or_else(|| {
            log::say(format_args!(
                "LOCO_NIC_DEVICES={text} is not from 1 to {DEVICES_MAX}; this is 1"
            ));
            1
        })
    });
    let schedule = variable("LOCO_NIC_SCHEDULE").map_or(Schedule::Random, |text| {
        Schedule::read(&text).unwrap_or_else(|| {
            log::say(format_args!(
                "LOCO_NIC_SCHEDULE={text} is not random, pct:N or delays:N with N from 1 to 16; this is random"
            ));
            Schedule::Random
        })
    });
    Settings {
        world: variable("LOCO_NIC_WORLD").map_or_else(default_world, PathBuf::from),
        abroad: variable("LOCO_NIC_HOSTS")
            .map(|hosts| Abroad::read(&hosts, number("LOCO_NIC_HOST")))
            .transpose(),
        devices,
        tier: tier.unwrap_or(Tier::Ibta),
        stress,
        schedule,
        seed: number("LOCO_NIC_SEED").unwrap_or(0),
        report: variable("LOCO_NIC_REPORT").map(PathBuf::from),
        trace: variable("LOCO_NIC_TRACE").map(PathBuf::from),
        faults: Faults {
            drop: number("LOCO_NIC_DROP").unwrap_or(0),
            lose_link: number("LOCO_NIC_LOSE_LINK").unwrap_or(0),
            kill_qp: number("LOCO_NIC_KILL_QP").unwrap_or(0),
        },
        atomics_push: match variable("LOCO_NIC_ATOMICS_PUSH").as_deref() {
            None => false,
            Some("1") => true,
            Some(other) => {
                log::say(format_args!(
                    "LOCO_NIC_ATOMICS_PUSH={other} is not 1, and is ignored"
                ));
                false
            }
        },
    }
}

/// Returns the folder where processes of one user meet, unless they are told another.
pub fn default_world() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    std::env::temp_dir().join(format!("loco-nic-{user}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics_push_only_if_the_variable_is_1() {
        for (value, pushes) in [
            (None, false),
            (Some(""), false),
            (Some("0"), false),
            (Some("1"), true),
        ] {
            let of = |name: &str| {
                value
                    .filter(|_| name == "LOCO_NIC_ATOMICS_PUSH")
                    .map(str::to_owned)
            };
            assert_eq!(read(&of).atomics_push, pushes, "{value:?}");
        }
    }
}
