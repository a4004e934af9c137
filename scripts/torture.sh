#!/bin/sh
# Runs the torture program under memfold with several limits, one after the other. Seeds are new every time,
# and the program prints them, so that a failure can be reproduced with --seed.
#
# Data are spilled to /var/tmp, or to the target in SPILL_TO.
#
# usage: torture.sh MEMFOLD TORTURE SECONDS [quick|spill]     SECONDS in total
#
# `spill` runs only the cases that spill. `quick` also runs some of the cases one by one, so that a failure in
# one of them is visible separately.
set -u
memfold=$1 torture=$2 seconds=$3
passed=0 failed=0

# Limit, memory of the torture program, threads, options of memfold, and after a bar those of the program
rows="40M 160M 3 --spill ${SPILL_TO:-/var/tmp}
40M 160M 3 --spill ${SPILL_TO:-/var/tmp} | --only mlock,random,fuse,outside,growth,threads --random 60
1G 96M 3 --paranoid --spill ${SPILL_TO:-/var/tmp}"
if [ "${4:-}" != spill ]; then
    rows="96M 128M 4
64M 128M 2
56M 96M 6
128M 160M 3
96M 128M 4 --paranoid
1G 128M 3 --proactive=0.1 --stall=50%
80M 128M 4 | --random 70
64M 128M 3 | --only outside,rawfork,crowd,fork,random --random 40
$rows"
fi
if [ "${4:-}" = quick ]; then
    for case in malloc madvise random protect shared threads crowd io context signals spawn exec brk code filemap eintr fuse daemon,random; do
        rows="$rows
60M 100M 3 | --only $case"
    done
fi
each=$((seconds / $(echo "$rows" | wc -l)))
[ "$each" -ge 1 ] || each=1

while read -r limit size threads options; do
    echo "torture: limit $limit, memory $size, $threads threads${options:+, $options}, $each s"
    case $options in *"|"*) more=${options#*|} options=${options%%|*} ;; *) more= ;; esac
    # shellcheck disable=SC2086 # options are words
    if "$memfold" run --quiet --limit "$limit" $options -- \
        "$torture" --seconds "$each" --memory "$size" --threads "$threads" $more </dev/null; then
        passed=$((passed + 1))
    else
        echo "torture: FAILED with status $? (limit $limit)"
        failed=$((failed + 1))
    fi
done <<END
$rows
END
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
