# Prints n lines of several fields, unsorted: input for sort and the pipeline.
# usage: awk -v n=LINES -v w=WORDS -f lines.awk     WORDS words at the end of each line
BEGIN {
    split("amber basin cedar delta ember fjord grove harbor island juniper kettle lantern", word, " ")
    x = 1234567
    for (i = 0; i < n; i++) {
        x = (x * 16807) % 2147483647
        y = (x * 48271) % 2147483647
        text = ""
        for (k = 0; k < w; k++) {
            z = (x * (k + 3) + y) % 2147483647
            text = text " " word[1 + z % 12] (z % 3 ? "" : z % 10007)
        }
        printf "%s.%s%d\t%010d\t%s %s\t%d%s\n", word[1 + x % 12], word[1 + y % 12], y % 5000, x, word[1 + int(x / 64) % 12], word[1 + int(y / 512) % 12], i, text
    }
}
