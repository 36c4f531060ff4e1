//! The C structures and constants of `infiniband/verbs.h` and `rdma/rdma_cma.h` that the fabric uses.
//!
//! Names are the C names in Rust's case, and fields are the C fields. The libraries allocate some structures
//! that may grow (`ibv_qp`, `ibv_cq`). These are declared up to the last field used; `layout` checks the
//! rest.

use std::ffi::{c_char, c_int, c_uint, c_void};

use loco_host::{c_constants, c_structs};

pub type PostSend = unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int;
pub type PollCq = unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int;
pub type ReqNotifyCq = unsafe extern "C" fn(*mut Cq, c_int) -> c_int;
/// The last field of a nested structure that is padded to 8 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct Padded<T>(pub T);

type Unused = Option<unsafe extern "C" fn()>;

c_structs! {
    /// Device limits and capabilities.
    Whole DeviceAttr = "struct ibv_device_attr" {
        fw_ver = "fw_ver": [c_char; 64],
        node_guid = "node_guid": u64,
        sys_image_guid = "sys_image_guid": u64,
        max_mr_size = "max_mr_size": u64,
        page_size_cap = "page_size_cap": u64,
        vendor_id = "vendor_id": u32,
        vendor_part_id = "vendor_part_id": u32,
        hw_ver = "hw_ver": u32,
        max_qp = "max_qp": c_int,
        max_qp_wr = "max_qp_wr": c_int,
        device_cap_flags = "device_cap_flags": c_uint,
        max_sge = "max_sge": c_int,
        max_sge_rd = "max_sge_rd": c_int,
        max_cq = "max_cq": c_int,
        max_cqe = "max_cqe": c_int,
        max_mr = "max_mr": c_int,
        max_pd = "max_pd": c_int,
        max_qp_rd_atom = "max_qp_rd_atom": c_int,
        max_ee_rd_atom = "max_ee_rd_atom": c_int,
        max_res_rd_atom = "max_res_rd_atom": c_int,
        max_qp_init_rd_atom = "max_qp_init_rd_atom": c_int,
        max_ee_init_rd_atom = "max_ee_init_rd_atom": c_int,
        atomic_cap = "atomic_cap": c_uint,
        max_ee = "max_ee": c_int,
        max_rdd = "max_rdd": c_int,
        max_mw = "max_mw": c_int,
        max_raw_ipv6_qp = "max_raw_ipv6_qp": c_int,
        max_raw_ethy_qp = "max_raw_ethy_qp": c_int,
        max_mcast_grp = "max_mcast_grp": c_int,
        max_mcast_qp_attach = "max_mcast_qp_attach": c_int,
        max_total_mcast_qp_attach = "max_total_mcast_qp_attach": c_int,
        max_ah = "max_ah": c_int,
        max_fmr = "max_fmr": c_int,
        max_map_per_fmr = "max_map_per_fmr": c_int,
        max_srq = "max_srq": c_int,
        max_srq_wr = "max_srq_wr": c_int,
        max_srq_sge = "max_srq_sge": c_int,
        max_pkeys = "max_pkeys": u16,
        local_ca_ack_delay = "local_ca_ack_delay": u8,
        phys_port_cnt = "phys_port_cnt": u8,
    }

    /// [`DeviceAttr`] and the attributes that were added later. Providers fill as much as they are told there
    /// is room for.
    Whole DeviceAttrEx = "struct ibv_device_attr_ex" {
        orig_attr = "orig_attr": DeviceAttr,
        comp_mask = "comp_mask": u32,
        odp_general_caps = "odp_caps": u64,
        odp_transport_caps = "odp_caps.per_transport_caps": [u32; 3],
        completion_timestamp_mask = "completion_timestamp_mask": u64,
        hca_core_clock = "hca_core_clock": u64,
        device_cap_flags_ex = "device_cap_flags_ex": u64,
        tso_caps = "tso_caps": [u32; 2],
        rss_caps = "rss_caps": [u64; 4],
        max_wq_type_rq = "max_wq_type_rq": u32,
        packet_pacing_caps = "packet_pacing_caps": [u32; 3],
        raw_packet_caps = "raw_packet_caps": u32,
        tm_caps = "tm_caps": [u32; 5],
        cq_mod_caps = "cq_mod_caps": [u16; 2],
        max_dm_size = "max_dm_size": u64,
        pci_atomic_caps = "pci_atomic_caps": [u16; 3],
        xrc_odp_caps = "xrc_odp_caps": u32,
        phys_port_cnt_ex = "phys_port_cnt_ex": u32,
    }

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

    /// The capacities of a queue pair.
    Whole QpCap = "struct ibv_qp_cap" {
        max_send_wr = "max_send_wr": u32,
        max_recv_wr = "max_recv_wr": u32,
        max_send_sge = "max_send_sge": u32,
        max_recv_sge = "max_recv_sge": u32,
        max_inline_data = "max_inline_data": u32,
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

    /// The route of an address.
    Whole GlobalRoute = "struct ibv_global_route" {
        dgid = "dgid": [u64; 2],
        flow_label = "flow_label": u32,
        sgid_index = "sgid_index": u8,
        hop_limit = "hop_limit": u8,
        traffic_class = "traffic_class": u8,
    }

    /// An address vector.
    Whole AhAttr = "struct ibv_ah_attr" {
        grh = "grh": GlobalRoute,
        dlid = "dlid": u16,
        sl = "sl": u8,
        src_path_bits = "src_path_bits": u8,
        static_rate = "static_rate": u8,
        is_global = "is_global": u8,
        port_num = "port_num": u8,
    }

    /// Attributes of a queue pair.
    Whole QpAttr = "struct ibv_qp_attr" {
        qp_state = "qp_state": c_uint,
        cur_qp_state = "cur_qp_state": c_uint,
        path_mtu = "path_mtu": c_uint,
        path_mig_state = "path_mig_state": c_uint,
        qkey = "qkey": u32,
        rq_psn = "rq_psn": u32,
        sq_psn = "sq_psn": u32,
        dest_qp_num = "dest_qp_num": u32,
        qp_access_flags = "qp_access_flags": c_uint,
        cap = "cap": QpCap,
        ah_attr = "ah_attr": AhAttr,
        alt_ah_attr = "alt_ah_attr": AhAttr,
        pkey_index = "pkey_index": u16,
        alt_pkey_index = "alt_pkey_index": u16,
        en_sqd_async_notify = "en_sqd_async_notify": u8,
        sq_draining = "sq_draining": u8,
        max_rd_atomic = "max_rd_atomic": u8,
        max_dest_rd_atomic = "max_dest_rd_atomic": u8,
        min_rnr_timer = "min_rnr_timer": u8,
        port_num = "port_num": u8,
        timeout = "timeout": u8,
        retry_cnt = "retry_cnt": u8,
        rnr_retry = "rnr_retry": u8,
        alt_port_num = "alt_port_num": u8,
        alt_timeout = "alt_timeout": u8,
        rate_limit = "rate_limit": u32,
    }

    /// A scatter/gather element: a piece of registered memory.
    Whole Sge = "struct ibv_sge" {
        addr = "addr": u64,
        length = "length": u32,
        lkey = "lkey": u32,
    }

    /// A work request. The unions of the C structure are declared by their largest member in use. An `rdma`
    /// request uses `remote_addr` and, in the place of `compare_add`, the key (see
    /// [`SendWr::set_rdma_rkey`]).
    Whole SendWr = "struct ibv_send_wr" {
        wr_id = "wr_id": u64,
        next = "next": *mut SendWr,
        sg_list = "sg_list": *mut Sge,
        num_sge = "num_sge": c_int,
        opcode = "opcode": c_uint,
        send_flags = "send_flags": c_uint,
        imm_data = "imm_data": u32,
        remote_addr = "wr.atomic.remote_addr": u64,
        compare_add = "wr.atomic.compare_add": u64,
        swap = "wr.atomic.swap": u64,
        rkey = "wr.atomic.rkey": Padded<u32>,
        xrc = "qp_type": u32,
        bind_or_tso = "bind_mw": [u64; 6],
    }

    /// A completion.
    Whole Wc = "struct ibv_wc" {
        wr_id = "wr_id": u64,
        status = "status": c_uint,
        opcode = "opcode": c_uint,
        vendor_err = "vendor_err": u32,
        byte_len = "byte_len": u32,
        imm_data = "imm_data": u32,
        qp_num = "qp_num": u32,
        src_qp = "src_qp": u32,
        wc_flags = "wc_flags": c_uint,
        pkey_index = "pkey_index": u16,
        slid = "slid": u16,
        sl = "sl": u8,
        dlid_path_bits = "dlid_path_bits": u8,
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

    /// Parameters of a connection.
    Whole ConnParam = "struct rdma_conn_param" {
        private_data = "private_data": *const c_void,
        private_data_len = "private_data_len": u8,
        responder_resources = "responder_resources": u8,
        initiator_depth = "initiator_depth": u8,
        flow_control = "flow_control": u8,
        retry_count = "retry_count": u8,
        rnr_retry_count = "rnr_retry_count": u8,
        srq = "srq": u8,
        qp_num = "qp_num": u32,
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

impl SendWr {
    /// Sets the key of an RDMA read or write. It is at the place where an atomic has its first operand.
    pub fn set_rdma_rkey(&mut self, rkey: u32) {
        // The C field `wr.rdma.rkey` is a uint32_t at the start of the word.
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&rkey.to_ne_bytes());
        self.compare_add = u64::from_ne_bytes(bytes);
    }

    /// Returns the key of an RDMA read or write.
    pub fn rdma_rkey(&self) -> u32 {
        let bytes = self.compare_add.to_ne_bytes();
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

/// Returns a zeroed structure.
pub(crate) fn zeroed<T: Copy>() -> T {
    // SAFETY: only used with the structures of this module: integers, nullable function pointers, raw pointers and
    // arrays of these, for all of which zero is a value.
    unsafe { std::mem::zeroed() }
}

c_constants! {
    IBV_ATOMIC_HCA: c_uint = 1,
    IBV_ATOMIC_GLOB: c_uint = 2,
    IBV_ACCESS_LOCAL_WRITE: c_uint = 1,
    IBV_ACCESS_REMOTE_WRITE: c_uint = 2,
    IBV_ACCESS_REMOTE_READ: c_uint = 4,
    IBV_ACCESS_REMOTE_ATOMIC: c_uint = 8,
    IBV_ACCESS_ZERO_BASED: c_uint = 32,
    IBV_ACCESS_RELAXED_ORDERING: c_uint = 1 << 20,
    IBV_QPT_RC: c_uint = 2,
    IBV_QPS_RESET: c_uint = 0,
    IBV_QPS_RTS: c_uint = 3,
    IBV_QPS_ERR: c_uint = 6,
    IBV_QP_STATE: c_uint = 1,
    IBV_WR_RDMA_WRITE: c_uint = 0,
    IBV_WR_RDMA_READ: c_uint = 4,
    IBV_WR_ATOMIC_CMP_AND_SWP: c_uint = 5,
    IBV_WR_ATOMIC_FETCH_AND_ADD: c_uint = 6,
    IBV_SEND_FENCE: c_uint = 1,
    IBV_SEND_SIGNALED: c_uint = 2,
    IBV_SEND_INLINE: c_uint = 8,
    IBV_WC_SUCCESS: c_uint = 0,
    IBV_WC_LOC_LEN_ERR: c_uint = 1,
    IBV_WC_LOC_QP_OP_ERR: c_uint = 2,
    IBV_WC_LOC_EEC_OP_ERR: c_uint = 3,
    IBV_WC_LOC_PROT_ERR: c_uint = 4,
    IBV_WC_WR_FLUSH_ERR: c_uint = 5,
    IBV_WC_MW_BIND_ERR: c_uint = 6,
    IBV_WC_BAD_RESP_ERR: c_uint = 7,
    IBV_WC_LOC_ACCESS_ERR: c_uint = 8,
    IBV_WC_REM_INV_REQ_ERR: c_uint = 9,
    IBV_WC_REM_ACCESS_ERR: c_uint = 10,
    IBV_WC_REM_OP_ERR: c_uint = 11,
    IBV_WC_RETRY_EXC_ERR: c_uint = 12,
    IBV_WC_RNR_RETRY_EXC_ERR: c_uint = 13,
    IBV_WC_LOC_RDD_VIOL_ERR: c_uint = 14,
    IBV_WC_REM_INV_RD_REQ_ERR: c_uint = 15,
    IBV_WC_REM_ABORT_ERR: c_uint = 16,
    IBV_WC_INV_EECN_ERR: c_uint = 17,
    IBV_WC_INV_EEC_STATE_ERR: c_uint = 18,
    IBV_WC_FATAL_ERR: c_uint = 19,
    IBV_WC_RESP_TIMEOUT_ERR: c_uint = 20,
    IBV_WC_GENERAL_ERR: c_uint = 21,
    IBV_WC_TM_ERR: c_uint = 22,
    IBV_WC_TM_RNDV_INCOMPLETE: c_uint = 23,
    RDMA_PS_TCP: c_uint = 0x0106,
    RDMA_OPTION_ID: c_int = 0,
    RDMA_OPTION_ID_ACK_TIMEOUT: c_int = 3,
    RDMA_CM_EVENT_ADDR_RESOLVED: c_uint = 0,
    RDMA_CM_EVENT_ADDR_ERROR: c_uint = 1,
    RDMA_CM_EVENT_ROUTE_RESOLVED: c_uint = 2,
    RDMA_CM_EVENT_ROUTE_ERROR: c_uint = 3,
    RDMA_CM_EVENT_CONNECT_REQUEST: c_uint = 4,
    RDMA_CM_EVENT_CONNECT_RESPONSE: c_uint = 5,
    RDMA_CM_EVENT_CONNECT_ERROR: c_uint = 6,
    RDMA_CM_EVENT_UNREACHABLE: c_uint = 7,
    RDMA_CM_EVENT_REJECTED: c_uint = 8,
    RDMA_CM_EVENT_ESTABLISHED: c_uint = 9,
    RDMA_CM_EVENT_DISCONNECTED: c_uint = 10,
    RDMA_CM_EVENT_DEVICE_REMOVAL: c_uint = 11,
    RDMA_CM_EVENT_ADDR_CHANGE: c_uint = 14,
    RDMA_CM_EVENT_TIMEWAIT_EXIT: c_uint = 15,
}
