//! The C structures and constants of `rdma/fabric.h` and its companions that the fabric uses.
//!
//! Names are the C names in Rust's case, and fields are the C fields. Most structures are libfabric's and may grow: these
//! are declared up to the last field used, and `layout` checks the rest.

use std::ffi::{c_char, c_int, c_void};

use loco_host::{c_constants, c_structs};

/// A function that is not called.
type Unused = Option<unsafe extern "C" fn()>;
/// A peer's address, as the address vector numbers it (`fi_addr_t`).
pub type Addr = u64;

c_structs! {
    /// Attributes of the sending side.
    Whole TxAttr = "struct fi_tx_attr" {
        caps = "caps": u64,
        mode = "mode": u64,
        op_flags = "op_flags": u64,
        msg_order = "msg_order": u64,
        comp_order = "comp_order": u64,
        inject_size = "inject_size": usize,
        size = "size": usize,
        iov_limit = "iov_limit": usize,
        rma_iov_limit = "rma_iov_limit": usize,
        tclass = "tclass": u32,
    }

    /// Attributes of the receiving side.
    Whole RxAttr = "struct fi_rx_attr" {
        caps = "caps": u64,
        mode = "mode": u64,
        op_flags = "op_flags": u64,
        msg_order = "msg_order": u64,
        comp_order = "comp_order": u64,
        total_buffered_recv = "total_buffered_recv": usize,
        size = "size": usize,
        iov_limit = "iov_limit": usize,
    }

    /// Attributes of an endpoint.
    Whole EpAttr = "struct fi_ep_attr" {
        ep_type = "type": u32,
        protocol = "protocol": u32,
        protocol_version = "protocol_version": u32,
        max_msg_size = "max_msg_size": usize,
        msg_prefix_size = "msg_prefix_size": usize,
        max_order_raw_size = "max_order_raw_size": usize,
        max_order_war_size = "max_order_war_size": usize,
        max_order_waw_size = "max_order_waw_size": usize,
        mem_tag_format = "mem_tag_format": u64,
        tx_ctx_cnt = "tx_ctx_cnt": usize,
        rx_ctx_cnt = "rx_ctx_cnt": usize,
        auth_key_size = "auth_key_size": usize,
        auth_key = "auth_key": *mut u8,
    }

    /// Attributes of a domain (roughly, a network card).
    Fields DomainAttr = "struct fi_domain_attr" {
        domain = "domain": *mut FidDomain,
        name = "name": *mut c_char,
        threading = "threading": u32,
        control_progress = "control_progress": u32,
        data_progress = "data_progress": u32,
        resource_mgmt = "resource_mgmt": u32,
        av_type = "av_type": u32,
        mr_mode = "mr_mode": c_int,
        mr_key_size = "mr_key_size": usize,
    }

    /// Attributes of a fabric (roughly, a network).
    Fields FabricAttr = "struct fi_fabric_attr" {
        fabric = "fabric": *mut FidFabric,
        name = "name": *mut c_char,
        prov_name = "prov_name": *mut c_char,
        prov_version = "prov_version": u32,
        api_version = "api_version": u32,
    }

    /// One way to communicate.
    Fields Info = "struct fi_info" {
        next = "next": *mut Info,
        caps = "caps": u64,
        mode = "mode": u64,
        addr_format = "addr_format": u32,
        src_addrlen = "src_addrlen": usize,
        dest_addrlen = "dest_addrlen": usize,
        src_addr = "src_addr": *mut c_void,
        dest_addr = "dest_addr": *mut c_void,
        handle = "handle": *mut Fid,
        tx_attr = "tx_attr": *mut TxAttr,
        rx_attr = "rx_attr": *mut RxAttr,
        ep_attr = "ep_attr": *mut EpAttr,
        domain_attr = "domain_attr": *mut DomainAttr,
        fabric_attr = "fabric_attr": *mut FabricAttr,
    }

    /// The head of every object of libfabric.
    Whole Fid = "struct fid" {
        fclass = "fclass": usize,
        context = "context": *mut c_void,
        ops = "ops": *mut Ops,
    }

    /// The functions of every object.
    Fields Ops = "struct fi_ops" {
        size = "size": usize,
        close = "close": unsafe extern "C" fn(*mut Fid) -> c_int,
        bind = "bind": unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
        control = "control": unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
    }

    /// A fabric.
    Fields FidFabric = "struct fid_fabric" {
        fid = "fid": Fid,
        ops = "ops": *mut OpsFabric,
    }

    /// The functions of a fabric.
    Fields OpsFabric = "struct fi_ops_fabric" {
        size = "size": usize,
        domain = "domain":
            unsafe extern "C" fn(*mut FidFabric, *mut Info, *mut *mut FidDomain, *mut c_void) -> c_int,
        passive_ep = "passive_ep": Unused,
        eq_open = "eq_open": Unused,
        wait_open = "wait_open": Unused,
        trywait = "trywait": unsafe extern "C" fn(*mut FidFabric, *mut *mut Fid, c_int) -> c_int,
    }

    /// A domain.
    Whole FidDomain = "struct fid_domain" {
        fid = "fid": Fid,
        ops = "ops": *mut OpsDomain,
        mr = "mr": *mut OpsMr,
    }

    /// The functions of a domain.
    Fields OpsDomain = "struct fi_ops_domain" {
        size = "size": usize,
        av_open = "av_open":
            unsafe extern "C" fn(*mut FidDomain, *mut AvAttr, *mut *mut FidAv, *mut c_void) -> c_int,
        cq_open = "cq_open":
            unsafe extern "C" fn(*mut FidDomain, *mut CqAttr, *mut *mut FidCq, *mut c_void) -> c_int,
        endpoint = "endpoint":
            unsafe extern "C" fn(*mut FidDomain, *mut Info, *mut *mut FidEp, *mut c_void) -> c_int,
    }

    /// Registration.
    Fields OpsMr = "struct fi_ops_mr" {
        size = "size": usize,
        reg = "reg": unsafe extern "C" fn(
            *mut Fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut FidMr, *mut c_void,
        ) -> c_int,
    }

    /// Registered memory.
    Whole FidMr = "struct fid_mr" {
        fid = "fid": Fid,
        mem_desc = "mem_desc": *mut c_void,
        key = "key": u64,
    }

    /// The attributes of an address vector to be made.
    Whole AvAttr = "struct fi_av_attr" {
        av_type = "type": u32,
        rx_ctx_bits = "rx_ctx_bits": c_int,
        count = "count": usize,
        ep_per_node = "ep_per_node": usize,
        name = "name": *const c_char,
        map_addr = "map_addr": *mut c_void,
        flags = "flags": u64,
    }

    /// An address vector.
    Whole FidAv = "struct fid_av" {
        fid = "fid": Fid,
        ops = "ops": *mut OpsAv,
    }

    /// The functions of an address vector.
    Fields OpsAv = "struct fi_ops_av" {
        size = "size": usize,
        insert = "insert":
            unsafe extern "C" fn(*mut FidAv, *const c_void, usize, *mut Addr, u64, *mut c_void) -> c_int,
    }

    /// The attributes of a completion queue to be made.
    Whole CqAttr = "struct fi_cq_attr" {
        size = "size": usize,
        flags = "flags": u64,
        format = "format": u32,
        wait_obj = "wait_obj": u32,
        signaling_vector = "signaling_vector": c_int,
        wait_cond = "wait_cond": u32,
        wait_set = "wait_set": *mut c_void,
    }

    /// A completion queue.
    Whole FidCq = "struct fid_cq" {
        fid = "fid": Fid,
        ops = "ops": *mut OpsCq,
    }

    /// The functions of a completion queue.
    Fields OpsCq = "struct fi_ops_cq" {
        size = "size": usize,
        read = "read": unsafe extern "C" fn(*mut FidCq, *mut c_void, usize) -> isize,
        readfrom = "readfrom": Unused,
        readerr = "readerr": unsafe extern "C" fn(*mut FidCq, *mut CqErrEntry, u64) -> isize,
    }

    /// The report of an operation that failed.
    Whole CqErrEntry = "struct fi_cq_err_entry" {
        op_context = "op_context": *mut c_void,
        flags = "flags": u64,
        len = "len": usize,
        buf = "buf": *mut c_void,
        data = "data": u64,
        tag = "tag": u64,
        olen = "olen": usize,
        err = "err": c_int,
        prov_errno = "prov_errno": c_int,
        err_data = "err_data": *mut c_void,
        err_data_size = "err_data_size": usize,
    }

    /// An endpoint.
    Fields FidEp = "struct fid_ep" {
        fid = "fid": Fid,
        ops = "ops": *mut c_void,
        cm = "cm": *mut OpsCm,
        msg = "msg": *mut c_void,
        rma = "rma": *mut OpsRma,
        tagged = "tagged": *mut c_void,
        atomic = "atomic": *mut OpsAtomic,
    }

    /// Addresses of an endpoint.
    Fields OpsCm = "struct fi_ops_cm" {
        size = "size": usize,
        setname = "setname": Unused,
        getname = "getname": unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
    }

    /// Reads and writes of peers' memory.
    Fields OpsRma = "struct fi_ops_rma" {
        size = "size": usize,
        read = "read": Unused,
        readv = "readv": Unused,
        readmsg = "readmsg": unsafe extern "C" fn(*mut FidEp, *const MsgRma, u64) -> isize,
        write = "write": Unused,
        writev = "writev": Unused,
        writemsg = "writemsg": unsafe extern "C" fn(*mut FidEp, *const MsgRma, u64) -> isize,
    }

    /// Atomic operations on peers' memory.
    Fields OpsAtomic = "struct fi_ops_atomic" {
        size = "size": usize,
        write = "write": Unused,
        writev = "writev": Unused,
        writemsg = "writemsg": unsafe extern "C" fn(*mut FidEp, *const MsgAtomic, u64) -> isize,
        inject = "inject": Unused,
        readwrite = "readwrite": Unused,
        readwritev = "readwritev": Unused,
        readwritemsg = "readwritemsg": unsafe extern "C" fn(
            *mut FidEp, *const MsgAtomic, *mut Ioc, *mut *mut c_void, usize, u64,
        ) -> isize,
        compwrite = "compwrite": Unused,
        compwritev = "compwritev": Unused,
        compwritemsg = "compwritemsg": unsafe extern "C" fn(
            *mut FidEp, *const MsgAtomic, *const Ioc, *mut *mut c_void, usize, *mut Ioc, *mut *mut c_void, usize, u64,
        ) -> isize,
        writevalid = "writevalid": unsafe extern "C" fn(*mut FidEp, u32, u32, *mut usize) -> c_int,
        readwritevalid = "readwritevalid": unsafe extern "C" fn(*mut FidEp, u32, u32, *mut usize) -> c_int,
        compwritevalid = "compwritevalid": unsafe extern "C" fn(*mut FidEp, u32, u32, *mut usize) -> c_int,
    }

    /// A piece of a peer's memory.
    Whole RmaIov = "struct fi_rma_iov" {
        addr = "addr": u64,
        len = "len": usize,
        key = "key": u64,
    }

    /// A read or write to be posted.
    Whole MsgRma = "struct fi_msg_rma" {
        msg_iov = "msg_iov": *const libc::iovec,
        desc = "desc": *mut *mut c_void,
        iov_count = "iov_count": usize,
        addr = "addr": Addr,
        rma_iov = "rma_iov": *const RmaIov,
        rma_iov_count = "rma_iov_count": usize,
        context = "context": *mut c_void,
        data = "data": u64,
    }

    /// Words of this node's memory.
    Whole Ioc = "struct fi_ioc" {
        addr = "addr": *mut c_void,
        count = "count": usize,
    }

    /// Words of a peer's memory.
    Whole RmaIoc = "struct fi_rma_ioc" {
        addr = "addr": u64,
        count = "count": usize,
        key = "key": u64,
    }

    /// An atomic operation to be posted.
    Whole MsgAtomic = "struct fi_msg_atomic" {
        msg_iov = "msg_iov": *const Ioc,
        desc = "desc": *mut *mut c_void,
        iov_count = "iov_count": usize,
        addr = "addr": Addr,
        rma_iov = "rma_iov": *const RmaIoc,
        rma_iov_count = "rma_iov_count": usize,
        datatype = "datatype": u32,
        op = "op": u32,
        context = "context": *mut c_void,
        data = "data": u64,
    }

    /// Room that some providers want for each operation under way.
    Whole Context2 = "struct fi_context2" {
        internal = "internal": [*mut c_void; 8],
    }
}

