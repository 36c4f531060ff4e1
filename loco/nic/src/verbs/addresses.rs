//! Address handles, and what a received datagram says of its sender.

use std::ffi::c_int;

use super::objects::{AhObject, fails, give, handle, identity_of, take_back};
use super::queue_pairs::check_address;
use crate::devices::ADDRESS_GID;
use crate::ffi::*;
use crate::log::{once, unsupported};

pub(crate) unsafe extern "C" fn create_ah(pd: *mut Pd, attr: *mut AhAttr) -> *mut Ah {
    // SAFETY: the program's own domain, and attributes.
    unsafe {
        let attr = *attr;
        let context = handle::<Pd>(pd).context;
        if let Err(why) = check_address(&attr, identity_of(context)) {
            once(format_args!("ibv_create_ah: {why} (EINVAL)"));
            return fails(libc::EINVAL);
        }
        give(AhObject {
            ah: Ah {
                context,
                pd,
                handle: 0,
            },
            attr,
        })
    }
}

pub(crate) unsafe extern "C" fn destroy_ah(ah: *mut Ah) -> c_int {
    // SAFETY: the program's own handle, which it gives back.
    drop(unsafe { take_back::<AhObject>(ah) });
    0
}

/// Returns the sender's GID and the receiver's in the header of a datagram.
fn ends(grh: &Grh) -> (RawGid, RawGid) {
    let (sgid, dgid) = (raw_gid(grh.sgid), raw_gid(grh.dgid));
    // A header of IPv4 is in the last 20 bytes: the last 4 of the first GID's place and the whole of the second's.
    if grh.version_tclass_flow.to_ne_bytes()[0] >> 4 == 6 {
        return (sgid, dgid);
    }
    let mapped = |address: &[u8]| {
        let mut gid = [0; 16];
        gid[10..12].copy_from_slice(&[0xff; 2]);
        gid[12..].copy_from_slice(address);
        gid
    };
    (mapped(&dgid[8..12]), mapped(&dgid[12..]))
}

pub(crate) unsafe extern "C" fn init_ah_from_wc(
    context: *mut Context,
    port: u8,
    wc: *mut Wc,
    grh: *mut Grh,
    attr: *mut AhAttr,
) -> c_int {
    // SAFETY: the context is open, and the caller gives a completion, the header of its datagram, and room for an address.
    unsafe {
        if (*wc).wc_flags & IBV_WC_GRH == 0 {
            return libc::EINVAL;
        }
        let (from, to) = ends(&grh.read_unaligned());
        let index = identity_of(context).gids.iter().position(|gid| *gid == to);
        let mut made: AhAttr = zeroed();
        made.port_num = port;
        made.is_global = 1;
        made.grh.dgid = gid_halves(from);
        made.grh.sgid_index = index.map_or(ADDRESS_GID, |index| u8::try_from(index).unwrap_or(0));
        made.grh.hop_limit = 64;
        attr.write(made);
    }
    0
}

pub(crate) unsafe extern "C" fn create_ah_from_wc(
    pd: *mut Pd,
    wc: *mut Wc,
    grh: *mut Grh,
    port: u8,
) -> *mut Ah {
    let mut attr: AhAttr = zeroed();
    // SAFETY: as the caller's.
    unsafe {
        let context = handle::<Pd>(pd).context;
        match init_ah_from_wc(context, port, wc, grh, &raw mut attr) {
            0 => create_ah(pd, &raw mut attr),
            error => fails(error),
        }
    }
}

pub(crate) unsafe extern "C" fn attach_mcast(_qp: *mut Qp, _gid: *const RawGid, _lid: u16) -> c_int {
    unsupported("ibv_attach_mcast")
}

pub(crate) unsafe extern "C" fn detach_mcast(_qp: *mut Qp, _gid: *const RawGid, _lid: u16) -> c_int {
    unsupported("ibv_detach_mcast")
}

pub(crate) unsafe extern "C" fn resolve_eth_l2_from_gid(
    _context: *mut Context,
    _attr: *mut AhAttr,
    mac: *mut [u8; 6],
    vlan: *mut u16,
) -> c_int {
    // SAFETY: the caller gives room for both, or none.
    unsafe {
        if !mac.is_null() {
            mac.write([2, 0, 0, 0, 0, 1]);
        }
        if !vlan.is_null() {
            vlan.write(0xffff);
        }
    }
    0
}
