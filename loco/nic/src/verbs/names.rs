//! Names of numbers, in the words of rdma-core.

use std::ffi::{CStr, c_char, c_int};

/// Names of statuses of completions.
const STATUS: &[&CStr] = &[
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

/// Names of asynchronous events.
const EVENTS: &[&CStr] = &[
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"WQ fatal",
];

/// Names of types of nodes.
const NODES: &[&CStr] = &[
    c"unknown",
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

/// Names of states of ports.
const PORTS: &[&CStr] = &[
    c"no state change (NOP)",
    c"down",
    c"init",
    c"armed",
    c"active",
    c"active defer",
];

/// Names of connection events.
const CONNECTIONS: &[&CStr] = &[
    c"RDMA_CM_EVENT_ADDR_RESOLVED",
    c"RDMA_CM_EVENT_ADDR_ERROR",
    c"RDMA_CM_EVENT_ROUTE_RESOLVED",
    c"RDMA_CM_EVENT_ROUTE_ERROR",
    c"RDMA_CM_EVENT_CONNECT_REQUEST",
    c"RDMA_CM_EVENT_CONNECT_RESPONSE",
    c"RDMA_CM_EVENT_CONNECT_ERROR",
    c"RDMA_CM_EVENT_UNREACHABLE",
    c"RDMA_CM_EVENT_REJECTED",
    c"RDMA_CM_EVENT_ESTABLISHED",
    c"RDMA_CM_EVENT_DISCONNECTED",
    c"RDMA_CM_EVENT_DEVICE_REMOVAL",
    c"RDMA_CM_EVENT_MULTICAST_JOIN",
    c"RDMA_CM_EVENT_MULTICAST_ERROR",
    c"RDMA_CM_EVENT_ADDR_CHANGE",
    c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
];

/// Rates: the number in address vectors, megabits per second, and the multiple of 2.5 gigabits.
const RATES: &[(c_int, c_int, c_int)] = &[
    (2, 2500, 1),
    (5, 5000, 2),
    (3, 10_000, 4),
    (6, 20_000, 8),
    (4, 30_000, 12),
    (7, 40_000, 16),
    (8, 60_000, 24),
    (9, 80_000, 32),
    (10, 120_000, 48),
    (11, 14_062, -1),
    (12, 56_250, -1),
    (13, 112_500, -1),
    (14, 168_750, -1),
    (15, 25_781, -1),
    (16, 103_125, -1),
    (17, 206_250, -1),
    (18, 309_375, -1),
    (19, 28_125, 11),
    (20, 50_000, 20),
    (21, 400_000, 160),
    (22, 600_000, 240),
    (23, 800_000, 320),
    (24, 1_200_000, 480),
];

fn name(names: &[&'static CStr], number: c_int) -> *const c_char {
    let found = usize::try_from(number)
        .ok()
        .and_then(|number| names.get(number).copied());
    found.unwrap_or(c"unknown").as_ptr()
}

pub(crate) unsafe extern "C" fn wc_status_str(status: c_int) -> *const c_char {
    name(STATUS, status)
}

pub(crate) unsafe extern "C" fn event_type_str(event: c_int) -> *const c_char {
    name(EVENTS, event)
}

pub(crate) unsafe extern "C" fn node_type_str(node: c_int) -> *const c_char {
    name(NODES, node)
}

pub(crate) unsafe extern "C" fn port_state_str(state: c_int) -> *const c_char {
    name(PORTS, state)
}

pub(crate) unsafe extern "C" fn connection_event_str(event: c_int) -> *const c_char {
    name(CONNECTIONS, event)
}

fn rate(
    is: impl Fn(&(c_int, c_int, c_int)) -> bool,
    of: impl Fn(&(c_int, c_int, c_int)) -> c_int,
) -> Option<c_int> {
    RATES.iter().find(|rate| is(rate)).map(of)
}

pub(crate) unsafe extern "C" fn rate_to_mult(number: c_int) -> c_int {
    rate(|rate| rate.0 == number, |rate| rate.2).unwrap_or(-1)
}

pub(crate) unsafe extern "C" fn mult_to_rate(mult: c_int) -> c_int {
    rate(|rate| rate.2 == mult, |rate| rate.0).unwrap_or(0)
}

pub(crate) unsafe extern "C" fn rate_to_mbps(number: c_int) -> c_int {
    rate(|rate| rate.0 == number, |rate| rate.1).unwrap_or(-1)
}

pub(crate) unsafe extern "C" fn mbps_to_rate(mbps: c_int) -> c_int {
    rate(|rate| rate.1 == mbps, |rate| rate.0).unwrap_or(0)
}
