"""An SQLite database in memory. Reads commands from standard input: `work SECONDS` looks up rows and prints
how many per second.

usage: table.py ROWS HOT     HOT rows are looked up
"""

import random
import sqlite3
import sys
import time

WORDS = "amber basin cedar delta ember fjord grove harbor island juniper kettle lantern".split()


def main():
    rows, hot = int(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(5)
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, note TEXT, grade REAL, stock INTEGER)")
    base.execute("CREATE INDEX item_name ON item(name)")
    made = ((number, f"{rng.choice(WORDS)}-{rng.randrange(rows)}", " ".join(rng.choices(WORDS, k=24)), rng.random(), rng.randrange(100))
            for number in range(rows))
    base.executemany("INSERT INTO item VALUES (?, ?, ?, ?, ?)", made)
    base.commit()
    print("ready", flush=True)
    for line in sys.stdin:
        begin, done = time.monotonic(), 0
        while time.monotonic() < begin + float(line.split()[1]):
            for _ in range(100):
                note, = base.execute("SELECT note FROM item WHERE id = ?", (rng.randrange(hot),)).fetchone()
                assert note
            done += 100
        print(round(done / (time.monotonic() - begin)), flush=True)


if __name__ == "__main__":
    main()
