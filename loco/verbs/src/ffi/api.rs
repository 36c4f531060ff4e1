//! The table of the libraries' functions.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::io;

use super::library::Library;
use super::types::{
    AllocDmAttr, CmEvent, CmId, CompChannel, ConnParam, Context, Cq, Device, DeviceAttr, DeviceAttrEx, Dm,
    EventChannel, Mr, Pd, Qp, QpAttr, QpInitAttr, VerbsContext, zeroed,
};

/// `int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)`
pub type DataInOrder = unsafe extern "C" fn(*mut Qp, c_uint, u32) -> c_int;

/// Declares the table, and the function that fills it by looking symbols up.
macro_rules! api {
    ($($library:ident { $($name:ident = $symbol:literal : fn($($arg:ty),*) $(-> $ret:ty)?,)* })*) => {
        /// The functions of libibverbs and librdmacm that the fabric calls.
        #[derive(Clone, Copy, Debug)]
        pub struct Api {
            /// `ibv_query_qp_data_in_order`, which older libraries lack.
            pub data_in_order: Option<DataInOrder>,
            $($(pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*)*
        }

        impl Api {
            /// Fills the table. `find` returns the address of a symbol, or an error if its library does not
            /// have it.
            ///
            /// # Safety
            /// The addresses that `find` returns must be functions with the signatures that the C headers
            /// give them.
            pub(super) unsafe fn fill<E>(
                mut find: impl FnMut(Library, &'static std::ffi::CStr) -> Result<*mut c_void, E>,
            ) -> Result<Api, E> {
                Ok(Api {
                    data_in_order: find(Library::Verbs, c"ibv_query_qp_data_in_order").ok().map(|at| {
                        // SAFETY: an address of a function of this type, as the caller promises.
                        unsafe { std::mem::transmute::<*mut c_void, DataInOrder>(at) }
                    }),
                    // SAFETY: an address of a function of this type, as the caller promises; never null, as `find`
                    // reports a missing symbol as an error.
                    $($($name: unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(
                            find(Library::$library, $symbol)?,
                        )
                    },)*)*
                })
            }
        }
    };
}

api! {
    Verbs {
        device_name = c"ibv_get_device_name": fn(*mut Device) -> *const c_char,
        query_device = c"ibv_query_device": fn(*mut Context, *mut DeviceAttr) -> c_int,
        alloc_pd = c"ibv_alloc_pd": fn(*mut Context) -> *mut Pd,
        dealloc_pd = c"ibv_dealloc_pd": fn(*mut Pd) -> c_int,
        reg_mr = c"ibv_reg_mr": fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr,
        dereg_mr = c"ibv_dereg_mr": fn(*mut Mr) -> c_int,
        create_comp_channel = c"ibv_create_comp_channel": fn(*mut Context) -> *mut CompChannel,
        destroy_comp_channel = c"ibv_destroy_comp_channel": fn(*mut CompChannel) -> c_int,
        get_cq_event = c"ibv_get_cq_event": fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int,
        ack_cq_events = c"ibv_ack_cq_events": fn(*mut Cq, c_uint),
        create_cq = c"ibv_create_cq": fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq,
        resize_cq = c"ibv_resize_cq": fn(*mut Cq, c_int) -> c_int,
        destroy_cq = c"ibv_destroy_cq": fn(*mut Cq) -> c_int,
        create_qp = c"ibv_create_qp": fn(*mut Pd, *mut QpInitAttr) -> *mut Qp,
        modify_qp = c"ibv_modify_qp": fn(*mut Qp, *mut QpAttr, c_int) -> c_int,
        destroy_qp = c"ibv_destroy_qp": fn(*mut Qp) -> c_int,
    }
    ConnectionManager {
        create_event_channel = c"rdma_create_event_channel": fn() -> *mut EventChannel,
        destroy_event_channel = c"rdma_destroy_event_channel": fn(*mut EventChannel),
        create_id = c"rdma_create_id": fn(*mut EventChannel, *mut *mut CmId, *mut c_void, c_uint) -> c_int,
        destroy_id = c"rdma_destroy_id": fn(*mut CmId) -> c_int,
        bind_addr = c"rdma_bind_addr": fn(*mut CmId, *mut libc::sockaddr) -> c_int,
        listen = c"rdma_listen": fn(*mut CmId, c_int) -> c_int,
        src_port = c"rdma_get_src_port": fn(*mut CmId) -> u16,
        resolve_addr = c"rdma_resolve_addr":
            fn(*mut CmId, *mut libc::sockaddr, *mut libc::sockaddr, c_int) -> c_int,
        resolve_route = c"rdma_resolve_route": fn(*mut CmId, c_int) -> c_int,
        set_option = c"rdma_set_option": fn(*mut CmId, c_int, c_int, *mut c_void, usize) -> c_int,
        cm_create_qp = c"rdma_create_qp": fn(*mut CmId, *mut Pd, *mut QpInitAttr) -> c_int,
        cm_destroy_qp = c"rdma_destroy_qp": fn(*mut CmId),
        connect = c"rdma_connect": fn(*mut CmId, *mut ConnParam) -> c_int,
        accept = c"rdma_accept": fn(*mut CmId, *mut ConnParam) -> c_int,
        reject = c"rdma_reject": fn(*mut CmId, *const c_void, u8) -> c_int,
        disconnect = c"rdma_disconnect": fn(*mut CmId) -> c_int,
        get_cm_event = c"rdma_get_cm_event": fn(*mut EventChannel, *mut *mut CmEvent) -> c_int,
        ack_cm_event = c"rdma_ack_cm_event": fn(*mut CmEvent) -> c_int,
    }
}

/// Returns the system's error of the call that just failed.
pub(crate) fn errno() -> io::Error {
    io::Error::last_os_error()
}

/// Turns a C status into a result. libibverbs returns an errno value, librdmacm -1 with `errno` set.
pub(crate) fn ok(status: c_int) -> io::Result<()> {
    match status {
        0 => Ok(()),
        -1 => Err(errno()),
        n => Err(io::Error::from_raw_os_error(n.abs())),
    }
}

impl Api {
    /// Makes the table of libraries that the program has by other means than the loader.
    ///
    /// # Safety
    /// The addresses that `find` returns must be functions with the signatures that the C headers give them.
    ///
    /// # Errors
    /// Names a symbol that `find` does not have.
    pub unsafe fn of(find: impl Fn(&std::ffi::CStr) -> Option<*mut c_void>) -> Result<Api, String> {
        // SAFETY: by the caller's promise.
        unsafe { Api::fill(|_, symbol| find(symbol).ok_or_else(|| format!("no symbol {symbol:?}"))) }
    }
}

/// Operations that `verbs.h` calls through the extended context. The library and the provider may lack them.
impl Api {
    /// Returns the limits and capabilities of the device.
    ///
    /// # Safety
    /// `context` is an opened device.
    pub(crate) unsafe fn query_device_ex(&self, context: *mut Context) -> io::Result<DeviceAttrEx> {
        let mut attr: DeviceAttrEx = zeroed();
        // SAFETY: the context is open by the caller's promise; `attr` has the size passed.
        unsafe {
            let extended = extended(context, std::mem::offset_of!(VerbsContext, query_device_ex));
            if let Some(query) = extended.and_then(|v| (*v).query_device_ex)
                && query(
                    context,
                    std::ptr::null(),
                    &raw mut attr,
                    size_of::<DeviceAttrEx>(),
                ) == 0
            {
                return Ok(attr);
            }
            attr = zeroed();
            ok((self.query_device)(context, &raw mut attr.orig_attr))?;
        }
        Ok(attr)
    }

    /// Allocates device memory.
    ///
    /// # Safety
    /// `context` is an opened device.
    pub(crate) unsafe fn alloc_dm(&self, context: *mut Context, length: usize) -> io::Result<*mut Dm> {
        let mut attr = AllocDmAttr {
            length,
            log_align_req: 6,
            comp_mask: 0,
        };
        // SAFETY: the context is open by the caller's promise.
        let dm = unsafe {
            let extended = extended(context, std::mem::offset_of!(VerbsContext, alloc_dm));
            match extended.and_then(|v| (*v).alloc_dm) {
                Some(alloc) => alloc(context, &raw mut attr),
                None => return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            }
        };
        if dm.is_null() { Err(errno()) } else { Ok(dm) }
    }

    /// Registers device memory for local and remote access. Its addresses start at 0.
    ///
    /// # Safety
    /// `pd` and `dm` are live and of the same device; `length` is within `dm`.
    pub(crate) unsafe fn reg_dm_mr(
        &self,
        pd: *mut Pd,
        dm: *mut Dm,
        length: usize,
        access: c_uint,
    ) -> io::Result<*mut Mr> {
        // The header's `ibv_reg_dm_mr` asks the context of the domain. Here it is that of the memory, which is the same on a device. In
        // tests the domain of an altered device has the context of the NIC behind it, which has no device memory.
        // SAFETY: by the caller's promise.
        let mr = unsafe {
            let extended = extended((*dm).context, std::mem::offset_of!(VerbsContext, reg_dm_mr));
            match extended.and_then(|v| (*v).reg_dm_mr) {
                Some(register) => register(pd, dm, 0, length, access),
                None => return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            }
        };
        if mr.is_null() { Err(errno()) } else { Ok(mr) }
    }

    /// Frees device memory.
    ///
    /// # Safety
    /// `dm` is live and no longer registered.
    pub(crate) unsafe fn free_dm(&self, dm: *mut Dm) -> io::Result<()> {
        // SAFETY: by the caller's promise.
        unsafe {
            let extended = extended((*dm).context, std::mem::offset_of!(VerbsContext, free_dm));
            match extended.and_then(|v| (*v).free_dm) {
                Some(free) => ok(free(dm)),
                None => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            }
        }
    }
}

/// Returns the extended context around `context`, if it has the operation at `offset`. (See
/// `verbs_get_ctx_op` of `verbs.h`: the structure grows at its start, and `sz` tells how much of it the
/// library has.)
///
/// # Safety
/// `context` is an opened device.
unsafe fn extended(context: *mut Context, offset: usize) -> Option<*mut VerbsContext> {
    // SAFETY: `abi_compat` of all ones promises that the context is the last field of a `verbs_context` of `sz` bytes.
    unsafe {
        if (*context).abi_compat as usize != usize::MAX {
            return None;
        }
        let extended = context
            .byte_sub(std::mem::offset_of!(VerbsContext, context))
            .cast::<VerbsContext>();
        ((*extended).sz >= size_of::<VerbsContext>() - offset).then_some(extended)
    }
}
