//! Lists the devices of which only the libraries know. One that is played by a library in place of rdma-core's, as `loco nic` has,
//! is in no sysfs.
//!
//! The list is made once. Relies on `ffi` and `sysfs`. Used by `provider`, `fabric` and `doctor`.

use std::ffi::{CStr, c_char, c_int};
use std::net::Ipv6Addr;
use std::path::Path;
use std::sync::OnceLock;

use loco_fabric::Tier;

use crate::ffi::symbol;
use crate::ffi::types::{
    Context, Device, DeviceAttr, GidEntry, IBV_GID_TYPE_ROCE_V2, IBV_LINK_LAYER_ETHERNET, IBV_PORT_ACTIVE,
    PortAttr, zeroed,
};
use crate::sysfs::{self, Gid, RdmaDevice, RdmaPort};

/// The vendor of the device of `loco nic`, whose firmware's version names its tier.
const PLAYED: u32 = 0x6c6f;

/// A device, and its tier if that is known.
pub(crate) struct Listed {
    pub(crate) device: RdmaDevice,
    pub(crate) tier: Option<Tier>,
}

/// Returns the devices that sysfs has, and without them those that the libraries have.
pub(crate) fn devices() -> Vec<RdmaDevice> {
    let of_kernel = sysfs::devices(Path::new(sysfs::ROOT));
    let known = |name: &str| of_kernel.iter().any(|device| device.name == name);
    match listed().iter().any(|listed| !known(&listed.device.name)) {
        true => listed().iter().map(|listed| listed.device.clone()).collect(),
        false => of_kernel,
    }
}

/// Returns a device that sysfs does not have.
pub(crate) fn find(name: &str) -> Option<&'static Listed> {
    if Path::new(sysfs::ROOT).join(name).exists() {
        return None;
    }
    listed().iter().find(|listed| listed.device.name == name)
}

fn listed() -> &'static [Listed] {
    static LISTED: OnceLock<Vec<Listed>> = OnceLock::new();
    LISTED.get_or_init(|| match Calls::find() {
        // SAFETY: the functions are those of the library, and the devices are opened and closed here.
        Some(calls) => unsafe { list(&calls) },
        None => Vec::new(),
    })
}

/// Declares the functions that are called, and how they are found.
macro_rules! calls {
    ($($name:ident = $symbol:literal : fn($($arg:ty),*) $(-> $ret:ty)?,)*) => {
        struct Calls {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl Calls {
            fn find() -> Option<Calls> {
                Some(Calls {
                    // SAFETY: the library's function with this name has this type, by its header.
                    $($name: unsafe {
                        std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(
                            symbol($symbol)?,
                        )
                    },)*
                })
            }
        }
    };
}

calls! {
    get_device_list = c"ibv_get_device_list": fn(*mut c_int) -> *mut *mut Device,
    free_device_list = c"ibv_free_device_list": fn(*mut *mut Device),
    device_name = c"ibv_get_device_name": fn(*mut Device) -> *const c_char,
    open_device = c"ibv_open_device": fn(*mut Device) -> *mut Context,
    close_device = c"ibv_close_device": fn(*mut Context) -> c_int,
    query_device = c"ibv_query_device": fn(*mut Context, *mut DeviceAttr) -> c_int,
    query_port = c"ibv_query_port": fn(*mut Context, u8, *mut PortAttr) -> c_int,
    query_gid = c"_ibv_query_gid_ex": fn(*mut Context, u32, u32, *mut GidEntry, u32, usize) -> c_int,
}

/// Lists what the libraries have. A device that sysfs has is not opened, and has no ports here.
unsafe fn list(calls: &Calls) -> Vec<Listed> {
    let mut found = Vec::new();
    // SAFETY: by the caller's promise. The list ends with a null pointer, and its devices live as long as it does.
    unsafe {
        let all = (calls.get_device_list)(std::ptr::null_mut());
        let mut at = all;
        while !at.is_null() && !(*at).is_null() {
            let name = CStr::from_ptr((calls.device_name)(*at))
                .to_string_lossy()
                .into_owned();
            if !Path::new(sysfs::ROOT).join(&name).exists() {
                let context = (calls.open_device)(*at);
                if !context.is_null() {
                    found.push(describe(calls, context, name));
                    (calls.close_device)(context);
                }
            }
            at = at.add(1);
        }
        if !all.is_null() {
            (calls.free_device_list)(all);
        }
    }
    found
}

/// Describes an opened device.
unsafe fn describe(calls: &Calls, context: *mut Context, name: String) -> Listed {
    let mut attr: DeviceAttr = zeroed();
    // SAFETY: by the caller's promise; the structures are those that the calls fill.
    let ports = unsafe {
        (calls.query_device)(context, &raw mut attr);
        (1..=attr.phys_port_cnt)
            .map(|number| port(calls, context, number))
            .collect()
    };
    let version: Vec<u8> = attr.fw_ver.iter().map(|byte| byte.cast_unsigned()).collect();
    let version = CStr::from_bytes_until_nul(&version)
        .unwrap_or_default()
        .to_string_lossy();
    let named = |tier: &Tier| version.split(' ').next_back() == Some(tier.name());
    Listed {
        device: RdmaDevice { name, ports },
        tier: Tier::ALL
            .into_iter()
            .find(|tier| attr.vendor_id == PLAYED && named(tier)),
    }
}

/// Describes a port of an opened device.
unsafe fn port(calls: &Calls, context: *mut Context, number: u8) -> RdmaPort {
    let mut attr: PortAttr = zeroed();
    // SAFETY: by the caller's promise.
    unsafe { (calls.query_port)(context, number, &raw mut attr) };
    let is_active = attr.state == IBV_PORT_ACTIVE;
    let is_ethernet = u32::from(attr.link_layer) == IBV_LINK_LAYER_ETHERNET;
    let gids = 0..u32::try_from(attr.gid_tbl_len).unwrap_or(0);
    let gids = gids.filter_map(|index| {
        let mut entry: GidEntry = zeroed();
        // SAFETY: as above; the entry has the size that is passed.
        let error = unsafe {
            let len = size_of::<GidEntry>();
            (calls.query_gid)(context, u32::from(number), index, &raw mut entry, 0, len)
        };
        let mut bytes = [0; 16];
        for (half, chunk) in entry.gid.iter().zip(bytes.chunks_mut(8)) {
            chunk.copy_from_slice(&half.to_ne_bytes());
        }
        let is_v2 = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
        (error == 0).then(|| Gid {
            index,
            gid: Ipv6Addr::from(bytes),
            kind: if is_v2 { "RoCE v2" } else { "IB/RoCE v1" }.to_owned(),
            interface: None,
        })
    });
    RdmaPort {
        number,
        state: if is_active { "ACTIVE" } else { "DOWN" }.to_owned(),
        link_layer: if is_ethernet { "Ethernet" } else { "InfiniBand" }.to_owned(),
        gids: gids.collect(),
    }
}
