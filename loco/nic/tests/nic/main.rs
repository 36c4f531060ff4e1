//! Programs that nobody here wrote, and programs with a mistake, run on the library as users run them.
//!
//! Programs of Debian's packages (ibverbs-utils, libfabric-bin, libopenmpi-dev, openmpi-bin, perftest, rdmacm-utils, ucx-utils) and a C
//! compiler with rdma-core's headers (libibverbs-dev, librdmacm-dev) are needed. What is missing makes a test say *skipped*, or fail
//! where `LOCO_REQUIRE_RDMA_PROGRAMS` or `LOCO_REQUIRE_RDMA_HEADERS` is set, as `test.sh` does. Some need namespaces of mounts and of
//! networks (`LOCO_REQUIRE_MOUNT_NAMESPACE`, `LOCO_REQUIRE_NETWORK_NAMESPACE`).

#![allow(clippy::unwrap_used)] // Helpers of tests, too.

mod debian;
mod devices;
mod faults;
mod hosts;
mod interfaces;
mod killed;
mod mistakes;
mod others;
mod perftest;
mod support;
mod traces;
mod ucx;
