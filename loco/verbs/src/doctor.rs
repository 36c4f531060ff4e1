//! Checks a host for everything that the verbs fabric needs, and names the remedies.

use std::path::{Path, PathBuf};

use loco_fabric::{Atomicity, Fabric, Known};
use loco_job::Mesh;
use rustix::fs::Access;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::config::VerbsConfig;
use super::fabric::VerbsFabric;
use super::ffi::library_status;
use super::listed;
use super::sysfs::{self, RdmaDevice};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The name of the check (`port`, `locked memory`, ...).
    pub name: String,
    /// The verdict.
    pub verdict: Verdict,
    /// A description of what was found.
    pub found: String,
    /// The remedy, if there is one.
    pub remedy: Option<String>,
}

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Everything is as it should be.
    Ok,
    /// The fabric works, but not as well as it could.
    Warning,
    /// The fabric cannot work.
    Failed,
    /// The check was skipped because of an earlier failure.
    Skipped,
}

impl Check {
    fn new(name: &str, verdict: Verdict, found: impl Into<String>, remedy: &str) -> Check {
        Check {
            name: name.to_owned(),
            verdict,
            found: found.into(),
            remedy: (verdict != Verdict::Ok && !remedy.is_empty()).then(|| remedy.to_owned()),
        }
    }
}

/// Checks everything that the verbs fabric needs on this host with this configuration. If nothing is missing,
/// brings the fabric up on one node and reads through the device.
pub fn check_host(config: &VerbsConfig) -> Vec<Check> {
    let mut checks = if config.provider.is_system() {
        Host::real().checks(config)
    } else {
        Vec::new()
    };
    if checks.iter().all(|check| check.verdict != Verdict::Failed) {
        checks.extend(self_test(config));
    } else {
        let why = "something above is missing";
        checks.push(Check::new(
            "self-test",
            Verdict::Skipped,
            why,
            "repair what failed, then run it again",
        ));
    }
    checks
}

/// The places in which a host keeps the facts to check. Tests have their own.
struct Host {
    devices: PathBuf,
    nodes: PathBuf,
    meminfo: PathBuf,
}

impl Host {
    fn real() -> Host {
        Host {
            devices: sysfs::ROOT.into(),
            nodes: "/dev/infiniband".into(),
            meminfo: "/proc/meminfo".into(),
        }
    }

    fn checks(&self, config: &VerbsConfig) -> Vec<Check> {
        let of_kernel = sysfs::devices(&self.devices);
        let devices = match self.devices == Path::new(sysfs::ROOT) {
            true => listed::devices(),
            false => of_kernel.clone(),
        };
        let mut checks: Vec<_> = library_status().iter().map(|library| {
            let (verdict, found) = match &library.error {
                None => (Verdict::Ok, "found".to_owned()),
                Some(error) => (Verdict::Failed, error.clone()),
            };
            let remedy = "install libibverbs1, librdmacm1 and ibverbs-providers (Debian, Ubuntu) or rdma-core (Fedora, \
                          RHEL, SUSE)";
            Check::new(library.soname, verdict, found, remedy)
        }).collect();
        checks.push(device(&devices));
        checks.push(port(&devices, config));
        // A device that a library plays needs no files of the kernel.
        if devices == of_kernel {
            checks.extend(self.permissions(&devices));
        }
        checks.push(locked_memory(getrlimit(Resource::Memlock).current, config));
        checks.push(self.huge_pages(config));
        checks
    }

