#!/bin/sh
# Several big processes that feed each other: three sorts, an awk with a large table, uniq and join.
# usage: pipeline.sh FILE     (LC_ALL=C)
sort -S 1G --parallel=1 -t "$(printf '\t')" -k2,2n "$1" |
    awk -F '\t' '
        { seen[$1] = seen[$1] + $2 % 1000; text[NR] = $3 " " $1 }
        END {
            for (i = NR; i > 0; i--) print text[i]
            for (name in seen) print "total " name " " seen[name]
        }' |
    sort -S 1G --parallel=1 | uniq -c | sort -S 1G --parallel=1 -k1,1nr -k2 |
    awk '{ lines++; sum += $1 * length($0); if (lines <= 3) print } { hash = (hash * 31 + $1 * 7 + length($0)) % 2147483647 }
         END { printf "%d lines, %d, %d\n", lines, sum, hash }'
# A special exit status, to check that it is passed through.
exit 7
