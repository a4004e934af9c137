# Prints n lines of several fields, in no order: input for sort and the pipeline.
# usage: awk -v n=LINES -f lines.awk
BEGIN {
    split("amber basin cedar delta ember fjord grove harbor island juniper kettle lantern", word, " ")
    x = 1234567
    for (i = 0; i < n; i++) {
        x = (x * 16807) % 2147483647
        y = (x * 48271) % 2147483647
        printf "%s.%s%d\t%010d\t%s %s\t%d\n", word[1 + x % 12], word[1 + y % 12], y % 5000, x, word[1 + int(x / 64) % 12], word[1 + int(y / 512) % 12], i
    }
}