    fn permissions(&self, devices: &[RdmaDevice]) -> Vec<Check> {
        if devices.is_empty() {
            return Vec::new();
        }
        let mut nodes: Vec<String> = std::fs::read_dir(&self.nodes)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.starts_with("uverbs"))
            .collect();
        nodes.sort();
        let modules = "load the kernel modules: `modprobe ib_uverbs rdma_ucm`";
        let mut checks = Vec::new();
        if nodes.is_empty() {
            let found = format!("no {}/uverbs*", self.nodes.display());
            checks.push(Check::new("uverbs", Verdict::Failed, found, modules));
        }
        nodes.push("rdma_cm".to_owned());
        for name in nodes {
            let path = self.nodes.join(&name);
            let (verdict, found, remedy) = match rustix::fs::access(&path, Access::READ_OK | Access::WRITE_OK)
            {
                Ok(()) => (Verdict::Ok, "readable and writable".to_owned(), ""),
                Err(rustix::io::Errno::NOENT) => (Verdict::Failed, format!("no {}", path.display()), modules),
                Err(error) => (
                    Verdict::Failed,
                    format!("{}: {error}", path.display()),
                    "make it readable and writable for this user: `chmod a+rw`, or the udev rules of rdma-core and the \
                     group `rdma`; in a container pass the device in (`--device`)",
                ),
            };
            checks.push(Check::new(&name, verdict, found, remedy));
        }
        checks
    }

    fn huge_pages(&self, config: &VerbsConfig) -> Check {
        let meminfo = std::fs::read_to_string(&self.meminfo).unwrap_or_default();
        let free: u64 = meminfo
            .lines()
            .find_map(|line| line.strip_prefix("HugePages_Free:")?.trim().parse().ok())
            .unwrap_or(0);
        let wanted = config.arena_bytes.div_ceil(2 << 20);
        let verdict = if free > 0 { Verdict::Ok } else { Verdict::Warning };
        let remedy = format!(
            "optional: `sysctl vm.nr_hugepages={wanted}` reserves pages for one arena a node; fewer address translations \
             on the card"
        );
        Check::new("huge pages", verdict, format!("{free} of 2 MiB free"), &remedy)
    }
}

fn device(devices: &[RdmaDevice]) -> Check {
    let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
    let (verdict, found) = match names.as_slice() {
        [] => (Verdict::Failed, "none".to_owned()),
        names => (Verdict::Ok, names.join(", ")),
    };
    let remedy = "load the driver of the card (`lspci`, `dmesg`); for tests a software device: `modprobe rdma_rxe; rdma \
                  link add rxe0 type rxe netdev eth0`";
    Check::new("RDMA device", verdict, found, remedy)
}

fn port(devices: &[RdmaDevice], config: &VerbsConfig) -> Check {
    let name = "port and GID";
    if devices.is_empty() {
        return Check::new(name, Verdict::Skipped, "no device", "");
    }
    match sysfs::choose(devices, &config.wanted()) {
        Ok(choices) => Check::new(name, Verdict::Ok, choices[0].to_string(), ""),
        Err(error) => {
            let text = error.to_string();
            let (found, remedy) = text.split_once(": ").unwrap_or((&text, ""));
            Check::new(name, Verdict::Failed, found, remedy)
        }
    }
}

fn locked_memory(limit: Option<u64>, config: &VerbsConfig) -> Check {
    let arena = config.arena_bytes as u64;
    let remedy = format!(
        "registered memory is locked, {} MiB and more a node: `ulimit -l unlimited`, `memlock` in \
         /etc/security/limits.conf, LimitMEMLOCK= of the service that starts the job",
        arena >> 20
    );
    let (verdict, found) = match limit {
        None => (Verdict::Ok, "unlimited".to_owned()),
        // Root is exempt from the limit.
        Some(limit) if rustix::process::geteuid().is_root() => {
            (Verdict::Ok, format!("{} KiB, not for root", limit >> 10))
        }
        Some(limit) if limit < arena => (Verdict::Failed, format!("{} KiB", limit >> 10)),
        Some(limit) if limit < 4 * arena => (Verdict::Warning, format!("{} KiB", limit >> 10)),
        Some(limit) => (Verdict::Ok, format!("{} KiB", limit >> 10)),
    };
    Check::new("locked memory", verdict, found, &remedy)
}

