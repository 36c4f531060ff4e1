//! The device `loco0` and its attributes.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

use crate::abroad::Abroad;
use crate::engine;
use crate::ffi::*;
use crate::log::unsupported;
use crate::settings::{abroad, settings};
use crate::verbs::set_errno;

/// The most work requests of a queue.
pub(super) const QUEUE_MAX: u32 = 16384;
/// The most scatter/gather elements of a request.
pub(super) const ELEMENTS_MAX: u32 = 32;
/// The most bytes of an inline request.
pub(super) const INLINE_MAX: u32 = 1024;
/// The most completions of a queue.
pub(super) const COMPLETIONS_MAX: i32 = 1 << 22;
/// The most reads and atomics under way in a queue pair.
pub(super) const READS_MAX: u8 = 16;
/// The longest message.
const MESSAGE_MAX: u32 = 1 << 30;

struct Listed(Device);
// SAFETY: the device is filled once and read after that.
unsafe impl Sync for Listed {}
// SAFETY: it has no pointers but null ones.
unsafe impl Send for Listed {}

fn device() -> *mut Device {
    static DEVICE: OnceLock<Listed> = OnceLock::new();
    let listed = DEVICE.get_or_init(|| {
        let mut device: Device = zeroed();
        device.node_type = IBV_NODE_CA.cast_signed();
        device.transport_type = IBV_TRANSPORT_IB.cast_signed();
        fill(&mut device.name, "loco0");
        fill(&mut device.dev_name, "uverbs-loco0");
        fill(&mut device.dev_path, "/sys/class/infiniband_verbs/uverbs-loco0");
        fill(&mut device.ibdev_path, "/sys/class/infiniband/loco0");
        Listed(device)
    });
    (&raw const listed.0).cast_mut()
}

fn fill(field: &mut [c_char], text: &str) {
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = from.cast_signed();
    }
}

