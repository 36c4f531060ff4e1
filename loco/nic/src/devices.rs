//! The devices of this process: their GUIDs, their addresses, and the GIDs of their ports.
//!
//! All of them are on one Ethernet, and the engine carries what any of them sends. In a world of one host, the first has the host's
//! address, and device `k` after it has 127.0.0.(k+1). In a world of several hosts, these are hosts themselves, so that only the first
//! device of each has an address. Used by the functions of libibverbs and librdmacm.

use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

use crate::abroad::Abroad;
use crate::ffi::RawGid;
use crate::settings::{abroad, settings};

/// The index of the GID that is made of a device's address. That of a device without one is its first GID again, as cards have the same
/// GID for each version of RoCE.
pub(crate) const ADDRESS_GID: u8 = 1;

/// Identifies a device: its number, its GUID and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub index: u8,
    pub guid: u64,
    /// Its address, if it has one of its own.
    address: Option<IpAddr>,
    /// The GIDs of its port.
    pub gids: [RawGid; 2],
}

impl Identity {
    /// Returns that of a device of the host with an address.
    fn new(index: u8, host: IpAddr, is_alone: bool) -> Identity {
        let address = match index {
            0 => Some(host),
            _ => is_alone.then(|| Ipv4Addr::new(127, 0, 0, index + 1).into()),
        };
        let guid = guid(index, host);
        let mut local = [0; 16];
        local[..2].copy_from_slice(&[0xfe, 0x80]);
        local[8..].copy_from_slice(&guid.to_be_bytes());
        Identity {
            index,
            guid,
            address,
            gids: [local, address.map_or(local, wide)],
        }
    }

    /// Returns the GID that is of the same kind as another: link-local, or not.
    pub fn gid_beside(&self, other: &RawGid) -> RawGid {
        let alike = self.gids.iter().find(|gid| gid[..2] == other[..2]);
        *alike.unwrap_or(&self.gids[0])
    }
}

/// Returns the devices. There is one at least.
pub(crate) fn devices() -> &'static [Identity] {
    static DEVICES: OnceLock<Vec<Identity>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let (host, is_alone) = (host_address(), abroad().is_none());
        let indices = 0..settings().devices;
        indices
            .map(|index| Identity::new(index, host, is_alone))
            .collect()
    })
}

/// Returns the index of the device that has an address. Those of this host that no other has are the first one's.
pub(crate) fn device_at(address: IpAddr) -> Option<usize> {
    let found = devices()
        .iter()
        .position(|device| device.address == Some(address));
    found.or_else(|| own_addresses().contains(&address).then_some(0))
}

/// Returns the address by which the world knows this host. In a world of one host, it is the first of IPv4 that is not the
/// loopback's, or that.
pub(crate) fn host_address() -> IpAddr {
    if let Some(abroad) = abroad() {
        return abroad.own_address();
    }
    let addresses = interface_addresses();
    let outside = addresses.into_iter().find(|address| !address.is_loopback());
    outside
        .filter(IpAddr::is_ipv4)
        .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Returns the addresses of this host and of its devices, those of IPv4 first.
pub(crate) fn own_addresses() -> Vec<IpAddr> {
    let mut found = interface_addresses();
    for address in devices().iter().filter_map(|device| device.address) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found.sort_by_key(IpAddr::is_ipv6);
    found
}

/// Returns the addresses of this host's interfaces, those of IPv4 first.
#[allow(unsafe_code)]
fn interface_addresses() -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = abroad().map(Abroad::own_address).into_iter().collect();
    let mut list = std::ptr::null_mut();
    // SAFETY: the list is filled by the call, walked while it lasts, and freed once. Addresses are of the family that they name.
    unsafe {
        if libc::getifaddrs(&raw mut list) != 0 {
            return found;
        }
        let mut at: *mut libc::ifaddrs = list;
        while !at.is_null() {
            let address = (*at).ifa_addr;
            if !address.is_null() && c_int::from((*address).sa_family) == libc::AF_INET {
                let address: *const libc::sockaddr_in = address.cast();
                let raw = u32::from_be((*address).sin_addr.s_addr);
                found.push(IpAddr::V4(Ipv4Addr::from(raw)));
            } else if !address.is_null() && c_int::from((*address).sa_family) == libc::AF_INET6 {
                let address: *const libc::sockaddr_in6 = address.cast();
                found.push(IpAddr::V6((*address).sin6_addr.s6_addr.into()));
            }
            at = (*at).ifa_next;
        }
        libc::freeifaddrs(list);
    }
    found.sort_by_key(IpAddr::is_ipv6);
    found.dedup();
    found
}

/// Returns an address as one of IPv6: mapped, if it is of IPv4.
fn wide(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Returns the GUID of a device: one that nobody administers, of the host's address and the device's index.
fn guid(index: u8, host: IpAddr) -> u64 {
    let wide = wide(host);
    let address = u64::from(u32::from_be_bytes([wide[12], wide[13], wide[14], wide[15]]));
    let index = u64::from(index) << 48;
    0x0200_00ff_fe00_0000 | index | (address & 0xff_0000) << 24 | address & 0xff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));

    #[test]
    fn every_device_of_one_host_has_its_own_guid_and_gids() {
        let all: Vec<_> = (0..8).map(|index| Identity::new(index, HOST, true)).collect();
        for (at, one) in all.iter().enumerate() {
            assert_ne!(one.gids[0], one.gids[1]);
            for other in &all[at + 1..] {
                assert_ne!(one.guid, other.guid);
                assert!(one.gids.iter().all(|gid| !other.gids.contains(gid)));
            }
        }
        assert_eq!(all[0].gids[1], wide(HOST));
        assert_eq!(all[2].gids[1], wide(Ipv4Addr::new(127, 0, 0, 3).into()));
    }

    /// Addresses of the loopback may be other hosts, so that a further device has only what its GUID makes.
    #[test]
    fn further_devices_of_one_of_several_hosts_have_no_address() {
        let all: Vec<_> = (0..2).map(|index| Identity::new(index, HOST, false)).collect();
        assert_eq!(all[0], Identity::new(0, HOST, true));
        assert_eq!(all[1].address, None);
        assert_eq!(all[1].gids[0], all[1].gids[1]);
        assert_ne!(all[0].gids[0], all[1].gids[0]);
        let beside = |other: &RawGid| all[1].gid_beside(other);
        assert_eq!(all[0].gids.each_ref().map(beside), all[1].gids);
    }
}
