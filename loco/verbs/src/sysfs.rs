//! Lists RDMA devices, ports and GIDs as the kernel does in sysfs, and chooses among them.
//!
//! Sysfs needs no library and no permission, so `loco fabrics` and `loco doctor` work where opening a device does
//! not.

use std::fmt;
use std::fs;
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use serde::Serialize;

use super::interfaces::addresses_of;
use loco_fabric::{FabricError, Result, Tier};

/// The directory in which the kernel lists RDMA devices.
pub(super) const ROOT: &str = "/sys/class/infiniband";

/// An RDMA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RdmaDevice {
    /// The device's name (`mlx5_0`).
    pub name: String,
    /// The device's ports.
    pub ports: Vec<RdmaPort>,
}

/// A port of an RDMA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RdmaPort {
    /// The port's number, from 1.
    pub number: u8,
    /// The port's state as the kernel names it (`ACTIVE`, `DOWN`, ...).
    pub state: String,
    /// The link layer: `Ethernet` or `InfiniBand`.
    pub link_layer: String,
    /// The entries of the port's GID table that are in use.
    pub gids: Vec<Gid>,
}

/// An entry of a port's GID table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gid {
    /// The index in the table.
    pub index: u32,
    /// The identifier. RoCE v2 makes it from an IP address.
    pub gid: Ipv6Addr,
    /// The kind: `RoCE v2`, or `IB/RoCE v1`.
    pub kind: String,
    /// The network interface that the entry belongs to.
    pub interface: Option<String>,
}

/// The device, port and address that a node uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The name of the device.
    pub device: String,
    /// The number of the port.
    pub port: u8,
    /// The index of the GID, where the choice depends on it.
    pub gid_index: Option<u32>,
    /// The address by which peers connect.
    pub address: IpAddr,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Choice {
            device,
            port,
            gid_index,
            address,
        } = self;
        write!(f, "device {device}, port {port}, address {address}")?;
        match gid_index {
            Some(index) => write!(f, " (RoCE v2 GID {index})"),
            None => write!(f, " (IP over InfiniBand)"),
        }
    }
}

impl RdmaPort {
    /// Returns true if the port carries traffic.
    pub fn is_active(&self) -> bool {
        self.state == "ACTIVE"
    }
}

impl Gid {
    /// Returns the IP address of a RoCE v2 GID that other hosts can reach. Link-local addresses do not count,
    /// as they need an interface.
    pub fn routable_address(&self) -> Option<IpAddr> {
        if self.kind != "RoCE v2" || self.gid.is_unicast_link_local() || self.gid.is_unspecified() {
            return None;
        }
        Some(match self.gid.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(self.gid),
        })
    }
}

/// Returns the devices under `root`, by name. (`root` is [`ROOT`] except in tests.) There are none where the
/// kernel has no RDMA.
pub(super) fn devices(root: &Path) -> Vec<RdmaDevice> {
    names(root)
        .into_iter()
        .map(|name| {
            let ports_dir = root.join(&name).join("ports");
            let mut ports: Vec<_> = names(&ports_dir)
                .iter()
                .filter_map(|number| Some(port(&ports_dir.join(number), number.parse().ok()?)))
                .collect();
            ports.sort_by_key(|port| port.number);
            RdmaDevice { name, ports }
        })
        .collect()
}

/// Returns true for a device of `rdma_rxe`, the only driver that names the network interface under the
/// device.
pub(super) fn is_soft_roce(root: &Path, device: &str) -> bool {
    root.join(device).join("parent").exists()
}

/// Returns true for a device of `siw`, as its driver describes it.
pub(super) fn is_soft_iwarp(root: &Path, device: &str) -> bool {
    text(&root.join(device).join("node_desc")).starts_with("Software iWARP stack")
}

/// Returns the state of a port, as the kernel names it; empty if there is no such port.
pub(super) fn port_state(root: &Path, device: &str, number: u8) -> String {
    state(&root.join(device).join("ports").join(number.to_string()))
}

fn state(port: &Path) -> String {
    // The text is like "4: ACTIVE".
    let state = text(&port.join("state"));
    let name = state.split_once(": ").map(|(_, name)| name.to_owned());
    name.unwrap_or(state)
}

