#!/usr/bin/env bash
# Runs every test of the repository, installing what it needs where it may.
#
#   ./test.sh            everything: format, lints, tests, and the verbs suite in a virtual machine
#   ./test.sh --no-vm    the same without the virtual machine
#
# The build needs cargo and nothing else. The verbs suite boots a kernel with Soft-RoCE in QEMU; its packages are
# installed with apt when this runs as root on Debian, else they must be there (ci/install-vm-packages lists them).
set -euo pipefail
cd "$(dirname "$0")"

vm=1
for argument in "$@"; do
    case $argument in
    --no-vm) vm=0 ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done

command -v cargo >/dev/null || { echo "test.sh: cargo is missing; install Rust 1.88 or newer (https://rustup.rs)" >&2; exit 1; }

step() { printf '\n== %s\n' "$*"; }

if [ "$vm" = 1 ]; then
    step "packages of the virtual machine"
    ci/install-vm-packages
    # With the headers here, the check of our bindings against them must run.
    export LOCO_REQUIRE_RDMA_HEADERS=1
fi

step format
cargo fmt --all --check
step lints
cargo clippy --workspace --all-targets -- -D warnings
step tests
cargo test --workspace
step documentation
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

if [ "$vm" = 1 ]; then
    step "verbs suite on a kernel RDMA stack"
    ci/verbs-suite
fi
