//! Compares every structure of [`types`](super::types) with the real headers (libibverbs-dev,
//! librdmacm-dev). Without them, the test says *skipped*, or fails where `LOCO_REQUIRE_RDMA_HEADERS` is set, as CI does.

use super::types::layouts;

#[test]
fn structures_are_those_of_the_headers() {
    let dir = tempfile::tempdir().unwrap();
    loco_conformance::layout::Bindings {
        headers: &["infiniband/verbs.h", "rdma/rdma_cma.h"],
        need: "RDMA_HEADERS",
        structures: layouts(),
        constants: Vec::new(),
        same_offset: &[],
    }
    .check(dir.path());
}
