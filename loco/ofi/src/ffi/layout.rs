//! Compares every structure and constant of [`types`](super::types) with the real headers (libfabric-dev). Without them,
//! the test says *skipped*, or fails where `LOCO_REQUIRE_OFI_HEADERS` is set, as CI does.

use super::types::{constants, layouts};

#[test]
fn structures_are_those_of_the_headers() {
    let dir = tempfile::tempdir().unwrap();
    loco_conformance::layout::Bindings {
        headers: &[
            "rdma/fabric.h",
            "rdma/fi_domain.h",
            "rdma/fi_endpoint.h",
            "rdma/fi_cm.h",
            "rdma/fi_rma.h",
            "rdma/fi_atomic.h",
            "rdma/fi_errno.h",
        ],
        need: "OFI_HEADERS",
        structures: layouts(),
        constants: constants(),
        same_offset: &[],
    }
    .check(dir.path());
}
