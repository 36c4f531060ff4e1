//! The devices `loco0`, `loco1` and so on, and their attributes.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::sync::OnceLock;

use super::objects::{DeviceObject, handle, identity_of, set_errno};
use crate::devices::{Identity, devices};
use crate::engine;
use crate::ffi::*;
use crate::log::unsupported;
use crate::settings::settings;

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

struct List(Vec<DeviceObject>);
// SAFETY: the devices are filled once and read after that.
unsafe impl Sync for List {}
// SAFETY: they have no pointers but null ones.
unsafe impl Send for List {}

/// Returns the device of an index, or null if there is none.
pub(crate) fn device(index: usize) -> *mut Device {
    static LIST: OnceLock<List> = OnceLock::new();
    let list = LIST.get_or_init(|| List(devices().iter().map(listed).collect()));
    let found = list.0.get(index);
    found.map_or(std::ptr::null_mut(), |found| (&raw const found.device).cast_mut())
}

fn listed(identity: &'static Identity) -> DeviceObject {
    let index = identity.index;
    let mut device: Device = zeroed();
    device.node_type = IBV_NODE_CA.cast_signed();
    device.transport_type = IBV_TRANSPORT_IB.cast_signed();
    fill(&mut device.name, &format!("loco{index}"));
    fill(&mut device.dev_name, &format!("uverbs-loco{index}"));
    let path = format!("/sys/class/infiniband_verbs/uverbs-loco{index}");
    fill(&mut device.dev_path, &path);
    fill(
        &mut device.ibdev_path,
        &format!("/sys/class/infiniband/loco{index}"),
    );
    DeviceObject { device, identity }
}

fn fill(field: &mut [c_char], text: &str) {
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = from.cast_signed();
    }
}

pub(crate) unsafe extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut Device {
    // SAFETY: the count may be null. The list is of libc's memory, and `free_device_list` frees it.
    unsafe {
        let number = devices().len();
        let list: *mut *mut Device = libc::calloc(number + 1, size_of::<*mut Device>()).cast();
        if list.is_null() {
            set_errno(libc::ENOMEM);
            return list;
        }
        for index in 0..number {
            *list.add(index) = device(index);
        }
        if !count.is_null() {
            *count = c_int::try_from(number).unwrap_or(0);
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

pub(crate) unsafe extern "C" fn get_device_guid(device: *mut Device) -> u64 {
    // SAFETY: the device is one of the list.
    unsafe { handle::<DeviceObject>(device) }.identity.guid.to_be()
}

pub(crate) unsafe extern "C" fn get_device_index(device: *mut Device) -> c_int {
    // SAFETY: the device is one of the list.
    c_int::from(unsafe { handle::<DeviceObject>(device) }.identity.index)
}

/// Returns the limits of a device.
fn attributes(device: &Identity) -> DeviceAttr {
    let mut attr: DeviceAttr = zeroed();
    let version = format!("{} {}", env!("CARGO_PKG_VERSION"), settings().tier.name());
    fill(&mut attr.fw_ver, &version);
    attr.node_guid = device.guid.to_be();
    attr.sys_image_guid = devices()[0].guid.to_be();
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

pub(crate) unsafe extern "C" fn query_device(context: *mut Context, attr: *mut DeviceAttr) -> c_int {
    // SAFETY: the context is open, and the caller gives room for the attributes.
    unsafe { attr.write(attributes(identity_of(context))) };
    0
}

pub(super) unsafe extern "C" fn query_device_ex(
    context: *mut Context,
    _input: *const c_void,
    attr: *mut DeviceAttrEx,
    size: usize,
) -> c_int {
    let mut filled: DeviceAttrEx = zeroed();
    // SAFETY: the context is open.
    filled.orig_attr = attributes(unsafe { identity_of(context) });
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
    attr.gid_tbl_len = devices()[0].gids.len().try_into().unwrap_or(1);
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
    context: *mut Context,
    number: u8,
    index: c_int,
    gid: *mut RawGid,
) -> c_int {
    // SAFETY: the context is open.
    let gids = unsafe { identity_of(context) }.gids;
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
    context: *mut Context,
    number: u8,
    index: u32,
    kind: *mut u32,
) -> c_int {
    // SAFETY: the context is open.
    let gids = unsafe { identity_of(context) }.gids;
    if number != 1 || index as usize >= gids.len() {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: the caller gives room for the type.
    unsafe { kind.write(1) };
    0
}

fn entry(device: &Identity, index: usize) -> Option<GidEntry> {
    let gid = *device.gids.get(index)?;
    let mut entry: GidEntry = zeroed();
    entry.gid = gid_halves(gid);
    entry.gid_index = u32::try_from(index).ok()?;
    entry.port_num = 1;
    entry.gid_type = IBV_GID_TYPE_ROCE_V2;
    Some(entry)
}

pub(crate) unsafe extern "C" fn query_gid_ex(
    context: *mut Context,
    number: u32,
    index: u32,
    to: *mut GidEntry,
    _flags: u32,
    size: usize,
) -> c_int {
    // SAFETY: the context is open.
    let entry = entry(unsafe { identity_of(context) }, index as usize);
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
    context: *mut Context,
    to: *mut GidEntry,
    most: usize,
    _flags: u32,
    size: usize,
) -> isize {
    // SAFETY: the context is open.
    let device = unsafe { identity_of(context) };
    let entries: Vec<GidEntry> = (0..).map_while(|index| entry(device, index)).collect();
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
    engine::start().map_err(|error| {
        crate::log::say(format_args!("cannot start: {error}"));
        error.raw_os_error().unwrap_or(libc::ENODEV)
    })
}
