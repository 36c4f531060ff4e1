//! The symbols that programs are linked with, each with its version (`versions.map`).
//!
//! A symbol is a jump to the function that stands for it, since Rust has no names with versions. Rust's own list of symbols
//! does not have these, so that the linker takes their versions from their names.

#![allow(unsafe_code)]

use std::arch::global_asm;
use std::ffi::c_void;

use crate::cm::addresses as cm;
use crate::cm::{connecting, delivery, identifiers, pairs, refused};
use crate::verbs::{
    addresses, async_events, channels, completion, device, memory, names, old, opened, queue_pairs, shared,
};

macro_rules! export {
    ($($version:literal { $($symbol:literal = $function:path,)* })*) => {
        $($(export!(@one $version, $symbol, $function);)*)*

        /// Returns the function behind a symbol, for a program that this library is linked into.
        pub fn function(symbol: &str) -> Option<*mut c_void> {
            match symbol {
                $($($symbol => Some(($function as *const ()).cast_mut().cast()),)*)*
                _ => None,
            }
        }
    };
    (@one $version:literal, $symbol:literal, $function:path) => {
        #[cfg(target_arch = "x86_64")]
        export!(@jump "jmp {function}", $version, $symbol, $function);
        #[cfg(target_arch = "aarch64")]
        export!(@jump "b {function}", $version, $symbol, $function);
    };
    (@jump $jump:literal, $version:literal, $symbol:literal, $function:path) => {
        global_asm!(
            concat!(".pushsection .text.loco_nic.", $symbol, ",\"ax\",%progbits"),
            ".p2align 4",
            concat!(".globl loco_nic_", $symbol),
            concat!(".type loco_nic_", $symbol, ",%function"),
            concat!("loco_nic_", $symbol, ":"),
            $jump,
            concat!(".size loco_nic_", $symbol, ", . - loco_nic_", $symbol),
            concat!(".symver loco_nic_", $symbol, ",", $symbol, "@@", $version),
            ".popsection",
            function = sym $function,
        );
    };
}

