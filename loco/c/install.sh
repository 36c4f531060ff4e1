#!/usr/bin/env bash
# Installs the C library of LOCO below a prefix: header, shared and static library, pkg-config file.
#
#   install.sh PREFIX                    builds in release mode, then installs
#   install.sh --prebuilt DIR PREFIX     installs libloco_c.so and libloco_c.a from DIR
#
# Installs include/loco.h and, in lib: libloco.so with its versioned names, libloco.a, pkgconfig/loco.pc.
# LIBDIR is the folder for libraries below PREFIX (default lib). With DESTDIR, files go below it, and are made for PREFIX.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }

prebuilt=
if [ "${1-}" = --prebuilt ]; then
    [ $# = 3 ] || usage
    prebuilt=$2
    shift 2
fi
[ $# = 1 ] && [ -n "$1" ] && [ "${1#-}" = "$1" ] || usage
case $1 in
/*) prefix=$1 ;;
*) prefix=$PWD/$1 ;;
esac

if [ -z "$prebuilt" ]; then
    manifest=$here/../../Cargo.toml
    cargo build --release --manifest-path "$manifest" --package loco-c
    prebuilt=$(cargo metadata --manifest-path "$manifest" --format-version 1 --no-deps |
        sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release
fi

version=$(sed -n 's/^#define LOCO_VERSION "\(.*\)"/\1/p' "$here/include/loco.h")
libdir=$prefix/${LIBDIR:-lib}
to=${DESTDIR-}
install -d "$to$prefix/include" "$to$libdir/pkgconfig"
install -m 644 "$here/include/loco.h" "$to$prefix/include/loco.h"
install -m 644 "$prebuilt/libloco_c.a" "$to$libdir/libloco.a"
install -m 755 "$prebuilt/libloco_c.so" "$to$libdir/libloco.so.$version"
# Debugging information and LLVM's bitcode are most of what Cargo leaves in them. Symbols stay.
if command -v strip >/dev/null; then
    strip --strip-debug "$to$libdir/libloco.so.$version"
    strip --strip-debug -R .llvmbc -R .llvmcmd "$to$libdir/libloco.a"
fi
ln -sf "libloco.so.$version" "$to$libdir/libloco.so.0"
ln -sf libloco.so.0 "$to$libdir/libloco.so"
sed -e "s|@prefix@|$prefix|" -e "s|@libdir@|$libdir|" -e "s|@version@|$version|" "$here/loco.pc.in" \
    >"$to$libdir/pkgconfig/loco.pc"
echo "installed $to$libdir/libloco.so.$version and $to$prefix/include/loco.h"
