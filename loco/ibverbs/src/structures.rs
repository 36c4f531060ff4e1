//! Structures that hold data only: attributes, work requests, completions, events.

use std::ffi::{c_char, c_int, c_uint, c_void};

use loco_host::c_structs;

/// The last field of a nested structure that is padded to 8 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct Padded<T>(pub T);

/// A GID as its 16 bytes.
pub type RawGid = [u8; 16];

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

    /// [`DeviceAttr`] and the attributes that were added later. Callers say how much they have room for.
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

    /// The state of a port.
    Whole PortAttr = "struct ibv_port_attr" {
        state = "state": c_uint,
        max_mtu = "max_mtu": c_uint,
        active_mtu = "active_mtu": c_uint,
        gid_tbl_len = "gid_tbl_len": c_int,
        port_cap_flags = "port_cap_flags": u32,
        max_msg_sz = "max_msg_sz": u32,
        bad_pkey_cntr = "bad_pkey_cntr": u32,
        qkey_viol_cntr = "qkey_viol_cntr": u32,
        pkey_tbl_len = "pkey_tbl_len": u16,
        lid = "lid": u16,
        sm_lid = "sm_lid": u16,
        lmc = "lmc": u8,
        max_vl_num = "max_vl_num": u8,
        sm_sl = "sm_sl": u8,
        subnet_timeout = "subnet_timeout": u8,
        init_type_reply = "init_type_reply": u8,
        active_width = "active_width": u8,
        active_speed = "active_speed": u8,
        phys_state = "phys_state": u8,
        link_layer = "link_layer": u8,
        flags = "flags": u8,
        port_cap_flags2 = "port_cap_flags2": u16,
    }

    /// An entry of the table of GIDs.
    Whole GidEntry = "struct ibv_gid_entry" {
        gid = "gid": [u64; 2],
        gid_index = "gid_index": u32,
        port_num = "port_num": u32,
        gid_type = "gid_type": u32,
        ndev_ifindex = "ndev_ifindex": u32,
    }

    /// The capacities of a queue pair.
    Whole QpCap = "struct ibv_qp_cap" {
        max_send_wr = "max_send_wr": u32,
        max_recv_wr = "max_recv_wr": u32,
        max_send_sge = "max_send_sge": u32,
        max_recv_sge = "max_recv_sge": u32,
        max_inline_data = "max_inline_data": u32,
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

    /// A piece of memory whose data go inline.
    Whole DataBuf = "struct ibv_data_buf" {
        addr = "addr": *mut c_void,
        length = "length": usize,
    }

    /// A work request. The unions of the C structure are declared by their largest member in use; see [`SendWr::rdma_rkey`] and
    /// [`SendWr::ud`].
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

    /// A receive request.
    Whole RecvWr = "struct ibv_recv_wr" {
        wr_id = "wr_id": u64,
        next = "next": *mut RecvWr,
        sg_list = "sg_list": *mut Sge,
        num_sge = "num_sge": c_int,
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

    /// Capacities of a shared receive queue.
    Whole SrqAttr = "struct ibv_srq_attr" {
        max_wr = "max_wr": u32,
        max_sge = "max_sge": u32,
        srq_limit = "srq_limit": u32,
    }

    /// The attributes with which a shared receive queue is made.
    Whole SrqInitAttr = "struct ibv_srq_init_attr" {
        srq_context = "srq_context": *mut c_void,
        attr = "attr": SrqAttr,
    }

    /// An asynchronous event of a device. `element` is the address of an object, or the number of a port.
    Whole AsyncEvent = "struct ibv_async_event" {
        element = "element": usize,
        event_type = "event_type": c_uint,
    }

    /// The header before a datagram in its receive buffer.
    Whole Grh = "struct ibv_grh" {
        version_tclass_flow = "version_tclass_flow": u32,
        paylen = "paylen": u16,
        next_hdr = "next_hdr": u8,
        hop_limit = "hop_limit": u8,
        sgid = "sgid": [u64; 2],
        dgid = "dgid": [u64; 2],
    }

    /// The device's clock.
    Whole ValuesEx = "struct ibv_values_ex" {
        comp_mask = "comp_mask": u32,
        raw_clock = "raw_clock": [u64; 2],
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

    /// Parameters of a datagram peer.
    Whole UdParam = "struct rdma_ud_param" {
        private_data = "private_data": *const c_void,
        private_data_len = "private_data_len": u8,
        ah_attr = "ah_attr": AhAttr,
        qp_num = "qp_num": u32,
        qkey = "qkey": u32,
    }

    /// What an address was resolved to.
    Whole AddrInfo = "struct rdma_addrinfo" {
        ai_flags = "ai_flags": c_int,
        ai_family = "ai_family": c_int,
        ai_qp_type = "ai_qp_type": c_int,
        ai_port_space = "ai_port_space": c_int,
        ai_src_len = "ai_src_len": u32,
        ai_dst_len = "ai_dst_len": u32,
        ai_src_addr = "ai_src_addr": *mut c_void,
        ai_dst_addr = "ai_dst_addr": *mut c_void,
        ai_src_canonname = "ai_src_canonname": *mut c_char,
        ai_dst_canonname = "ai_dst_canonname": *mut c_char,
        ai_route_len = "ai_route_len": usize,
        ai_route = "ai_route": *mut c_void,
        ai_connect_len = "ai_connect_len": usize,
        ai_connect = "ai_connect": *mut c_void,
        ai_next = "ai_next": *mut AddrInfo,
    }
}

impl SendWr {
    /// Returns the key of a read or write, which is at the place where an atomic has its first operand.
    pub fn rdma_rkey(&self) -> u32 {
        self.halves().0
    }

    /// Sets the key of a read or write.
    pub fn set_rdma_rkey(&mut self, rkey: u32) {
        self.set_halves(rkey, 0);
    }

    /// Returns the address handle, queue pair number and key of a datagram.
    pub fn ud(&self) -> (*mut c_void, u32, u32) {
        let (qpn, qkey) = self.halves();
        let at = usize::try_from(self.remote_addr).unwrap_or(0);
        (std::ptr::with_exposed_provenance_mut(at), qpn, qkey)
    }

    /// Sets the destination of a datagram.
    pub fn set_ud(&mut self, ah: *mut c_void, qpn: u32, qkey: u32) {
        self.remote_addr = ah.expose_provenance() as u64;
        self.set_halves(qpn, qkey);
    }

    fn halves(&self) -> (u32, u32) {
        let bytes = self.compare_add.to_ne_bytes();
        let half = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        (half(0), half(4))
    }

    fn set_halves(&mut self, first: u32, second: u32) {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&first.to_ne_bytes());
        bytes[4..].copy_from_slice(&second.to_ne_bytes());
        self.compare_add = u64::from_ne_bytes(bytes);
    }
}

impl AhAttr {
    /// Returns the destination's GID.
    pub fn gid(&self) -> RawGid {
        raw_gid(self.grh.dgid)
    }
}

/// Returns the bytes of a GID that is declared by its two halves.
pub fn raw_gid(halves: [u64; 2]) -> RawGid {
    let mut raw = [0; 16];
    raw[..8].copy_from_slice(&halves[0].to_ne_bytes());
    raw[8..].copy_from_slice(&halves[1].to_ne_bytes());
    raw
}

/// Returns the halves of a GID.
pub fn gid_halves(raw: RawGid) -> [u64; 2] {
    let half = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&raw[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    [half(0), half(8)]
}