/// Brings the fabric up on one node, which connects to itself and reads.
fn self_test(config: &VerbsConfig) -> Vec<Check> {
    let brought_up = Mesh::in_process(1).and_then(|mut meshes| {
        let config = config.clone().arena_bytes(1 << 20);
        VerbsFabric::new(meshes.remove(0), config)
    });
    let fabric = match brought_up {
        Ok(fabric) => fabric,
        Err(error) => return vec![Check::new("self-test", Verdict::Failed, error.to_string(), "")],
    };
    let caps = fabric.caps();
    let flush = if fabric.flushes_by_zero_length_reads() {
        "reads of length zero"
    } else {
        "reads of a word"
    };
    let atomics = match caps.atomicity {
        Atomicity::Glob => (Verdict::Ok, "atomic also against the CPU (GLOB)"),
        Atomicity::Hca => (
            Verdict::Ok,
            "atomic among remote operations, not against the CPU (HCA)",
        ),
        Atomicity::None => (Verdict::Warning, "none"),
    };
    let device_memory = match caps.device_memory_bytes {
        0 => "no device memory".to_owned(),
        bytes => format!("{bytes} bytes of device memory"),
    };
    let found = format!(
        "read this node's own memory through {}; inline up to {} bytes, flushes by {flush}, {device_memory}",
        fabric.choice(),
        caps.inline_bytes_max
    );
    let words = match fabric.places_words_of_a_write_in_order() {
        Ok(Some(true)) => {
            "; the library says that the words of one write are in order, and nothing about two writes"
        }
        _ => "",
    };
    let order = format!("{}{words}", caps.order);
    let ordered = match caps.order.known {
        Known::Assumed => Verdict::Warning,
        Known::Asked | Known::Device => Verdict::Ok,
    };
    let how_to_know = "if the device orders more, LOCO_VERBS_ORDER=ibta (or ooo-rw) saves the waits; docs/ordering.md says how \
                       to find out. A tier that is too strong corrupts data silently";
    let no_atomics = "objects that need remote atomics (locks, queue) will not work with this device";
    vec![
        Check::new("self-test", Verdict::Ok, found, ""),
        Check::new("order", ordered, order, how_to_know),
        Check::new("remote atomics", atomics.0, atomics.1, no_atomics),
    ]
}

#[cfg(test)]
mod tests {

    use super::*;

    fn host(root: &Path) -> Host {
        Host {
            devices: root.join("devices"),
            nodes: root.join("nodes"),
            meminfo: root.join("meminfo"),
        }
    }

    fn put(file: PathBuf, text: &str) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn verdict(checks: &[Check], name: &str) -> Verdict {
        checks.iter().find(|check| check.name == name).unwrap().verdict
    }

    #[test]
    fn a_host_without_rdma_is_told_what_to_load() {
        let dir = tempfile::tempdir().unwrap();
        let checks = host(dir.path()).checks(&VerbsConfig::default());
        assert_eq!(verdict(&checks, "RDMA device"), Verdict::Failed);
        assert_eq!(verdict(&checks, "port and GID"), Verdict::Skipped);
        let device = checks.iter().find(|check| check.name == "RDMA device").unwrap();
        assert!(device.remedy.as_ref().unwrap().contains("modprobe"));
        let failed = checks.iter().filter(|check| check.verdict == Verdict::Failed);
        assert!(failed.into_iter().all(|check| check.remedy.is_some()));
    }

    #[test]
    fn a_host_with_a_device_but_no_link_and_no_modules() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path().join("devices/mlx5_0/ports/1/state"), "1: DOWN\n");
        put(dir.path().join("meminfo"), "HugePages_Free:       12\n");
        let checks = host(dir.path()).checks(&VerbsConfig::default());
        assert_eq!(verdict(&checks, "RDMA device"), Verdict::Ok);
        assert_eq!(verdict(&checks, "port and GID"), Verdict::Failed);
        assert_eq!(verdict(&checks, "uverbs"), Verdict::Failed);
        assert_eq!(verdict(&checks, "rdma_cm"), Verdict::Failed);
        assert_eq!(verdict(&checks, "huge pages"), Verdict::Ok);
        put(dir.path().join("nodes/uverbs0"), "");
        put(dir.path().join("nodes/rdma_cm"), "");
        let checks = host(dir.path()).checks(&VerbsConfig::default());
        assert_eq!(verdict(&checks, "uverbs0"), Verdict::Ok);
    }

    #[test]
    fn locked_memory_counts_in_arenas() {
        let config = VerbsConfig::default();
        let of = |limit| locked_memory(limit, &config).verdict;
        assert_eq!(of(None), Verdict::Ok);
        if !rustix::process::geteuid().is_root() {
            assert_eq!(of(Some(64 << 10)), Verdict::Failed);
            assert_eq!(of(Some(100 << 20)), Verdict::Warning);
        }
        assert_eq!(of(Some(1 << 40)), Verdict::Ok);
    }
}