/// Returns the address by which the world knows this host. In a world of one host, it is the first of IPv4 that is not the
/// loopback's, or that.
pub(crate) fn host_address() -> IpAddr {
    if let Some(abroad) = abroad() {
        return abroad.own_address();
    }
    let addresses = own_addresses();
    let outside = addresses.into_iter().find(|address| !address.is_loopback());
    outside
        .filter(IpAddr::is_ipv4)
        .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Returns the addresses of this host, those of IPv4 first.
pub(crate) fn own_addresses() -> Vec<IpAddr> {
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

/// Returns the address of this host as one of IPv6: mapped, if it is of IPv4.
fn wide_address() -> [u8; 16] {
    match host_address() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Returns the GIDs of the port: a link-local one, and the one that is the host's address.
pub(crate) fn gids() -> Vec<RawGid> {
    let mut local = [0; 16];
    local[..2].copy_from_slice(&[0xfe, 0x80]);
    local[8..].copy_from_slice(&guid().to_be_bytes());
    vec![local, wide_address()]
}

/// Returns the index of the GID with the host's address.
pub(crate) const ADDRESS_GID: u8 = 1;

fn guid() -> u64 {
    let wide = wide_address();
    let address = u64::from(u32::from_be_bytes([wide[12], wide[13], wide[14], wide[15]]));
    0x0200_00ff_fe00_0000 | (address & 0xff_0000) << 24 | address & 0xff_ffff
}

pub(crate) unsafe extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut Device {
    // SAFETY: the count may be null. The list is of libc's memory, and `free_device_list` frees it.
    unsafe {
        let list: *mut *mut Device = libc::calloc(2, size_of::<*mut Device>()).cast();
        if list.is_null() {
            set_errno(libc::ENOMEM);
            return list;
        }
        *list = device();
        if !count.is_null() {
            *count = 1;
        }
        list
    }
}

pub(crate) unsafe extern "C" fn free_device_list(list: *mut *mut Device) {
    // SAFETY: `get_device_list` made it.
    unsafe { libc::free(list.cast()) };
}

pub(crate) unsafe extern "C" fn get_device_name(device: *mut Device) -> *const c_char {
    // SAFETY: the device is one of the list.
    unsafe { (&raw const (*device).name).cast() }
}

pub(crate) unsafe extern "C" fn get_device_guid(_device: *mut Device) -> u64 {
    guid().to_be()
}

pub(crate) unsafe extern "C" fn get_device_index(_device: *mut Device) -> c_int {
    0
}

/// Returns the device's limits.
pub(super) fn attributes() -> DeviceAttr {
    let mut attr: DeviceAttr = zeroed();
    let version = format!("{} {}", env!("CARGO_PKG_VERSION"), settings().tier.name());
    fill(&mut attr.fw_ver, &version);
    attr.node_guid = guid().to_be();
    attr.sys_image_guid = guid().to_be();
    attr.max_mr_size = u64::MAX;
    attr.page_size_cap = 0xffff_f000;
    attr.vendor_id = 0x6c6f;
    attr.vendor_part_id = 1;
    attr.max_qp = 4000;
    attr.max_qp_wr = QUEUE_MAX.cast_signed();
    attr.device_cap_flags = 1 << 7 | 1 << 12 | 1 << 13;
    attr.max_sge = ELEMENTS_MAX.cast_signed();
    attr.max_sge_rd = ELEMENTS_MAX.cast_signed();
    attr.max_cq = 1 << 16;
    attr.max_cqe = COMPLETIONS_MAX;
    attr.max_mr = 1 << 20;
    attr.max_pd = 1 << 16;
    attr.max_qp_rd_atom = c_int::from(READS_MAX);
    attr.max_res_rd_atom = 1 << 16;
    attr.max_qp_init_rd_atom = c_int::from(READS_MAX);
    attr.atomic_cap = IBV_ATOMIC_HCA;
    attr.max_ah = 1 << 16;
    attr.max_srq = 1 << 12;
    attr.max_srq_wr = QUEUE_MAX.cast_signed();
    attr.max_srq_sge = ELEMENTS_MAX.cast_signed();
    attr.max_pkeys = 1;
    attr.local_ca_ack_delay = 15;
    attr.phys_port_cnt = 1;
    attr
}

pub(crate) unsafe extern "C" fn query_device(_context: *mut Context, attr: *mut DeviceAttr) -> c_int {
    // SAFETY: the caller gives room for the attributes.
    unsafe { attr.write(attributes()) };
    0
}

pub(super) unsafe extern "C" fn query_device_ex(
    _context: *mut Context,
    _input: *const c_void,
    attr: *mut DeviceAttrEx,
    size: usize,
) -> c_int {
    let mut filled: DeviceAttrEx = zeroed();
    filled.orig_attr = attributes();
    filled.completion_timestamp_mask = u64::MAX;
    filled.hca_core_clock = 1_000_000;
    filled.phys_port_cnt_ex = 1;
    // SAFETY: the caller gives room for `size` bytes.
    unsafe { copy_out(attr, &filled, size) };
    0
}

/// Copies as much of a structure as the caller has room for, and zeroes the rest of that room.
unsafe fn copy_out<T>(to: *mut T, from: &T, size: usize) {
    let len = size.min(size_of::<T>());
    // SAFETY: the caller gives room for `size` bytes.
    unsafe {
        to.cast::<u8>().write_bytes(0, size);
        std::ptr::copy_nonoverlapping((&raw const *from).cast::<u8>(), to.cast(), len);
    }
}

fn port() -> PortAttr {
    let mut attr: PortAttr = zeroed();
    attr.state = IBV_PORT_ACTIVE;
    attr.max_mtu = IBV_MTU_4096;
    attr.active_mtu = IBV_MTU_4096;
    attr.gid_tbl_len = gids().len().try_into().unwrap_or(1);
    attr.port_cap_flags = 1 << 16 | 1 << 26;
    attr.max_msg_sz = MESSAGE_MAX;
    attr.pkey_tbl_len = 1;
    attr.max_vl_num = 1;
    attr.active_width = 2;
    attr.active_speed = 32;
    attr.phys_state = 5;
    attr.link_layer = IBV_LINK_LAYER_ETHERNET as u8;
    attr
}

pub(super) unsafe extern "C" fn query_port_ex(
    _context: *mut Context,
    number: u8,
    attr: *mut PortAttr,
    size: usize,
) -> c_int {
    if number != 1 {
        return libc::EINVAL;
    }
    // SAFETY: the caller gives room for `size` bytes.
    unsafe { copy_out(attr, &port(), size) };
    0
}

pub(crate) unsafe extern "C" fn query_port(context: *mut Context, number: u8, attr: *mut PortAttr) -> c_int {
    // SAFETY: programs that call this have the structure without its last field.
    unsafe { query_port_ex(context, number, attr, offset_of!(PortAttr, port_cap_flags2)) }
}

pub(crate) unsafe extern "C" fn query_gid(
    _context: *mut Context,
    number: u8,
    index: c_int,
    gid: *mut RawGid,
) -> c_int {
    let gids = gids();
    let Some(found) = usize::try_from(index).ok().and_then(|index| gids.get(index)) else {
        set_errno(libc::EINVAL);
        return -1;
    };
    if number != 1 {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: the caller gives room for a GID.
    unsafe { gid.write(*found) };
    0
}

/// Reports that a GID is of RoCE v2, as the kernel's files say it.
pub(crate) unsafe extern "C" fn query_gid_type(
    _context: *mut Context,
    number: u8,
    index: u32,
    kind: *mut u32,
) -> c_int {
    if number != 1 || index as usize >= gids().len() {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: the caller gives room for the type.
    unsafe { kind.write(1) };
    0
}

fn entry(index: usize) -> Option<GidEntry> {
    let gid = *gids().get(index)?;
    let mut entry: GidEntry = zeroed();
    entry.gid = gid_halves(gid);
    entry.gid_index = u32::try_from(index).ok()?;
    entry.port_num = 1;
    entry.gid_type = IBV_GID_TYPE_ROCE_V2;
    Some(entry)
}

pub(crate) unsafe extern "C" fn query_gid_ex(
    _context: *mut Context,
    number: u32,
    index: u32,
    to: *mut GidEntry,
    _flags: u32,
    size: usize,
) -> c_int {
    let entry = entry(index as usize);
    match entry {
        Some(entry) if number == 1 => {
            // SAFETY: the caller gives room for `size` bytes.
            unsafe { copy_out(to, &entry, size) };
            0
        }
        _ if number != 1 => libc::EINVAL,
        _ => libc::ENODATA,
    }
}

pub(crate) unsafe extern "C" fn query_gid_table(
    _context: *mut Context,
    to: *mut GidEntry,
    most: usize,
    _flags: u32,
    size: usize,
) -> isize {
    let entries: Vec<GidEntry> = (0..).map_while(entry).collect();
    if entries.len() > most {
        return -(libc::EINVAL as isize);
    }
    for (at, entry) in entries.iter().enumerate() {
        // SAFETY: the caller gives room for `most` entries of `size` bytes.
        unsafe { copy_out(to.byte_add(at * size), entry, size) };
    }
    entries.len().cast_signed()
}

pub(crate) unsafe extern "C" fn query_pkey(
    _context: *mut Context,
    number: u8,
    index: c_int,
    key: *mut u16,
) -> c_int {
    if number != 1 || index != 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: the caller gives room for a key.
    unsafe { key.write(0xffff) };
    0
}

pub(crate) unsafe extern "C" fn get_pkey_index(_context: *mut Context, number: u8, key: u16) -> c_int {
    if number == 1 && key == 0xffff { 0 } else { -1 }
}

pub(super) unsafe extern "C" fn query_clock(_context: *mut Context, values: *mut ValuesEx) -> c_int {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    // SAFETY: the caller gives room for the values.
    unsafe {
        (*values).raw_clock = [now.as_secs(), u64::from(now.subsec_nanos())];
        (*values).comp_mask = 1;
    }
    0
}

/// Starts the NIC.
///
/// # Errors
/// Returns the error of `ibv_open_device`.
pub(super) fn start() -> Result<(), i32> {
    if crate::child::is_child() {
        return Err(unsupported(
            "a device in a child of `fork` whose parent has opened it",
        ));
    }
    engine::start(gids()).map_err(|error| {
        crate::log::say(format_args!("cannot start: {error}"));
        error.raw_os_error().unwrap_or(libc::ENODEV)
    })
}
