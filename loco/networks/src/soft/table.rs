//! The table of functions of every software device.

use loco_verbs::ffi::Api;

use super::{channel, cm, verbs};

/// Returns the table of functions.
pub(super) fn api() -> &'static Api {
    static API: Api = Api {
        data_in_order: Some(verbs::data_in_order),
        device_name: verbs::device_name,
        query_device: verbs::query_device,
        alloc_pd: verbs::alloc_pd,
        dealloc_pd: verbs::dealloc_pd,
        reg_mr: verbs::reg_mr,
        dereg_mr: verbs::dereg_mr,
        create_comp_channel: verbs::create_comp_channel,
        destroy_comp_channel: channel::destroy,
        get_cq_event: channel::get_event,
        ack_cq_events: channel::ack_events,
        create_cq: verbs::create_cq,
        resize_cq: verbs::resize_cq,
        destroy_cq: verbs::destroy_cq,
        create_qp: verbs::create_qp,
        modify_qp: verbs::modify_qp,
        destroy_qp: verbs::destroy_qp,
        create_event_channel: cm::create_event_channel,
        destroy_event_channel: cm::destroy_event_channel,
        create_id: cm::create_id,
        destroy_id: cm::destroy_id,
        bind_addr: cm::bind_addr,
        listen: cm::listen,
        src_port: cm::src_port,
        resolve_addr: cm::resolve_addr,
        resolve_route: cm::resolve_route,
        set_option: cm::set_option,
        cm_create_qp: cm::create_qp,
        cm_destroy_qp: cm::destroy_qp,
        connect: cm::connect,
        accept: cm::accept,
        reject: cm::reject,
        disconnect: cm::disconnect,
        get_cm_event: cm::get_cm_event,
        ack_cm_event: cm::ack_cm_event,
    };
    &API
}
