#!/usr/bin/env bash
# Builds loco (the first time takes a minute or two; after `cargo build` nothing is left to build) and runs its
# demonstration: three node processes that meet, wait at a barrier, broadcast through a ring buffer and read each other's
# state. Installs Rust where there is none. Arguments go to `loco demo` (try --nodes 5).
set -euo pipefail
cd "$(dirname "$0")"

. ci/install-rust
exec cargo run --quiet --package loco-rdma-cli -- demo "$@"
