//! The C structures and constants of `infiniband/verbs.h` and `rdma/rdma_cma.h` that the fabric uses. Those that hold data only are of
//! [`loco_ibverbs`].
//!
//! Names are the C names in Rust's case, and fields are the C fields. The libraries allocate some structures
//! that may grow (`ibv_qp`, `ibv_cq`). These are declared up to the last field used; `layout` checks the
//! rest.

use std::ffi::{c_char, c_int, c_uint, c_void};

use loco_host::c_structs;
pub use loco_ibverbs::*;

pub type PostSend = unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int;
pub type PollCq = unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int;
pub type ReqNotifyCq = unsafe extern "C" fn(*mut Cq, c_int) -> c_int;

type Unused = Option<unsafe extern "C" fn()>;

c_structs! {
    /// The operations of an opened device. Those marked compat are never called.
    Whole ContextOps = "struct ibv_context_ops" {
        compat_query_device = "_compat_query_device": Unused,
        compat_query_port = "_compat_query_port": Unused,
        compat_memory = "_compat_alloc_pd": [Unused; 5],
        alloc_mw = "alloc_mw": Unused,
        bind_mw = "bind_mw": Unused,
        dealloc_mw = "dealloc_mw": Unused,
        compat_create_cq = "_compat_create_cq": Unused,
        poll_cq = "poll_cq": Option<PollCq>,
        req_notify_cq = "req_notify_cq": Option<ReqNotifyCq>,
        compat_cq_srq = "_compat_cq_event": [Unused; 7],
        post_srq_recv = "post_srq_recv": Unused,
        compat_qp = "_compat_create_qp": [Unused; 4],
        post_send = "post_send": Option<PostSend>,
        post_recv = "post_recv": Unused,
        compat_rest = "_compat_create_ah": [Unused; 5],
    }

    /// An opened device.
    Whole Context = "struct ibv_context" {
        device = "device": *mut Device,
        ops = "ops": ContextOps,
        cmd_fd = "cmd_fd": c_int,
        async_fd = "async_fd": c_int,
        num_comp_vectors = "num_comp_vectors": c_int,
        mutex = "mutex": libc::pthread_mutex_t,
        abi_compat = "abi_compat": *mut c_void,
    }

    /// The part before an extended [`Context`]: operations that were added over time, newest first, up to
    /// those used here. `sz` tells how many a library has.
    Ends VerbsContext = "struct verbs_context" {
        before_dm = "query_port": [Unused; 7],
        reg_dm_mr = "reg_dm_mr":
            Option<unsafe extern "C" fn(*mut Pd, *mut Dm, u64, usize, c_uint) -> *mut Mr>,
        alloc_dm = "alloc_dm": Option<unsafe extern "C" fn(*mut Context, *mut AllocDmAttr) -> *mut Dm>,
        free_dm = "free_dm": Option<unsafe extern "C" fn(*mut Dm) -> c_int>,
        before_query = "modify_flow_action_esp": [Unused; 16],
        private = "priv": *mut c_void,
        query_device_ex = "query_device_ex":
            Option<unsafe extern "C" fn(*mut Context, *const c_void, *mut DeviceAttrEx, usize) -> c_int>,
        after_query = "ibv_destroy_flow": [Unused; 10],
        placeholder = "_ABI_placeholder3": u64,
        sz = "sz": usize,
        context = "context": Context,
    }

    /// A device as the library enumerates it.
    Whole Device = "struct ibv_device" {
        ops = "_ops": [Unused; 2],
        node_type = "node_type": c_int,
        transport_type = "transport_type": c_int,
        name = "name": [c_char; 64],
        dev_name = "dev_name": [c_char; 64],
        dev_path = "dev_path": [c_char; 256],
        ibdev_path = "ibdev_path": [c_char; 256],
    }

    /// A protection domain.
    Whole Pd = "struct ibv_pd" {
        context = "context": *mut Context,
        handle = "handle": u32,
    }

    /// A memory region.
    Whole Mr = "struct ibv_mr" {
        context = "context": *mut Context,
        pd = "pd": *mut Pd,
        addr = "addr": *mut c_void,
        length = "length": usize,
        handle = "handle": u32,
        lkey = "lkey": u32,
        rkey = "rkey": u32,
    }

    /// A request for device memory.
    Whole AllocDmAttr = "struct ibv_alloc_dm_attr" {
        length = "length": usize,
        log_align_req = "log_align_req": u32,
        comp_mask = "comp_mask": u32,
    }

    /// Device memory.
    Whole Dm = "struct ibv_dm" {
        context = "context": *mut Context,
        memcpy_to_dm = "memcpy_to_dm":
            Option<unsafe extern "C" fn(*mut Dm, u64, *const c_void, usize) -> c_int>,
        memcpy_from_dm = "memcpy_from_dm":
            Option<unsafe extern "C" fn(*mut c_void, *mut Dm, u64, usize) -> c_int>,
        comp_mask = "comp_mask": u32,
        handle = "handle": u32,
    }

    /// A completion channel: a source of completion events. `fd` is readable when there is an event.
    Whole CompChannel = "struct ibv_comp_channel" {
        context = "context": *mut Context,
        fd = "fd": c_int,
        refcnt = "refcnt": c_int,
    }

    /// A completion queue.
    Fields Cq = "struct ibv_cq" {
        context = "context": *mut Context,
        channel = "channel": *mut CompChannel,
        cq_context = "cq_context": *mut c_void,
        handle = "handle": u32,
        cqe = "cqe": c_int,
    }

    /// A queue pair.
    Fields Qp = "struct ibv_qp" {
        context = "context": *mut Context,
        qp_context = "qp_context": *mut c_void,
        pd = "pd": *mut Pd,
        send_cq = "send_cq": *mut Cq,
        recv_cq = "recv_cq": *mut Cq,
        srq = "srq": *mut c_void,
        handle = "handle": u32,
        qp_num = "qp_num": u32,
        state = "state": c_uint,
        qp_type = "qp_type": c_uint,
    }

    /// The attributes with which a queue pair is made. The provider writes back the capacities granted.
    Whole QpInitAttr = "struct ibv_qp_init_attr" {
        qp_context = "qp_context": *mut c_void,
        send_cq = "send_cq": *mut Cq,
        recv_cq = "recv_cq": *mut Cq,
        srq = "srq": *mut c_void,
        cap = "cap": QpCap,
        qp_type = "qp_type": c_uint,
        sq_sig_all = "sq_sig_all": c_int,
    }

    /// A source of connection events. `fd` is readable when there is an event.
    Whole EventChannel = "struct rdma_event_channel" {
        fd = "fd": c_int,
    }

    /// A connection identifier, the connection manager's socket.
    Fields CmId = "struct rdma_cm_id" {
        verbs = "verbs": *mut Context,
        channel = "channel": *mut EventChannel,
        context = "context": *mut c_void,
        qp = "qp": *mut Qp,
        src_addr = "route.addr.src_addr": [u64; 16],
        dst_addr = "route.addr.dst_addr": [u64; 16],
        ib_addr = "route.addr.addr": [u64; 5],
        path_rec = "route.path_rec": *mut c_void,
        num_paths = "route.num_paths": Padded<c_int>,
        ps = "ps": c_uint,
        port_num = "port_num": u8,
    }

    /// A connection event.
    Fields CmEvent = "struct rdma_cm_event" {
        id = "id": *mut CmId,
        listen_id = "listen_id": *mut CmId,
        event = "event": c_uint,
        status = "status": c_int,
        conn = "param.conn": ConnParam,
    }
}

/// Returns a zeroed structure.
pub(crate) fn zeroed<T: Copy>() -> T {
    // SAFETY: only used with the structures of this module: integers, nullable function pointers, raw pointers and
    // arrays of these, for all of which zero is a value.
    unsafe { std::mem::zeroed() }
}
