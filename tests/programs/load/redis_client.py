"""Fills a redis server, lets redis-benchmark use it, reads every value back and compares.

usage: redis_client.py SOCKET KEYS [DUMP-DIRECTORY]

Prints its findings (nothing that depends on time) and ends the server. With a directory the server also saves
its data in a forked child while it keeps serving, and a second server reads the file back.
"""

import hashlib
import os
import random
import shutil
import socket
import subprocess
import sys
import time

WORDS = "amber basin cedar delta ember fjord grove harbor island juniper kettle lantern".split()
BATCH = 200
BENCHMARK_BYTES = 400


class Client:
    """Just enough of the redis protocol: pipelined commands, bulk answers."""

    def __init__(self, path):
        deadline = time.monotonic() + 60
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(path)
                self.file = self.socket.makefile("rb")
                if self.call("PING") == b"PONG":
                    return
            except (OSError, IndexError):
                pass
            if time.monotonic() > deadline:
                sys.exit("redis does not answer")
            time.sleep(0.02)

    def send(self, commands):
        out = bytearray()
        for command in commands:
            out += b"*%d\r\n" % len(command)
            for part in command:
                part = part if isinstance(part, bytes) else str(part).encode()
                out += b"$%d\r\n%s\r\n" % (len(part), part)
        self.socket.sendall(out)

    def answer(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return rest

    def call(self, *command):
        self.send([command])
        return self.answer()

    def many(self, commands):
        self.send(commands)
        return [self.answer() for _ in commands]


def value(number):
    """The value of a key, regenerated whenever it is needed: a few records, each with a random part."""
    token = hashlib.shake_128(b"%d" % number).hexdigest(120)
    records = []
    for part in range(4):
        mixed = int(token[part * 8:part * 8 + 8], 16)
        records.append(
            f'{{"id":{number},"name":"{WORDS[mixed % 12]} {WORDS[mixed // 12 % 12]}","city":"{WORDS[mixed // 144 % 12]}",'
            f'"mail":"{WORDS[mixed // 2000 % 12]}{mixed % 10007}@example.org","balance":{mixed % 1000000},'
            f'"token":"{token[part * 60:part * 60 + 60]}","state":"active","parent":{number // 7}}}')
    return ",".join(records).encode()


def batches(numbers):
    for start in range(0, len(numbers), BATCH):
        yield numbers[start:start + BATCH]


def read_back(client, numbers):
    """Reads every value in a random order and returns how many were right, and a digest of them."""
    right, digest = 0, 0
    order = list(numbers)
    random.Random(99).shuffle(order)
    for batch in batches(order):
        for number, got in zip(batch, client.many([("GET", f"doc:{number}") for number in batch])):
            right += got == value(number)
            digest ^= int.from_bytes(hashlib.sha256(b"%d " % number + (got or b"")).digest()[:16], "big")
    return right, digest


def benchmark(path):
    """Runs redis-benchmark with several clients, on keys that differ from those of this program."""
    return subprocess.Popen(["redis-benchmark", "-s", path, "-q", "-c", "8", "-P", "4", "-n", "20000", "-r", "20000",
                             "-d", str(BENCHMARK_BYTES), "-t", "set,get,incr,lpush,hset,spop,zadd"],
                            stdout=subprocess.DEVNULL, stderr=sys.stderr)


def check_benchmark_keys(client):
    """Counts the keys whose value is not the one that redis-benchmark SET, or is truncated."""
    cursor, wrong, seen, values = b"0", 0, 0, set()
    while True:
        cursor, keys = client.call("SCAN", cursor, "MATCH", "key:*", "COUNT", 1000)
        for got in client.many([("GET", key) for key in keys]) if keys else []:
            seen += 1
            wrong += len(got) != BENCHMARK_BYTES
            values.add(got)
        if cursor == b"0":
            return seen > 5000, wrong, len(values)


def main():
    path, count = sys.argv[1], int(sys.argv[2])
    saves = sys.argv[3] if len(sys.argv) > 3 else None
    client = Client(path)
    numbers = range(count)
    for batch in batches(numbers):
        client.many([("SET", f"doc:{number}", value(number)) for number in batch])
    load = benchmark(path)
    print("while busy: %d right, digest %032x" % read_back(client, numbers))
    if saves:
        client.call("BGSAVE")
        print("while saving: %d right, digest %032x" % read_back(client, numbers[:count // 2]))
    print("redis-benchmark ended with", load.wait())
    print("its keys: enough %s, %d wrong, %d different" % check_benchmark_keys(client))
    # Replace half of everything, so that freed memory is used again.
    for batch in batches(range(0, count, 2)):
        client.many([("DEL", f"doc:{number}") for number in batch])
        client.many([("SET", f"doc:{number}", value(number)) for number in batch])
    print("at the end: %d right, digest %032x" % read_back(client, numbers))
    if saves:
        while b"rdb_bgsave_in_progress:0" not in client.call("INFO", "persistence"):
            time.sleep(0.05)
        client.call("BGSAVE")
        while b"rdb_bgsave_in_progress:0" not in client.call("INFO", "persistence"):
            time.sleep(0.05)
        print("saved:", b"rdb_last_bgsave_status:ok" in client.call("INFO", "persistence"))
    client.send([("SHUTDOWN", "NOSAVE")])
    if saves:
        again = os.path.join(saves, "again.sock")
        server = subprocess.Popen([shutil.which("redis-server") or os.environ["REDIS_SERVER"], "--port", "0",
                                   "--unixsocket", again, "--save", "", "--dir", saves], stdout=sys.stderr)
        try:
            client = Client(again)
            while b"loading:0" not in client.call("INFO", "persistence"):
                time.sleep(0.05)
            print("from the file: %d right, digest %032x" % read_back(client, numbers))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
