"""A table built before a fork and shared with four workers; each changes a part, reads all and adds data.

usage: python_workers.py ROWS
"""

import hashlib
import multiprocessing
import random
import sys

WORKERS = 4
table = []


def work(number):
    """Rewrites a part of the inherited table (which copies those pages), reads all of it and builds an index."""
    rng = random.Random(number)
    for row in range(number, len(table), WORKERS):
        key, text, values = table[row]
        table[row] = (key, text.upper(), [value + number for value in values])
    index = {}
    for key, text, values in table:
        index.setdefault(key % 5003, []).append((text, sum(values)))
    own = [f"{number}:{rng.getrandbits(80):020x}" for _ in range(len(table) // 2)]
    digest = hashlib.sha256()
    for bucket in sorted(index, key=lambda bucket: bucket * 2_654_435_761 % 5003):
        digest.update(repr(index[bucket]).encode())
    own.sort()
    for text in own:
        digest.update(text.encode())
    return digest.hexdigest()


def main():
    rng = random.Random(3)
    for key in range(int(sys.argv[1])):
        table.append((key * 7, f"{rng.getrandbits(480):0120x} of {key}", [rng.randrange(1000) for _ in range(4)]))
    # The parent keeps reading the table while the workers run.
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        results = pool.map_async(work, range(WORKERS), chunksize=1)
        digest = hashlib.sha256()
        for key, text, values in reversed(table):
            digest.update(f"{key}{text}{values}".encode())
        for number, result in enumerate(results.get()):
            print(number, result)
    print("parent", digest.hexdigest())


if __name__ == "__main__":
    main()