export! {
    "IBVERBS_1.0" {
        "ibv_get_sysfs_path" = old::get_sysfs_path,
        "ibv_read_sysfs_file" = old::read_sysfs_file,
        "ibv_create_comp_channel" = channels::create_comp_channel,
        "ibv_destroy_comp_channel" = channels::destroy_comp_channel,
        "ibv_rate_to_mult" = names::rate_to_mult,
        "mult_to_ibv_rate" = names::mult_to_rate,
        "ibv_copy_path_rec_from_kern" = old::copy_from_kernel,
        "ibv_copy_path_rec_to_kern" = old::copy_from_kernel,
        "ibv_copy_qp_attr_from_kern" = old::copy_from_kernel,
    }
    "IBVERBS_1.1" {
        "ibv_get_device_list" = device::get_device_list,
        "ibv_free_device_list" = device::free_device_list,
        "ibv_get_device_name" = device::get_device_name,
        "ibv_get_device_guid" = device::get_device_guid,
        "ibv_open_device" = opened::open_device,
        "ibv_close_device" = opened::close_device,
        "ibv_get_async_event" = async_events::get_async_event,
        "ibv_ack_async_event" = async_events::ack_async_event,
        "ibv_query_device" = device::query_device,
        "ibv_query_port" = device::query_port,
        "ibv_query_gid" = device::query_gid,
        "ibv_query_pkey" = device::query_pkey,
        "ibv_alloc_pd" = opened::alloc_pd,
        "ibv_dealloc_pd" = opened::dealloc_pd,
        "ibv_reg_mr" = memory::reg_mr,
        "ibv_rereg_mr" = memory::rereg_mr,
        "ibv_dereg_mr" = memory::dereg_mr,
        "ibv_create_cq" = completion::create_cq,
        "ibv_resize_cq" = completion::resize_cq,
        "ibv_destroy_cq" = completion::destroy_cq,
        "ibv_get_cq_event" = channels::get_cq_event,
        "ibv_ack_cq_events" = channels::ack_cq_events,
        "ibv_create_srq" = shared::create_srq,
        "ibv_modify_srq" = shared::modify_srq,
        "ibv_query_srq" = shared::query_srq,
        "ibv_destroy_srq" = shared::destroy_srq,
        "ibv_create_qp" = queue_pairs::create_qp,
        "ibv_query_qp" = queue_pairs::query_qp,
        "ibv_modify_qp" = queue_pairs::modify_qp,
        "ibv_destroy_qp" = queue_pairs::destroy_qp,
        "ibv_create_ah" = addresses::create_ah,
        "ibv_destroy_ah" = addresses::destroy_ah,
        "ibv_init_ah_from_wc" = addresses::init_ah_from_wc,
        "ibv_create_ah_from_wc" = addresses::create_ah_from_wc,
        "ibv_attach_mcast" = addresses::attach_mcast,
        "ibv_detach_mcast" = addresses::detach_mcast,
        "ibv_resolve_eth_l2_from_gid" = addresses::resolve_eth_l2_from_gid,
        "ibv_fork_init" = old::fork_init,
        "ibv_dontfork_range" = old::fork_range,
        "ibv_dofork_range" = old::fork_range,
        "ibv_copy_ah_attr_from_kern" = old::copy_from_kernel,
        "ibv_node_type_str" = names::node_type_str,
        "ibv_port_state_str" = names::port_state_str,
        "ibv_event_type_str" = names::event_type_str,
        "ibv_wc_status_str" = names::wc_status_str,
        "ibv_rate_to_mbps" = names::rate_to_mbps,
        "mbps_to_ibv_rate" = names::mbps_to_rate,
    }
    "IBVERBS_1.5" {
        "ibv_get_pkey_index" = device::get_pkey_index,
    }
    "IBVERBS_1.6" {
        "ibv_qp_to_qp_ex" = queue_pairs::qp_to_qp_ex,
    }
    "IBVERBS_1.7" {
        "ibv_reg_mr_iova" = memory::reg_mr_iova,
    }
    "IBVERBS_1.8" {
        "ibv_reg_mr_iova2" = memory::reg_mr_iova2,
    }
    "IBVERBS_1.9" {
        "ibv_get_device_index" = device::get_device_index,
    }
    "IBVERBS_1.10" {
        "ibv_import_device" = old::import_device,
        "ibv_import_pd" = old::import_pd,
        "ibv_unimport_pd" = old::unimport,
        "ibv_import_mr" = old::import_mr,
        "ibv_unimport_mr" = old::unimport,
        "ibv_set_ece" = old::set_ece,
        "ibv_query_ece" = old::query_ece,
    }
    "IBVERBS_1.11" {
        "_ibv_query_gid_ex" = device::query_gid_ex,
        "_ibv_query_gid_table" = device::query_gid_table,
    }
    "IBVERBS_1.12" {
        "ibv_reg_dmabuf_mr" = memory::reg_dmabuf_mr,
    }
    "IBVERBS_1.13" {
        "ibv_import_dm" = old::import_dm,
        "ibv_unimport_dm" = old::unimport,
        "ibv_is_fork_initialized" = old::is_fork_initialized,
    }
    "IBVERBS_1.14" {
        "ibv_query_qp_data_in_order" = old::query_qp_data_in_order,
    }
    "IBVERBS_PRIVATE_34" {
        "ibv_query_gid_type" = device::query_gid_type,
        "verbs_register_driver_34" = old::register_driver,
        "__verbs_log" = old::driver_log,
        "__ioctl_final_num_attrs" = old::private,
        "_verbs_init_and_alloc_context" = old::private,
        "execute_ioctl" = old::private,
        "ibv_cmd_advise_mr" = old::private,
        "ibv_cmd_alloc_dm" = old::private,
        "ibv_cmd_alloc_mw" = old::private,
        "ibv_cmd_alloc_pd" = old::private,
        "ibv_cmd_attach_mcast" = old::private,
        "ibv_cmd_close_xrcd" = old::private,
        "ibv_cmd_create_ah" = old::private,
        "ibv_cmd_create_counters" = old::private,
        "ibv_cmd_create_cq" = old::private,
        "ibv_cmd_create_cq_ex" = old::private,
        "ibv_cmd_create_flow" = old::private,
        "ibv_cmd_create_flow_action_esp" = old::private,
        "ibv_cmd_create_qp" = old::private,
        "ibv_cmd_create_qp_ex" = old::private,
        "ibv_cmd_create_qp_ex2" = old::private,
        "ibv_cmd_create_rwq_ind_table" = old::private,
        "ibv_cmd_create_srq" = old::private,
        "ibv_cmd_create_srq_ex" = old::private,
        "ibv_cmd_create_wq" = old::private,
        "ibv_cmd_dealloc_mw" = old::private,
        "ibv_cmd_dealloc_pd" = old::private,
        "ibv_cmd_dereg_mr" = old::private,
        "ibv_cmd_destroy_ah" = old::private,
        "ibv_cmd_destroy_counters" = old::private,
        "ibv_cmd_destroy_cq" = old::private,
        "ibv_cmd_destroy_flow" = old::private,
        "ibv_cmd_destroy_flow_action" = old::private,
        "ibv_cmd_destroy_qp" = old::private,
        "ibv_cmd_destroy_rwq_ind_table" = old::private,
        "ibv_cmd_destroy_srq" = old::private,
        "ibv_cmd_destroy_wq" = old::private,
        "ibv_cmd_detach_mcast" = old::private,
        "ibv_cmd_free_dm" = old::private,
        "ibv_cmd_get_context" = old::private,
        "ibv_cmd_modify_cq" = old::private,
        "ibv_cmd_modify_flow_action_esp" = old::private,
        "ibv_cmd_modify_qp" = old::private,
        "ibv_cmd_modify_qp_ex" = old::private,
        "ibv_cmd_modify_srq" = old::private,
        "ibv_cmd_modify_wq" = old::private,
        "ibv_cmd_open_qp" = old::private,
        "ibv_cmd_open_xrcd" = old::private,
        "ibv_cmd_poll_cq" = old::private,
        "ibv_cmd_post_recv" = old::private,
        "ibv_cmd_post_send" = old::private,
        "ibv_cmd_post_srq_recv" = old::private,
        "ibv_cmd_query_context" = old::private,
        "ibv_cmd_query_device_any" = old::private,
        "ibv_cmd_query_mr" = old::private,
        "ibv_cmd_query_port" = old::private,
        "ibv_cmd_query_qp" = old::private,
        "ibv_cmd_query_srq" = old::private,
        "ibv_cmd_read_counters" = old::private,
        "ibv_cmd_reg_dm_mr" = old::private,
        "ibv_cmd_reg_dmabuf_mr" = old::private,
        "ibv_cmd_reg_mr" = old::private,
        "ibv_cmd_req_notify_cq" = old::private,
        "ibv_cmd_rereg_mr" = old::private,
        "ibv_cmd_resize_cq" = old::private,
        "ibv_read_ibdev_sysfs_file" = old::private,
        "verbs_init_cq" = old::private,
        "verbs_open_device" = old::private,
        "verbs_set_ops" = old::private,
        "verbs_uninit_context" = old::private,
    }
    "RDMACM_1.0" {
        "rdma_create_event_channel" = identifiers::create_event_channel,
        "rdma_destroy_event_channel" = identifiers::destroy_event_channel,
        "rdma_create_id" = identifiers::create_id,
        "rdma_destroy_id" = identifiers::destroy_id,
        "rdma_bind_addr" = identifiers::bind_addr,
        "rdma_resolve_addr" = identifiers::resolve_addr,
        "rdma_resolve_route" = identifiers::resolve_route,
        "rdma_migrate_id" = identifiers::migrate_id,
        "rdma_set_option" = identifiers::set_option,
        "rdma_get_devices" = identifiers::get_devices,
        "rdma_free_devices" = identifiers::free_devices,
        "rdma_destroy_ep" = identifiers::destroy_ep,
        "rdma_create_qp" = pairs::create_qp,
        "rdma_create_qp_ex" = pairs::create_qp_ex,
        "rdma_destroy_qp" = pairs::destroy_qp,
        "rdma_connect" = connecting::connect,
        "rdma_listen" = connecting::listen,
        "rdma_get_request" = connecting::get_request,
        "rdma_accept" = connecting::accept,
        "rdma_reject" = connecting::reject,
        "rdma_notify" = connecting::notify,
        "rdma_disconnect" = connecting::disconnect,
        "rdma_create_ep" = connecting::create_ep,
        "rdma_get_cm_event" = delivery::get_cm_event,
        "rdma_ack_cm_event" = delivery::ack_cm_event,
        "rdma_event_str" = names::connection_event_str,
        "rdma_get_src_port" = cm::get_src_port,
        "rdma_get_dst_port" = cm::get_dst_port,
        "rdma_getaddrinfo" = cm::getaddrinfo,
        "rdma_freeaddrinfo" = cm::freeaddrinfo,
        "rdma_join_multicast" = refused::multicast,
        "rdma_leave_multicast" = refused::multicast,
        "rdma_create_srq" = refused::shared_queue,
        "rdma_create_srq_ex" = refused::shared_queue,
        "rdma_destroy_srq" = refused::shared_queue,
        "rsocket" = refused::sockets,
        "rbind" = refused::sockets,
        "rlisten" = refused::sockets,
        "raccept" = refused::sockets,
        "rconnect" = refused::sockets,
        "rshutdown" = refused::sockets,
        "rclose" = refused::sockets,
        "rrecv" = refused::sockets,
        "rrecvfrom" = refused::sockets,
        "rrecvmsg" = refused::sockets,
        "rsend" = refused::sockets,
        "rsendto" = refused::sockets,
        "rsendmsg" = refused::sockets,
        "rread" = refused::sockets,
        "rreadv" = refused::sockets,
        "rwrite" = refused::sockets,
        "rwritev" = refused::sockets,
        "rpoll" = refused::sockets,
        "rselect" = refused::sockets,
        "rgetpeername" = refused::sockets,
        "rgetsockname" = refused::sockets,
        "rsetsockopt" = refused::sockets,
        "rgetsockopt" = refused::sockets,
        "rfcntl" = refused::sockets,
        "riomap" = refused::sockets,
        "riounmap" = refused::sockets,
        "riowrite" = refused::sockets,
    }
    "RDMACM_1.1" {
        "rdma_join_multicast_ex" = refused::multicast,
    }
    "RDMACM_1.2" {
        "rdma_establish" = connecting::establish,
        "rdma_init_qp_attr" = pairs::init_qp_attr,
    }
    "RDMACM_1.3" {
        "rdma_get_remote_ece" = refused::options,
        "rdma_set_local_ece" = refused::options,
        "rdma_reject_ece" = connecting::reject_ece,
    }
}

// A flag that rdma-core's drivers read.
global_asm!(
    ".pushsection .bss.loco_nic,\"aw\",%nobits",
    ".globl loco_nic_allow_disassociate",
    ".type loco_nic_allow_disassociate,%object",
    "loco_nic_allow_disassociate: .zero 1",
    ".size loco_nic_allow_disassociate, 1",
    ".symver loco_nic_allow_disassociate,verbs_allow_disassociate_destroy@@IBVERBS_PRIVATE_34",
    ".popsection",
);
