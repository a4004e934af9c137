#!/bin/sh
# Provides what a make target needs. As root on a system with apt, it installs missing Debian packages and prints
# one line that names them; elsewhere it names the missing packages and how to get them.
#
# usage: setup.sh build            a Rust toolchain (precondition), cc, make, python3
#        setup.sh capi            a C++ compiler, binutils and pkg-config; optionally valgrind
#        setup.sh probes          binutils; optionally bpftrace and gdb
#        setup.sh ncdu            ncdu, against which memfold du is tested
#        setup.sh packages NAME..  these Debian packages, all optional: a missing one is not a failure
set -eu

may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }
# Waits for another installation that runs at the same time, such as an unattended upgrade.
apt_get() { apt-get -o DPkg::Lock::Timeout=600 "$@"; }

install_packages() {
    echo "setup: installing $*"
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    if apt_get install -qq -y --no-install-recommends "$@" >"$log" 2>&1 ||
        { apt_get update -qq && apt_get install -qq -y --no-install-recommends "$@"; } >"$log" 2>&1; then
        rm -f "$log"
    else
        tail -n 5 "$log" >&2
        rm -f "$log"
        return 1
    fi
}

case ${1:-} in
build)
    if ! command -v cargo >/dev/null 2>&1; then
        echo "setup: no Rust toolchain: memfold needs cargo and rustc 1.89 or later on the PATH (rustup, or your system's package)" >&2
        exit 1
    fi
    version=$(rustc --version | cut -d ' ' -f 2 | cut -d . -f 2)
    if [ "$version" -lt 89 ]; then
        echo "setup: $(rustc --version) is too old: memfold needs 1.89 or later (rustup update)" >&2
        exit 1
    fi
    packages=""
    command -v cc >/dev/null 2>&1 || packages="$packages gcc libc6-dev"
    command -v make >/dev/null 2>&1 || packages="$packages make"
    command -v python3 >/dev/null 2>&1 || packages="$packages python3"
    [ -z "$packages" ] && exit 0
    if may_install; then
        # shellcheck disable=SC2086 # a list of names
        install_packages $packages
    else
        echo "setup: missing:$packages; as root: apt-get install$packages" >&2
        exit 1
    fi
    ;;
capi)
    packages=""
    command -v c++ >/dev/null 2>&1 || packages="$packages g++"
    command -v objcopy >/dev/null 2>&1 || packages="$packages binutils"
    command -v pkg-config >/dev/null 2>&1 || packages="$packages pkg-config"
    if [ -n "$packages" ]; then
        if may_install; then
            # shellcheck disable=SC2086 # a list of names
            install_packages $packages
        else
            echo "setup: missing:$packages; as root: apt-get install$packages" >&2
            exit 1
        fi
    fi
    command -v valgrind >/dev/null 2>&1 || "$0" packages valgrind
    ;;
probes)
    if ! command -v readelf >/dev/null 2>&1; then
        if may_install; then
            install_packages binutils
        else
            echo "setup: missing: binutils; as root: apt-get install binutils" >&2
            exit 1
        fi
    fi
    packages=""
    command -v bpftrace >/dev/null 2>&1 || packages="$packages bpftrace"
    command -v gdb >/dev/null 2>&1 || packages="$packages gdb"
    # shellcheck disable=SC2086 # a list of names
    "$0" packages $packages
    ;;
ncdu)
    command -v ncdu >/dev/null 2>&1 && exit 0
    if may_install; then
        install_packages ncdu
    else
        echo "setup: missing: ncdu; as root: apt-get install ncdu" >&2
        exit 1
    fi
    ;;
packages)
    shift
    [ $# = 0 ] && exit 0
    if may_install; then
        install_packages "$@" || echo "setup: could not install $*; the tests that need them are skipped" >&2
    else
        echo "setup: for more tests, as root: apt-get install $*"
    fi
    ;;
*)
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
