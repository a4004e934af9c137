"""Programs that hold data and serve requests for some of it: how each is started, filled and queried.

`work` returns answers per second. Requests go to a part of the data, as with most caches. `default` is what
redis-benchmark does if it gets only a range of keys.
"""

import json
import random
import shutil
import socket
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORDS = "amber basin cedar delta ember fjord grove harbor island juniper kettle lantern".split()


def documents(count):
    """Distinct values, as an application would cache them."""
    rng = random.Random(7)
    for number in range(count):
        yield json.dumps({"id": number, "session": f"{rng.getrandbits(96):024x}", "user": f"{rng.choice(WORDS)}{rng.randrange(100000)}",
                          "visits": rng.randrange(1000), "score": rng.random(), "tags": rng.choices(WORDS, k=5),
                          "cart": [{"item": rng.randrange(50000), "count": rng.randrange(1, 9), "price": rng.randrange(99999) / 100}
                                   for _ in range(rng.randrange(4))]}).encode()


class Server:
    """The common part of all servers."""

    packages = ()

    def __init__(self, directory, quick):
        self.directory, self.size = Path(directory), self.quick if quick else self.full

    def missing(self):
        return ", ".join(need for need in self.needs if not shutil.which(need))

    def prepare(self):
        """Makes what must exist before the start."""

    def fill(self, process):
        """Fills it with data."""

    def end(self, process):
        process.terminate()
        process.wait()


def connect(path, process):
    deadline = time.monotonic() + 60
    while True:
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(str(path))
            return link
        except OSError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.02)


class Redis(Server):
    name, needs, packages = "redis, documents", ("redis-server", "redis-benchmark"), ("redis-server", "redis-tools")
    quick, full = 150_000, 700_000

    def command(self):
        self.path = self.directory / "redis.sock"
        return ["redis-server", "--port", "0", "--unixsocket", str(self.path), "--save", "", "--appendonly", "no", "--dir", str(self.directory)]

    def fill(self, process):
        link = connect(self.path, process)
        out, answers = bytearray(), 0
        for number, value in enumerate(documents(self.size)):
            key = b"key:%012d" % number
            out += b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(value), value)
            if len(out) > 1 << 18 or number == self.size - 1:
                link.sendall(out)
                out = bytearray()
                while answers < (number + 1) * 5:
                    answers += len(link.recv(1 << 16))
        link.close()

    def benchmark(self, *words):
        command = ["redis-benchmark", "-s", str(self.path), "--csv", *map(str, words)]
        line = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1]
        return float(line.split(",")[1].strip('"'))

    def work(self, process, seconds):
        return self.benchmark("-r", self.size // 20, "-n", int(seconds * 60_000), "get", "key:__rand_int__")


class RedisDefault(Redis):
    """Up to 1.5 million keys with redis-benchmark's default values, with requests for all of them."""

    name = "redis, default values"
    quick, full = 300_000, 1_500_000

    def fill(self, process):
        connect(self.path, process).close()
        self.benchmark("-r", self.size, "-n", self.size * 3, "-P", 16, "-t", "set")

    def work(self, process, seconds):
        return self.benchmark("-r", self.size, "-n", int(seconds * 60_000), "-t", "get")


class Memcached(Server):
    name, needs, packages = "memcached", ("memcached", "cc"), ("memcached", "gcc")
    quick, full = 150_000, 700_000

    def prepare(self):
        self.gets = self.directory / "gets"
        subprocess.run(["cc", "-O2", "-o", str(self.gets), str(HERE / "gets.c")], check=True)

    def command(self):
        self.path = self.directory / "memcached.sock"
        return ["memcached", "-s", str(self.path), "-m", "1024", "-t", "2", "-u", "root"]

    def fill(self, process):
        link, out = connect(self.path, process), bytearray()
        for number, value in enumerate(documents(self.size)):
            out += b"set key:%012d 0 0 %d noreply\r\n%s\r\n" % (number, len(value), value)
            if len(out) > 1 << 18:
                link.sendall(out)
                out = bytearray()
        link.sendall(out + b"version\r\n")
        link.recv(100)
        link.close()

    def work(self, process, seconds):
        command = [str(self.gets), str(self.path), "0", str(self.size // 20), str(seconds)]
        return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


class Asked(Server):
    """A program that works when a line on its input tells it to."""

    piped = True

    def fill(self, process):
        assert process.stdout.readline().strip() == b"ready"

    def work(self, process, seconds):
        process.stdin.write(b"work %d\n" % seconds)
        process.stdin.flush()
        return float(process.stdout.readline())

    def end(self, process):
        process.stdin.close()
        process.wait()


class Sqlite(Asked):
    name, needs, packages = "sqlite in memory", ("python3",), ("python3",)
    quick, full = 250_000, 1_000_000

    def command(self):
        return ["/usr/bin/python3", str(HERE / "table.py"), str(self.size), str(self.size // 20)]


class Java(Asked):
    name, needs, packages = "java", ("java", "javac"), ("default-jdk-headless",)
    quick, full = 250_000, 800_000

    def prepare(self):
        subprocess.run(["javac", "-d", str(self.directory), str(HERE / "Cache.java")], check=True)

    def command(self):
        return ["java", "-Xmx1g", "-cp", str(self.directory), "Cache", str(self.size), str(self.size // 20)]


ALL = (Redis, RedisDefault, Memcached, Sqlite, Java)