c_constants! {
    FI_RMA: u64 = 1 << 2,
    FI_ATOMIC: u64 = 1 << 4,
    FI_READ: u64 = 1 << 8,
    FI_WRITE: u64 = 1 << 9,
    FI_RECV: u64 = 1 << 10,
    FI_TRANSMIT: u64 = 1 << 11,
    FI_REMOTE_READ: u64 = 1 << 12,
    FI_REMOTE_WRITE: u64 = 1 << 13,
    FI_COMPLETION: u64 = 1 << 24,
    FI_DELIVERY_COMPLETE: u64 = 1 << 28,
    FI_SOURCE: u64 = 1 << 57,
    FI_CONTEXT: u64 = 1 << 59,
    FI_CONTEXT2: u64 = 1 << 52,
    FI_EP_RDM: u32 = 3,
    FI_THREAD_DOMAIN: u32 = 3,
    FI_PROGRESS_AUTO: u32 = 1,
    FI_AV_UNSPEC: u32 = 0,
    FI_AV_TABLE: u32 = 2,
    FI_MR_BASIC: c_int = 1,
    FI_MR_LOCAL: c_int = 1 << 2,
    FI_MR_VIRT_ADDR: c_int = 1 << 4,
    FI_MR_ALLOCATED: c_int = 1 << 5,
    FI_MR_PROV_KEY: c_int = 1 << 6,
    FI_MR_ENDPOINT: c_int = 1 << 9,
    FI_ORDER_RAR: u64 = 1 << 0,
    FI_ORDER_RAW: u64 = 1 << 1,
    FI_ORDER_WAR: u64 = 1 << 3,
    FI_ORDER_WAW: u64 = 1 << 4,
    FI_ORDER_RMA_RAR: u64 = 1 << 32,
    FI_ORDER_RMA_RAW: u64 = 1 << 33,
    FI_ORDER_RMA_WAR: u64 = 1 << 34,
    FI_ORDER_RMA_WAW: u64 = 1 << 35,
    FI_ORDER_ATOMIC_RAR: u64 = 1 << 36,
    FI_ORDER_ATOMIC_RAW: u64 = 1 << 37,
    FI_ORDER_ATOMIC_WAR: u64 = 1 << 38,
    FI_ORDER_ATOMIC_WAW: u64 = 1 << 39,
    FI_CQ_FORMAT_CONTEXT: u32 = 1,
    FI_WAIT_NONE: u32 = 0,
    FI_WAIT_FD: u32 = 3,
    FI_GETWAIT: c_int = 5,
    FI_ENABLE: c_int = 6,
    FI_UINT8: u32 = 1,
    FI_UINT16: u32 = 3,
    FI_UINT32: u32 = 5,
    FI_UINT64: u32 = 7,
    FI_SUM: u32 = 2,
    FI_ATOMIC_READ: u32 = 10,
    FI_ATOMIC_WRITE: u32 = 11,
    FI_CSWAP: u32 = 12,
    FI_EAGAIN: i32 = 11,
    FI_EAVAIL: i32 = 259,
}

/// Returns a value of a C structure with all bytes zero, from which C programs start.
pub(crate) fn zeroed<T: Zeroed>() -> T {
    // SAFETY: the types for which `Zeroed` is implemented hold numbers and pointers only.
    unsafe { std::mem::zeroed() }
}

/// Marks structures for which all bytes zero are a value.
pub(crate) trait Zeroed {}
impl Zeroed for AvAttr {}
impl Zeroed for CqAttr {}
impl Zeroed for CqErrEntry {}
impl Zeroed for MsgAtomic {}
impl Zeroed for MsgRma {}
impl Zeroed for Context2 {}