fn port(dir: &Path, number: u8) -> RdmaPort {
    let state = state(dir);
    let mut gids: Vec<_> = names(&dir.join("gids"))
        .iter()
        .filter_map(|index| {
            let gid: Ipv6Addr = text(&dir.join("gids").join(index)).parse().ok()?;
            // A table may have a thousand entries. Most of them are unused, and zero.
            if gid.is_unspecified() {
                return None;
            }
            let kind = text(&dir.join("gid_attrs/types").join(index));
            let interface = text(&dir.join("gid_attrs/ndevs").join(index));
            Some(Gid {
                index: index.parse().ok()?,
                gid,
                kind,
                interface: (!interface.is_empty()).then_some(interface),
            })
        })
        .collect();
    gids.sort_by_key(|gid| gid.index);
    RdmaPort {
        number,
        state,
        link_layer: text(&dir.join("link_layer")),
        gids,
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Returns the text of a file of sysfs, read by one `read`. The text is empty if the file cannot be read,
/// like the attributes of an unused GID.
fn text(file: &Path) -> String {
    let mut bytes = [0; 256];
    let len = fs::File::open(file)
        .and_then(|mut file| file.read(&mut bytes))
        .unwrap_or(0);
    String::from_utf8_lossy(&bytes[..len]).trim().to_owned()
}

/// The device, port and GID that are asked for. A missing value leaves the choice free.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted<'a> {
    /// The name of the device.
    pub(crate) device: Option<&'a str>,
    /// The port, from 1.
    pub(crate) port: Option<u8>,
    /// The index in the port's GID table.
    pub(crate) gid_index: Option<u32>,
}

/// Returns the candidates among `devices` that fit `wanted`, at least one, in the order of preference.
///
/// # Errors
/// Returns [`FabricError::Config`], which says what is missing and what to do.
pub(super) fn choose(devices: &[RdmaDevice], wanted: &Wanted<'_>) -> Result<Vec<Choice>> {
    let refuse = |what: String| Err(FabricError::Config(what));
    if devices.is_empty() {
        return refuse(
            "this host has no RDMA device: load the driver of the card, or for tests create a software one \
             (`modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0`); `loco doctor` checks the host"
                .to_owned(),
        );
    }
    let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
    let devices: Vec<_> = devices
        .iter()
        .filter(|device| wanted.device.is_none_or(|name| name == device.name))
        .collect();
    if devices.is_empty() {
        let asked = wanted.device.unwrap_or_default();
        return refuse(format!(
            "no RDMA device `{asked}`: this host has {}",
            names.join(", ")
        ));
    }
    let ports: Vec<_> = devices
        .iter()
        .flat_map(|device| device.ports.iter().map(move |port| (device.name.as_str(), port)))
        .filter(|(_, port)| wanted.port.is_none_or(|number| number == port.number))
        .collect();
    let states: Vec<_> = ports
        .iter()
        .map(|(device, port)| format!("{device} port {} is {}", port.number, port.state))
        .collect();
    let active: Vec<_> = ports.into_iter().filter(|(_, port)| port.is_active()).collect();
    if active.is_empty() {
        return refuse(format!(
            "no active RDMA port ({}): bring the link up (`ip link set DEV up`, cable, subnet manager)",
            if states.is_empty() {
                "no such port".to_owned()
            } else {
                states.join(", ")
            }
        ));
    }
    let mut choices: Vec<Choice> = active
        .iter()
        .flat_map(|(device, port)| addresses(device, port, wanted.gid_index))
        .collect();
    // The sort is stable, so devices and ports stay in order.
    choices.sort_by_key(|choice| choice.address.is_ipv6());
    if choices.is_empty() {
        return refuse(match wanted.gid_index {
            Some(index) => format!(
                "GID {index} is not a routable RoCE v2 GID of an active port: `loco fabrics` lists those there are"
            ),
            None => "no routable RoCE v2 GID: give the network interface of the RDMA port an IP address (`ip address \
                     add ... dev ...`); `loco fabrics` lists the GIDs there are"
                .to_owned(),
        });
    }
    Ok(choices)
}

fn addresses(device: &str, port: &RdmaPort, gid_index: Option<u32>) -> Vec<Choice> {
    let choice = |gid_index, address| Choice {
        device: device.to_owned(),
        port: port.number,
        gid_index,
        address,
    };
    if port.link_layer == "InfiniBand" {
        // The connection manager finds an InfiniBand port by the address of its IPoIB interface.
        let interfaces = names(&Path::new(ROOT).join(device).join("device/net"));
        let addresses = interfaces.iter().flat_map(|interface| addresses_of(interface));
        return addresses.map(|address| choice(None, address)).collect();
    }
    port.gids
        .iter()
        .filter(|gid| gid_index.is_none_or(|index| index == gid.index))
        .filter_map(|gid| Some(choice(Some(gid.index), gid.routable_address()?)))
        .collect()
}

/// Returns the tier of the devices that the kernel itself plays: `rdma_rxe` and `siw` carry the operations of a queue pair out
/// one after the other.
pub(crate) fn tier_of_software(root: &Path, device: &str) -> Option<Tier> {
    let known = is_soft_roce(root, device) || is_soft_iwarp(root, device);
    known.then_some(Tier::Ibta)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, file: &str, text: &str) {
        let file = root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Makes a device with one port. Its GID table has a link-local v1, a v2 IPv6 and a v2 IPv4 entry.
    fn device(root: &Path, name: &str, state: &str) {
        let port = |file: &str| format!("{name}/ports/1/{file}");
        put(root, &port("state"), state);
        put(root, &port("link_layer"), "Ethernet\n");
        for (index, gid, kind) in [
            (0, "fe80:0000:0000:0000:2c93:5eff:fe63:8b89", "IB/RoCE v1"),
            (1, "fe80:0000:0000:0000:2c93:5eff:fe63:8b89", "RoCE v2"),
            (2, "2001:0db8:0000:0000:0000:0000:0000:0007", "RoCE v2"),
            (3, "0000:0000:0000:0000:0000:ffff:0a4d:0001", "IB/RoCE v1"),
            (4, "0000:0000:0000:0000:0000:ffff:0a4d:0001", "RoCE v2"),
            (5, "0000:0000:0000:0000:0000:0000:0000:0000", ""),
        ] {
            put(root, &port(&format!("gids/{index}")), gid);
            put(root, &port(&format!("gid_attrs/types/{index}")), kind);
            put(root, &port(&format!("gid_attrs/ndevs/{index}")), "eth0\n");
        }
    }

    fn message(result: Result<Vec<Choice>>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_routable_roce_v2_gid_is_taken_ipv4_first() {
        let dir = tempfile::tempdir().unwrap();
        device(dir.path(), "mlx5_0", "4: ACTIVE\n");
        let devices = devices(dir.path());
        assert_eq!(devices[0].ports[0].gids.len(), 5, "the zero entry is unused");
        let choices = choose(&devices, &Wanted::default()).unwrap();
        let indices: Vec<_> = choices.iter().map(|choice| choice.gid_index).collect();
        assert_eq!(indices, [Some(4), Some(2)]);
        assert_eq!(
            choices[0].to_string(),
            "device mlx5_0, port 1, address 10.77.0.1 (RoCE v2 GID 4)"
        );
    }

    #[test]
    fn names_decide() {
        let dir = tempfile::tempdir().unwrap();
        device(dir.path(), "mlx5_0", "4: ACTIVE\n");
        device(dir.path(), "rxe0", "4: ACTIVE\n");
        let devices = devices(dir.path());
        let config = Wanted {
            device: Some("rxe0"),
            gid_index: Some(2),
            ..Wanted::default()
        };
        let choices = choose(&devices, &config).unwrap();
        assert_eq!(
            (choices.len(), choices[0].device.as_str(), choices[0].gid_index),
            (1, "rxe0", Some(2))
        );
    }

    #[test]
    fn what_is_missing_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let config = Wanted::default();
        assert!(message(choose(&devices(dir.path()), &config)).contains("no RDMA device: load the driver"));
        assert!(devices(&dir.path().join("nowhere")).is_empty());

        device(dir.path(), "mlx5_0", "1: DOWN\n");
        let down = message(choose(&devices(dir.path()), &config));
        assert!(down.contains("mlx5_0 port 1 is DOWN"), "{down}");

        device(dir.path(), "mlx5_0", "4: ACTIVE\n");
        let config = Wanted {
            gid_index: Some(1),
            ..Wanted::default()
        };
        assert!(message(choose(&devices(dir.path()), &config)).contains("GID 1 is not a routable"));
        let config = Wanted {
            device: Some("mlx4_0"),
            ..Wanted::default()
        };
        assert!(message(choose(&devices(dir.path()), &config)).contains("this host has mlx5_0"));
    }

    #[test]
    fn devices_of_the_kernel_are_known_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("rxe0/parent", "eth0\n"),
            ("siw0/node_desc", "Software iWARP stack\n"),
            ("mlx5_0/node_desc", "host HCA-1\n"),
        ] {
            let file = dir.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let tier = |device| tier_of_software(dir.path(), device);
        assert_eq!(
            [tier("rxe0"), tier("siw0"), tier("mlx5_0")],
            [Some(Tier::Ibta), Some(Tier::Ibta), None]
        );
    }
}
