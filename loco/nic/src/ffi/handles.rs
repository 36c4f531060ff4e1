//! Structures behind which there is an object: devices, contexts, regions, queues. Programs hold pointers to them and read their
//! fields; some have tables of functions, through which the inline functions of the headers go.

use std::ffi::{c_char, c_int, c_uint, c_void};

use loco_host::c_structs;

use loco_ibverbs::{
    DataBuf, DeviceAttrEx, Padded, PortAttr, QpCap, RecvWr, SendWr, Sge, SrqAttr, UdParam, ValuesEx, Wc,
};

type Unused = Option<unsafe extern "C" fn()>;
/// An operation that is refused by name, whatever its arguments are: one that makes an object, and one that answers with an error.
/// C calls them with arguments, which the C ABI of every supported platform lets a callee ignore.
type NoObject = Option<unsafe extern "C" fn() -> *mut c_void>;
type NoCall = Option<unsafe extern "C" fn() -> c_int>;

c_structs! {
    /// A device as the library lists it.
    Whole Device = "struct ibv_device" {
        ops = "_ops": [Unused; 2],
        node_type = "node_type": c_int,
        transport_type = "transport_type": c_int,
        name = "name": [c_char; 64],
        dev_name = "dev_name": [c_char; 64],
        dev_path = "dev_path": [c_char; 256],
        ibdev_path = "ibdev_path": [c_char; 256],
    }

    /// The operations of an opened device. Those marked compat are never called.
    Whole ContextOps = "struct ibv_context_ops" {
        compat_before = "_compat_query_device": [Unused; 7],
        alloc_mw = "alloc_mw": Option<unsafe extern "C" fn(*mut Pd, c_uint) -> *mut c_void>,
        bind_mw = "bind_mw": Option<unsafe extern "C" fn(*mut Qp, *mut c_void, *mut c_void) -> c_int>,
        dealloc_mw = "dealloc_mw": Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
        compat_create_cq = "_compat_create_cq": Unused,
        poll_cq = "poll_cq": Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
        req_notify_cq = "req_notify_cq": Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
        compat_cq_srq = "_compat_cq_event": [Unused; 7],
        post_srq_recv = "post_srq_recv":
            Option<unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
        compat_qp = "_compat_create_qp": [Unused; 4],
        post_send = "post_send": Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
        post_recv = "post_recv": Option<unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
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

    /// The part before an extended [`Context`]: operations that were added over time, newest first. Those that are null take an
    /// object that no program can have here.
    Whole VerbsContext = "struct verbs_context" {
        query_port = "query_port":
            Option<unsafe extern "C" fn(*mut Context, u8, *mut PortAttr, usize) -> c_int>,
        advise_mr = "advise_mr": NoCall,
        alloc_null_mr = "alloc_null_mr": NoObject,
        counters = "read_counters": [Unused; 2],
        create_counters = "create_counters": NoObject,
        destroy_counters = "destroy_counters": Unused,
        reg_dm_mr = "reg_dm_mr": Unused,
        alloc_dm = "alloc_dm": NoObject,
        free_dm = "free_dm": Unused,
        flow_actions = "modify_flow_action_esp": [Unused; 2],
        create_flow_action_esp = "create_flow_action_esp": NoObject,
        modify_qp_rate_limit = "modify_qp_rate_limit": NoCall,
        alloc_parent_domain = "alloc_parent_domain": NoObject,
        dealloc_td = "dealloc_td": Unused,
        alloc_td = "alloc_td": NoObject,
        modify_cq = "modify_cq": NoCall,
        post_srq_ops = "post_srq_ops": NoCall,
        destroy_rwq_ind_table = "destroy_rwq_ind_table": Unused,
        create_rwq_ind_table = "create_rwq_ind_table": NoObject,
        work_queues = "destroy_wq": [Unused; 2],
        create_wq = "create_wq": NoObject,
        query_rt_values = "query_rt_values":
            Option<unsafe extern "C" fn(*mut Context, *mut ValuesEx) -> c_int>,
        create_cq_ex = "create_cq_ex":
            Option<unsafe extern "C" fn(*mut Context, *mut CqInitAttrEx) -> *mut CqEx>,
        private = "priv": *mut c_void,
        query_device_ex = "query_device_ex":
            Option<unsafe extern "C" fn(*mut Context, *const c_void, *mut DeviceAttrEx, usize) -> c_int>,
        destroy_flow = "ibv_destroy_flow": [Unused; 2],
        create_flow = "ibv_create_flow": NoObject,
        placeholder_of_flows = "ABI_placeholder1": Unused,
        open_qp = "open_qp": NoObject,
        create_qp_ex = "create_qp_ex":
            Option<unsafe extern "C" fn(*mut Context, *mut QpInitAttrEx) -> *mut Qp>,
        get_srq_num = "get_srq_num": Option<unsafe extern "C" fn(*mut Srq, *mut u32) -> c_int>,
        create_srq_ex = "create_srq_ex":
            Option<unsafe extern "C" fn(*mut Context, *mut SrqInitAttrEx) -> *mut Srq>,
        open_xrcd = "open_xrcd": NoObject,
        close_xrcd = "close_xrcd": Unused,
        placeholder = "_ABI_placeholder3": u64,
        sz = "sz": usize,
        context = "context": Context,
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

    /// A source of completion events. `fd` is readable when there is one.
    Whole CompChannel = "struct ibv_comp_channel" {
        context = "context": *mut Context,
        fd = "fd": c_int,
        refcnt = "refcnt": c_int,
    }

    /// A completion queue.
    Whole Cq = "struct ibv_cq" {
        context = "context": *mut Context,
        channel = "channel": *mut CompChannel,
        cq_context = "cq_context": *mut c_void,
        handle = "handle": u32,
        cqe = "cqe": c_int,
        mutex = "mutex": libc::pthread_mutex_t,
        cond = "cond": libc::pthread_cond_t,
        comp_events_completed = "comp_events_completed": u32,
        async_events_completed = "async_events_completed": u32,
    }

    /// A completion queue and the functions of the extended interface.
    Whole CqEx = "struct ibv_cq_ex" {
        context = "context": *mut Context,
        channel = "channel": *mut CompChannel,
        cq_context = "cq_context": *mut c_void,
        handle = "handle": u32,
        cqe = "cqe": c_int,
        mutex = "mutex": libc::pthread_mutex_t,
        cond = "cond": libc::pthread_cond_t,
        comp_events_completed = "comp_events_completed": u32,
        async_events_completed = "async_events_completed": u32,
        comp_mask = "comp_mask": u32,
        status = "status": c_uint,
        wr_id = "wr_id": u64,
        start_poll = "start_poll": Option<unsafe extern "C" fn(*mut CqEx, *mut c_void) -> c_int>,
        next_poll = "next_poll": Option<unsafe extern "C" fn(*mut CqEx) -> c_int>,
        end_poll = "end_poll": Option<unsafe extern "C" fn(*mut CqEx)>,
        read_opcode = "read_opcode": Option<unsafe extern "C" fn(*mut CqEx) -> c_uint>,
        read_vendor_err = "read_vendor_err": Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
        read_byte_len = "read_byte_len": Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
        read_imm_data = "read_imm_data": Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
        read_qp_num = "read_qp_num": Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
        read_src_qp = "read_src_qp": Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
        read_wc_flags = "read_wc_flags": Option<unsafe extern "C" fn(*mut CqEx) -> c_uint>,
        read_slid = "read_slid": Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
        read_sl = "read_sl": Option<unsafe extern "C" fn(*mut CqEx) -> u8>,
        read_dlid_path_bits = "read_dlid_path_bits": Option<unsafe extern "C" fn(*mut CqEx) -> u8>,
        read_completion_ts = "read_completion_ts": Option<unsafe extern "C" fn(*mut CqEx) -> u64>,
        read_cvlan = "read_cvlan": Option<unsafe extern "C" fn(*mut CqEx) -> u16>,
        read_flow_tag = "read_flow_tag": Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
        read_tm_info = "read_tm_info": Option<unsafe extern "C" fn(*mut CqEx, *mut c_void)>,
        read_completion_wallclock_ns = "read_completion_wallclock_ns":
            Option<unsafe extern "C" fn(*mut CqEx) -> u64>,
    }

    /// A queue pair.
    Whole Qp = "struct ibv_qp" {
        context = "context": *mut Context,
        qp_context = "qp_context": *mut c_void,
        pd = "pd": *mut Pd,
        send_cq = "send_cq": *mut Cq,
        recv_cq = "recv_cq": *mut Cq,
        srq = "srq": *mut Srq,
        handle = "handle": u32,
        qp_num = "qp_num": u32,
        state = "state": c_uint,
        qp_type = "qp_type": c_uint,
        mutex = "mutex": libc::pthread_mutex_t,
        cond = "cond": libc::pthread_cond_t,
        events_completed = "events_completed": u32,
    }

    /// A queue pair and the functions of the extended interface.
    Whole QpEx = "struct ibv_qp_ex" {
        base = "qp_base": Qp,
        comp_mask = "comp_mask": u64,
        wr_id = "wr_id": u64,
        wr_flags = "wr_flags": c_uint,
        wr_atomic_cmp_swp = "wr_atomic_cmp_swp":
            Option<unsafe extern "C" fn(*mut QpEx, u32, u64, u64, u64)>,
        wr_atomic_fetch_add = "wr_atomic_fetch_add":
            Option<unsafe extern "C" fn(*mut QpEx, u32, u64, u64)>,
        wr_bind_mw = "wr_bind_mw": Option<unsafe extern "C" fn(*mut QpEx, *mut c_void, u32, *const c_void)>,
        wr_local_inv = "wr_local_inv": Option<unsafe extern "C" fn(*mut QpEx, u32)>,
        wr_rdma_read = "wr_rdma_read": Option<unsafe extern "C" fn(*mut QpEx, u32, u64)>,
        wr_rdma_write = "wr_rdma_write": Option<unsafe extern "C" fn(*mut QpEx, u32, u64)>,
        wr_rdma_write_imm = "wr_rdma_write_imm": Option<unsafe extern "C" fn(*mut QpEx, u32, u64, u32)>,
        wr_send = "wr_send": Option<unsafe extern "C" fn(*mut QpEx)>,
        wr_send_imm = "wr_send_imm": Option<unsafe extern "C" fn(*mut QpEx, u32)>,
        wr_send_inv = "wr_send_inv": Option<unsafe extern "C" fn(*mut QpEx, u32)>,
        wr_send_tso = "wr_send_tso": Option<unsafe extern "C" fn(*mut QpEx, *mut c_void, u16, u16)>,
        wr_set_ud_addr = "wr_set_ud_addr": Option<unsafe extern "C" fn(*mut QpEx, *mut Ah, u32, u32)>,
        wr_set_xrc_srqn = "wr_set_xrc_srqn": Option<unsafe extern "C" fn(*mut QpEx, u32)>,
        wr_set_inline_data = "wr_set_inline_data":
            Option<unsafe extern "C" fn(*mut QpEx, *mut c_void, usize)>,
        wr_set_inline_data_list = "wr_set_inline_data_list":
            Option<unsafe extern "C" fn(*mut QpEx, usize, *const DataBuf)>,
        wr_set_sge = "wr_set_sge": Option<unsafe extern "C" fn(*mut QpEx, u32, u64, u32)>,
        wr_set_sge_list = "wr_set_sge_list": Option<unsafe extern "C" fn(*mut QpEx, usize, *const Sge)>,
        wr_start = "wr_start": Option<unsafe extern "C" fn(*mut QpEx)>,
        wr_complete = "wr_complete": Option<unsafe extern "C" fn(*mut QpEx) -> c_int>,
        wr_abort = "wr_abort": Option<unsafe extern "C" fn(*mut QpEx)>,
        wr_atomic_write = "wr_atomic_write":
            Option<unsafe extern "C" fn(*mut QpEx, u32, u64, *const c_void)>,
    }

    /// A shared receive queue.
    Whole Srq = "struct ibv_srq" {
        context = "context": *mut Context,
        srq_context = "srq_context": *mut c_void,
        pd = "pd": *mut Pd,
        handle = "handle": u32,
        mutex = "mutex": libc::pthread_mutex_t,
        cond = "cond": libc::pthread_cond_t,
        events_completed = "events_completed": u32,
    }

    /// An address handle.
    Whole Ah = "struct ibv_ah" {
        context = "context": *mut Context,
        pd = "pd": *mut Pd,
        handle = "handle": u32,
    }

    /// A source of connection events. `fd` is readable when there is one.
    Whole EventChannel = "struct rdma_event_channel" {
        fd = "fd": c_int,
    }

    /// A connection identifier, the connection manager's socket.
    Whole CmId = "struct rdma_cm_id" {
        verbs = "verbs": *mut Context,
        channel = "channel": *mut EventChannel,
        context = "context": *mut c_void,
        qp = "qp": *mut Qp,
        src_addr = "route.addr.src_addr": [u64; 16],
        dst_addr = "route.addr.dst_addr": [u64; 16],
        sgid = "route.addr.addr.ibaddr.sgid": [u64; 2],
        dgid = "route.addr.addr.ibaddr.dgid": [u64; 2],
        pkey = "route.addr.addr.ibaddr.pkey": Padded<u16>,
        path_rec = "route.path_rec": *mut c_void,
        num_paths = "route.num_paths": Padded<c_int>,
        ps = "ps": c_uint,
        port_num = "port_num": u8,
        event = "event": *mut CmEvent,
        send_cq_channel = "send_cq_channel": *mut CompChannel,
        send_cq = "send_cq": *mut Cq,
        recv_cq_channel = "recv_cq_channel": *mut CompChannel,
        recv_cq = "recv_cq": *mut Cq,
        srq = "srq": *mut Srq,
        pd = "pd": *mut Pd,
        qp_type = "qp_type": c_uint,
    }

    /// The attributes with which a queue pair is made. The capacities granted are written back.
    Whole QpInitAttr = "struct ibv_qp_init_attr" {
        qp_context = "qp_context": *mut c_void,
        send_cq = "send_cq": *mut Cq,
        recv_cq = "recv_cq": *mut Cq,
        srq = "srq": *mut Srq,
        cap = "cap": QpCap,
        qp_type = "qp_type": c_uint,
        sq_sig_all = "sq_sig_all": c_int,
    }

    /// [`QpInitAttr`] and the attributes that were added later, of which `comp_mask` says which are given.
    Whole QpInitAttrEx = "struct ibv_qp_init_attr_ex" {
        qp_context = "qp_context": *mut c_void,
        send_cq = "send_cq": *mut Cq,
        recv_cq = "recv_cq": *mut Cq,
        srq = "srq": *mut Srq,
        cap = "cap": QpCap,
        qp_type = "qp_type": c_uint,
        sq_sig_all = "sq_sig_all": c_int,
        comp_mask = "comp_mask": u32,
        pd = "pd": *mut Pd,
        xrcd = "xrcd": *mut c_void,
        create_flags = "create_flags": u32,
        max_tso_header = "max_tso_header": u16,
        rwq_ind_tbl = "rwq_ind_tbl": *mut c_void,
        rx_hash_conf = "rx_hash_conf": [u64; 3],
        source_qpn = "source_qpn": u32,
        send_ops_flags = "send_ops_flags": u64,
    }

    /// [`SrqInitAttr`] and the attributes that were added later.
    Whole SrqInitAttrEx = "struct ibv_srq_init_attr_ex" {
        srq_context = "srq_context": *mut c_void,
        attr = "attr": SrqAttr,
        comp_mask = "comp_mask": u32,
        srq_type = "srq_type": c_uint,
        pd = "pd": *mut Pd,
        xrcd = "xrcd": *mut c_void,
        cq = "cq": *mut Cq,
        tm_cap = "tm_cap": [u32; 2],
    }

    /// The attributes with which an extended completion queue is made.
    Whole CqInitAttrEx = "struct ibv_cq_init_attr_ex" {
        cqe = "cqe": u32,
        cq_context = "cq_context": *mut c_void,
        channel = "channel": *mut CompChannel,
        comp_vector = "comp_vector": u32,
        wc_flags = "wc_flags": u64,
        comp_mask = "comp_mask": u32,
        flags = "flags": u32,
        parent_domain = "parent_domain": *mut Pd,
    }

    /// A connection event. The union of parameters is declared by its larger member, whose first fields are the same.
    Whole CmEvent = "struct rdma_cm_event" {
        id = "id": *mut CmId,
        listen_id = "listen_id": *mut CmId,
        event = "event": c_uint,
        status = "status": c_int,
        ud = "param.ud": UdParam,
    }
}
