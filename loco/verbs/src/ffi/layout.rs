//! Compares every structure of [`types`](super::types) with the real headers (libibverbs-dev,
//! librdmacm-dev). Without them, the test says *skipped*, or fails where `LOCO_REQUIRE_RDMA_HEADERS` is set, as CI does.

use loco_conformance::layout::Bindings;

use super::types::layouts;

#[test]
fn structures_are_those_of_the_headers() {
    let dir = tempfile::tempdir().unwrap();
    Bindings::of_verbs(layouts()).check(dir.path());
}
