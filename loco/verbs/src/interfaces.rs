//! Finds the IP addresses of this host's network interfaces (`getifaddrs`). InfiniBand ports need them
//! because their GIDs hold none.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// Returns the addresses of `interface`, IPv4 first, without link-local ones.
pub(super) fn addresses_of(interface: &str) -> Vec<IpAddr> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the call fills `list` with a chain that is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let mut addresses = Vec::new();
    let mut entry = list;
    while !entry.is_null() {
        // SAFETY: entries of the chain are valid until it is freed; names are C strings; `ifa_addr` is null or an
        // address of the family that it names.
        unsafe {
            if CStr::from_ptr((*entry).ifa_name).to_bytes() == interface.as_bytes() {
                addresses.extend(address((*entry).ifa_addr));
            }
            entry = (*entry).ifa_next;
        }
    }
    // SAFETY: the chain of the call above, no longer used.
    unsafe { libc::freeifaddrs(list) };
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses
}

/// Reads an IPv4 or IPv6 address. Returns nothing for null, for other families and for link-local addresses.
///
/// # Safety
/// `address` is null or points to an address of the family that it names.
unsafe fn address(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: by the caller's promise; read without assuming the alignment of the larger types.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))))
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                let v6 = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                (!v6.is_unicast_link_local()).then_some(IpAddr::V6(v6))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_its_address() {
        assert_eq!(addresses_of("lo").first(), Some(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(addresses_of("no such interface").is_empty());
    }
}
