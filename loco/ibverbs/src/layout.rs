//! Compares every structure and constant with the real headers (libibverbs-dev, librdmacm-dev). Without them, the test says
//! *skipped*, or fails where `LOCO_REQUIRE_RDMA_HEADERS` is set, as CI does.

use loco_conformance::layout::Bindings;

use super::{constants::constants, structures::layouts};

#[test]
fn structures_are_those_of_the_headers() {
    let dir = tempfile::tempdir().unwrap();
    Bindings {
        constants: constants(),
        same_offset: &[
            (
                "struct ibv_send_wr",
                "wr.rdma.remote_addr",
                "wr.atomic.remote_addr",
            ),
            ("struct ibv_send_wr", "wr.rdma.rkey", "wr.atomic.compare_add"),
            ("struct ibv_send_wr", "wr.ud.ah", "wr.atomic.remote_addr"),
            ("struct ibv_send_wr", "wr.ud.remote_qpn", "wr.atomic.compare_add"),
        ],
        ..Bindings::of_verbs(layouts())
    }
    .check(dir.path());
}
