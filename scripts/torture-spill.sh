#!/bin/sh
# Runs the torture program under memfold with a tier of each kind, one after the other: nbdkit, redis-server,
# and a cluster of three redis-servers. (torture.sh also tests the file tier.)
#
# usage: torture-spill.sh MEMFOLD TORTURE SECONDS     SECONDS in total
set -eu
seconds=$(($3 / 3))
dir=$(mktemp -d)
servers=""
end() {
    # shellcheck disable=SC2086 # a list of processes
    kill $servers 2>/dev/null || true
    wait
    rm -rf "$dir"
}
trap end EXIT
trap 'exit 1' INT TERM

wait_for() { # COMMAND..
    tries=100
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "torture-spill: never came: $*" >&2; exit 1; }
        sleep 0.1
    done
}
answers() { [ "$(redis-cli -p "$1" PING 2>/dev/null)" = PONG ]; }
is_cluster() { redis-cli -p "$1" CLUSTER INFO | grep -q cluster_state:ok; }

redis() { # PORT OPTIONS..
    port=$1
    shift
    mkdir "$dir/$port"
    redis-server --port "$port" --dir "$dir/$port" --bind 127.0.0.1 --save '' --appendonly no --loglevel warning "$@" >/dev/null &
    servers="$servers $!"
    wait_for answers "$port"
}

# A server of a cluster takes a second port, 10000 above the first.
free_port() {
    python3 -c '
import socket
port = 65535
while port > 55535:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
print(port)'
}

tortured() { # TARGET
    SPILL_TO=$1 "$(dirname "$0")/torture.sh" "$torture_memfold" "$torture_program" "$seconds" spill
}
torture_memfold=$1 torture_program=$2

nbdkit --foreground --unix "$dir/nbd.sock" memory 1G &
servers="$servers $!"
wait_for test -S "$dir/nbd.sock"
tortured "nbd+unix:///?socket=$dir/nbd.sock"

port=$(free_port)
redis "$port"
tortured "redis://127.0.0.1:$port"

nodes=""
for _ in 1 2 3; do
    port=$(free_port)
    redis "$port" --cluster-enabled yes
    nodes="$nodes 127.0.0.1:$port"
done
# shellcheck disable=SC2086 # a list of servers
redis-cli --cluster create $nodes --cluster-yes >/dev/null
wait_for is_cluster "$port"
tortured "redis://127.0.0.1:$port"
