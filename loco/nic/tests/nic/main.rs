//! Programs that nobody here wrote, and programs with a mistake, run on the library as users run them.
//!
//! Programs of Debian's packages (ibverbs-utils, libfabric-bin, perftest, rdmacm-utils) and a C compiler with rdma-core's headers
//! (libibverbs-dev, librdmacm-dev) are needed. What is missing makes a test say *skipped*, or fail where `LOCO_REQUIRE_RDMA_PROGRAMS` or
//! `LOCO_REQUIRE_RDMA_HEADERS` is set, as `test.sh` does.

#![allow(clippy::unwrap_used)] // Helpers of tests, too.

mod debian;
mod faults;
mod hosts;
mod killed;
mod mistakes;
mod others;
mod perftest;
mod support;
