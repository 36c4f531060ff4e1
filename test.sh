#!/usr/bin/env bash
# Runs every test of the repository, installing what it needs where it may.
#
#   ./test.sh            everything: format, lints, tests, the verbs suite in a virtual machine, and jobs between two of them
#   ./test.sh --no-vm    the same without the virtual machines
#   ./test.sh HALL...    only the tests of a hall: loco, mowgli, checkers, apps or tools
#
# The build needs cargo and a linker, which are installed where they are missing, and nothing else. The verbs suite boots a kernel with Soft-RoCE in QEMU; its packages,
# libfabric, and mpirun and sshd, under which our programs are tested too, are installed with apt when this runs as root on Debian, else they
# must be there (ci/install-vm-packages lists them). As root, some memory is also reserved as huge pages for one test.
set -euo pipefail
cd "$(dirname "$0")"

vm=1
halls=()
for argument in "$@"; do
    case $argument in
    --no-vm) vm=0 ;;
    loco | mowgli | checkers | apps | tools) halls+=("$argument") ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done

. ci/install-rust

# Nothing is built twice, and what is built here is not debugged: less to compile, write and link. RUSTFLAGS stay as they
# are, as other flags would build all dependencies again.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0} CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-0}

if [ ${#halls[@]} -gt 0 ]; then
    packages=()
    for hall in "${halls[@]}"; do
        # The first name in a manifest is the package's.
        while read -r name; do packages+=(--package "$name"); done < <(awk -F'"' 'FNR == 1 { named = 0 } /^name = / && !named++ { print $2 }' "$hall"/*/Cargo.toml)
    done
    exec cargo test "${packages[@]}"
fi

# Says what comes, and how many seconds after the start.
step() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

if [ "$vm" = 1 ]; then
    step packages
    ci/install-vm-packages
    # With the headers here, the check of our bindings against them must run; and the tests under mpirun, and through sshd.
    export LOCO_REQUIRE_RDMA_HEADERS=1 LOCO_REQUIRE_MPI=1 LOCO_REQUIRE_SSH=1
    # And the programs of others that use verbs, on our NIC.
    export LOCO_REQUIRE_RDMA_PROGRAMS=1
    # And the fabric over libfabric.
    export LOCO_REQUIRE_OFI=1 LOCO_REQUIRE_OFI_HEADERS=1
    # And the C interface, with what its users compile with.
    export LOCO_REQUIRE_C=1 LOCO_REQUIRE_CXX=1 LOCO_REQUIRE_PKG_CONFIG=1
    # And the page of `mowgli serve`, in a browser.
    ci/install-browser
    export LOCO_REQUIRE_BROWSER=1
fi
# What this host provides is tested; a test that is skipped for want of it fails.
echo '#include <stdio.h>' | cc -E -x c - >/dev/null 2>&1 && export LOCO_REQUIRE_C=1
command -v script >/dev/null && export LOCO_REQUIRE_SCRIPT=1
command -v make >/dev/null && export LOCO_REQUIRE_MAKE=1
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && export LOCO_REQUIRE_PYTHON=1
[ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6 && export LOCO_REQUIRE_IPV6=1
getent hosts "$(cat /proc/sys/kernel/hostname)" >/dev/null && export LOCO_REQUIRE_HOSTNAME=1
setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null && export LOCO_REQUIRE_OTHER_USER=1
unshare --user true 2>/dev/null && export LOCO_REQUIRE_USER_NAMESPACE=1
unshare --user --map-root-user --mount true 2>/dev/null && export LOCO_REQUIRE_MOUNT_NAMESPACE=1
[ -n "${LOCO_REQUIRE_IPV6:-}" ] && command -v ip >/dev/null && unshare --net true 2>/dev/null && export LOCO_REQUIRE_NETWORK_NAMESPACE=1
# Newer tools know lints and layouts that this code has not met: there, what they say is shown and nothing more.
strict=1
rustc --version | grep -q '^rustc 1\.95\.' || strict=0

step format
cargo fmt --all --check || [ "$strict" = 0 ]
step lints
if [ "$strict" = 1 ]; then
    cargo clippy --workspace --all-targets -- -D warnings
else
    cargo clippy --workspace --all-targets || true
fi
step tests
cargo test --workspace

step "applications as they are, under the model"
# With the feature, the fabric that is chosen at run time has one more arm: a build of its own, as the programs' have none.
[ "$strict" = 0 ] || cargo clippy --package loco-any --package loco-sim --features loco-sim/any --lib --test application -- -D warnings
cargo test --package loco-sim --features any --test application
cargo test --package loco-sim --features any --doc

step "a sample of the mutations of the objects"
cargo run --quiet --package loco-mutants -- --share 100 --time 180 --name fence-dropped --name former-poster-not-awaited \
    --name acknowledge-before-copy --name never-freed --name torn-is-whole --name full-before-value

step "the ladders get to the code that runs only where operations are done at once"
cargo run --quiet --package loco-mutants -- --planted --share 100 --time 180

# The workspace's tests ran on what pages the host has, usually small ones; here are the others.
pages=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
if [ -w "$pages" ]; then
    step "tests on huge pages"
    before=$(cat "$pages")
    trap 'echo "$before" >"$pages"' EXIT
    echo $((before + 64)) >"$pages"
    if [ "$(cat "$pages")" -ge $((before + 64)) ]; then
        LOCO_REQUIRE_HUGE_PAGES=1 cargo test --workspace --test huge_pages
    else
        echo "skipped: the host has no memory in pieces of 2 MiB to spare"
    fi
    echo "$before" >"$pages"
    trap - EXIT
fi

step documentation
[ "$strict" = 0 ] || export RUSTDOCFLAGS="-D warnings"
cargo doc --workspace --no-deps --quiet

if [ "$vm" = 1 ]; then
    step "the wheel for Python"
    if [ -n "${LOCO_REQUIRE_PYTHON:-}" ]; then
        ci/python-wheel
    else
        echo "skipped: the host has no python3 of version 3.11 or newer"
    fi
    step "verbs suite on a kernel RDMA stack"
    ci/verbs-suite
    step "jobs between virtual machines: a sample"
    LOCO_MACHINES_SUITE=short ci/machines-suite
fi
step done
