//! C programs as a user makes them: the library is installed below a folder, programs are compiled against it with the host's
//! `cc`, and run as the nodes of a job.
//!
//! Needs `cc` and the headers of the C library. What is missing makes a test say *skipped*, or fail where `LOCO_REQUIRE_C`,
//! `LOCO_REQUIRE_CXX` or `LOCO_REQUIRE_PKG_CONFIG` is set, as `test.sh` does.

mod border;
mod examples;
mod installation;
mod project;
mod support;
