//! Addresses of sockets: reading and writing them, and resolving names.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use crate::ffi::*;
use crate::verbs::set_errno;

/// Reads the address of a socket.
///
/// # Safety
/// `from` is null, or an address of the family that it names.
pub(super) unsafe fn read(from: *const c_void) -> Option<SocketAddr> {
    if from.is_null() {
        return None;
    }
    // SAFETY: as the caller's.
    unsafe {
        let family = from.cast::<libc::sa_family_t>().read_unaligned();
        match c_int::from(family) {
            libc::AF_INET => {
                let raw: libc::sockaddr_in = from.cast::<libc::sockaddr_in>().read_unaligned();
                let ip = u32::from_be(raw.sin_addr.s_addr);
                Some(SocketAddr::new(IpAddr::V4(ip.into()), u16::from_be(raw.sin_port)))
            }
            libc::AF_INET6 => {
                let raw: libc::sockaddr_in6 = from.cast::<libc::sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
                Some(SocketAddr::new(IpAddr::V6(ip), u16::from_be(raw.sin6_port)))
            }
            _ => None,
        }
    }
}

/// Returns the bytes of an address, as a socket has them.
pub(super) fn bytes(address: SocketAddr) -> [u8; 28] {
    let mut bytes = [0; 28];
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let family = libc::sa_family_t::try_from(family).unwrap_or_default();
    bytes[..2].copy_from_slice(&family.to_ne_bytes());
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => bytes[4..8].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes[8..24].copy_from_slice(&ip.octets()),
    }
    bytes
}

/// Reads the bytes of an address.
pub(super) fn from_bytes(bytes: &[u8; 28]) -> Option<SocketAddr> {
    // SAFETY: there are as many bytes as an address of either family has.
    unsafe { read(bytes.as_ptr().cast()) }
}

/// Writes an address into an identifier's place for it.
pub(super) fn write(to: &mut [u64; 16], address: SocketAddr) {
    for (word, chunk) in to.iter_mut().zip(bytes(address).chunks(8)) {
        let mut whole = [0; 8];
        whole[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(whole);
    }
}

/// Reads an address from an identifier's place for it.
pub(super) fn of(place: &[u64; 16]) -> Option<SocketAddr> {
    // SAFETY: there are as many bytes as an address of either family has.
    unsafe { read(place.as_ptr().cast()) }
}

pub(crate) unsafe extern "C" fn get_src_port(id: *mut CmId) -> u16 {
    // SAFETY: the program's own identifier.
    of(unsafe { &(*id).src_addr }).map_or(0, |address| address.port().to_be())
}

pub(crate) unsafe extern "C" fn get_dst_port(id: *mut CmId) -> u16 {
    // SAFETY: the program's own identifier.
    of(unsafe { &(*id).dst_addr }).map_or(0, |address| address.port().to_be())
}

/// What `rdma_getaddrinfo` returns, and the addresses that it points to.
#[repr(C)]
struct Resolved {
    info: AddrInfo,
    source: [u64; 16],
    target: [u64; 16],
}

unsafe fn text<'a>(from: *const c_char) -> Option<&'a str> {
    if from.is_null() {
        return None;
    }
    // SAFETY: the caller gives a string.
    unsafe { CStr::from_ptr(from) }.to_str().ok()
}

pub(crate) unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const AddrInfo,
    result: *mut *mut AddrInfo,
) -> c_int {
    let mut info: AddrInfo = zeroed();
    // SAFETY: the caller gives strings, hints or none, and room for the result.
    unsafe {
        if let Some(hints) = hints.as_ref() {
            info.ai_flags = hints.ai_flags;
            info.ai_family = hints.ai_family;
            info.ai_qp_type = hints.ai_qp_type;
            info.ai_port_space = hints.ai_port_space;
        }
        let passive = info.ai_flags.cast_unsigned() & RAI_PASSIVE != 0;
        let port = text(service).map_or(Some(0), |service| service.parse::<u16>().ok());
        let name = text(node).unwrap_or(if passive { "0.0.0.0" } else { "127.0.0.1" });
        // Without a name and a service, the hints have the addresses.
        let given = hints.as_ref().filter(|_| node.is_null() && service.is_null());
        let given = given.and_then(|hints| {
            read(if passive {
                hints.ai_src_addr
            } else {
                hints.ai_dst_addr
            })
        });
        let found = given.or_else(|| {
            let port = port?;
            let mut all = (name, port).to_socket_addrs().ok()?;
            all.find(|address| info.ai_family != libc::AF_INET6 || address.is_ipv6())
        });
        let Some(address) = found else {
            set_errno(libc::EINVAL);
            return libc::EAI_NONAME;
        };
        info.ai_family = if address.is_ipv4() {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        if info.ai_qp_type == 0 {
            info.ai_qp_type = match info.ai_port_space.cast_unsigned() {
                RDMA_PS_UDP => IBV_QPT_UD.cast_signed(),
                _ => IBV_QPT_RC.cast_signed(),
            };
        }
        if info.ai_port_space == 0 {
            info.ai_port_space = match info.ai_qp_type.cast_unsigned() {
                IBV_QPT_UD => RDMA_PS_UDP.cast_signed(),
                _ => RDMA_PS_TCP.cast_signed(),
            };
        }
        let resolved = Box::into_raw(Box::new(Resolved {
            info,
            source: [0; 16],
            target: [0; 16],
        }));
        let len = if address.is_ipv4() { 16 } else { 28 };
        if passive {
            write(&mut (*resolved).source, address);
            (*resolved).info.ai_src_len = len;
            (*resolved).info.ai_src_addr = (&raw mut (*resolved).source).cast();
        } else {
            write(&mut (*resolved).target, address);
            (*resolved).info.ai_dst_len = len;
            (*resolved).info.ai_dst_addr = (&raw mut (*resolved).target).cast();
            if let Some(hints) = hints.as_ref()
                && let Some(source) = read(hints.ai_src_addr)
            {
                write(&mut (*resolved).source, source);
                (*resolved).info.ai_src_len = hints.ai_src_len;
                (*resolved).info.ai_src_addr = (&raw mut (*resolved).source).cast();
            }
        }
        result.write(resolved.cast());
    }
    0
}

pub(crate) unsafe extern "C" fn freeaddrinfo(info: *mut AddrInfo) {
    if !info.is_null() {
        // SAFETY: `getaddrinfo` made it.
        drop(unsafe { Box::from_raw(info.cast::<Resolved>()) });
    }
}
