#!/bin/sh
# The torture program under memfold with a tier of each kind, one after the
# other: nbdkit, redis-server, and three of them as a cluster. (The file is
# among the limits of torture.sh.)
#
# usage: torture-spill.sh MEMFOLD TORTURE SECONDS     SECONDS in all
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

redis() { # PORT OPTIONS..
    port=$1
    shift
    mkdir "$dir/$port"
    redis-server --port "$port" --dir "$dir/$port" --bind 127.0.0.1 --save '' --appendonly no --loglevel warning "$@" >/dev/null &
    servers="$servers $!"
    until [ "$(redis-cli -p "$port" PING 2>/dev/null)" = PONG ]; do sleep 0.1; done
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

tortured() { # TARGET
    SPILL_TO=$1 "$(dirname "$0")/torture.sh" "$torture_memfold" "$torture_program" "$seconds" spill
}
torture_memfold=$1 torture_program=$2

nbdkit --foreground --unix "$dir/nbd.sock" memory 1G &
servers="$servers $!"
until [ -S "$dir/nbd.sock" ]; do sleep 0.1; done
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
until redis-cli -p "$port" CLUSTER INFO | grep -q cluster_state:ok; do sleep 0.1; done
tortured "redis://127.0.0.1:$port"
