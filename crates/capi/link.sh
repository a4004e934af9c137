#!/bin/sh
# Makes the libraries of what cargo built. Both have the functions of the headers, and no other names: as cargo leaves it, the static library
# also has the names of the C libraries in it and of Rust's own, and a program that has one of them too would get either of both for both.
#
#   FROM.a ── ld -r ──> all.o ─┬─ objcopy, ar ──> libmemfold.a
#                              ├─ cc -shared ───> libmemfold.so                 named INTERFACE for the loader
#                              └─ cc -shared ───> test/libmemfold.so.INTERFACE  the same with one function more, which panics
#
# usage: link.sh FROM.a DIRECTORY INTERFACE
set -eu
[ $# = 3 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
from=$1 to=$2 interface=$3
[ "$to/libmemfold.so" -nt "$from" ] && [ "$to/libmemfold.so" -nt "$0" ] && exit 0
mkdir -p "$to/test"
work=$(mktemp -d "$to/link.XXXXXX")
trap 'rm -rf "$work"' EXIT
ld -r --whole-archive "$from" -o "$work/all.o"

# Bitcode is for who optimises across languages, and can't be that once objects were joined.
objcopy --wildcard --keep-global-symbol='memfold_*' --keep-global-symbol='compll_*' --strip-unneeded \
    --remove-section=.llvmbc --remove-section=.llvmcmd "$work/all.o" "$work/memfold.o"
(cd "$work" && ar rcs libmemfold.a memfold.o)

# usage: shared TO MORE...   MORE: names beside those of the headers
shared() {
    echo "{ global: memfold_*; compll_*; $2 local: *; };" >"$work/names"
    "${CC:-cc}" -shared -o "$1" "$work/all.o" -Wl,--version-script="$work/names" -Wl,-soname,"libmemfold.so.$interface" \
        -Wl,--gc-sections -Wl,-z,relro,-z,now -Wl,-z,defs -Wl,--as-needed -lpthread -ldl -lm
    strip --strip-unneeded "$1"
}
shared "$work/test.so" "capi_test_panic;"
shared "$work/libmemfold.so" ""
mv "$work/libmemfold.a" "$to/libmemfold.a"
mv "$work/test.so" "$to/test/libmemfold.so.$interface"
# Last: it is by this one that the next run knows that all is done.
mv "$work/libmemfold.so" "$to/libmemfold.so"
