"""Databases on a file system on a device."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from .tools import Missing, Wrong, forget, need, need_root, run


def sqlite(place):
    """A database: a thousand transactions, deletions, VACUUM, its own integrity check; killed in the middle."""
    need("sqlite3", "losetup", "mkfs.ext4")
    need_root("to mount")
    file, device = place.file("--size", "1G", "--cold", "0.3")
    loop = place.loop(file)
    run("mkfs.ext4", "-q", loop)
    mounted = place.mount(loop)
    script = """
import random, sqlite3, sys
r = random.Random(7)
c = sqlite3.connect(sys.argv[1])
c.execute('create table t(id integer primary key, name text, value real, note blob)')
c.execute('create index i on t(name)')
print('begun', flush=True)
for n in range(int(sys.argv[2])):
    with c:
        c.executemany('insert into t(name, value, note) values(?,?,?)', ((f'name {r.randrange(9999)}', r.random(), r.randbytes(r.randrange(400))) for _ in range(100)))
        c.execute('delete from t where id % 7 = ? and id > ?', (n % 7, n * 90))
        c.execute('update t set value = value + 1 where id % 11 = ?', (n % 11,))
"""
    database = mounted / "a.db"
    run(sys.executable, "-c", script, database, 200)
    victim = subprocess.Popen([sys.executable, "-c", script, str(mounted / "b.db"), "100000"], stdout=subprocess.PIPE)
    victim.stdout.readline()
    time.sleep(1)
    victim.kill()
    victim.wait()
    forget()
    for name in ("a.db", "b.db"):
        for statement in ("pragma integrity_check", "vacuum", "pragma integrity_check"):
            said = run("sqlite3", mounted / name, statement).strip()
            if said not in ("ok", ""):
                raise Wrong(f"{name}: {statement}: {said}")
        forget()
    plain = place.path / "plain.db"
    run(sys.executable, "-c", script, plain, 200)
    dumps = [run("sqlite3", path, ".dump") for path in (plain, database)]
    if dumps[0] != dumps[1]:
        raise Wrong("the database does not hold what a plain one does")
    place.unmount(mounted, loop)
    run("e2fsck", "-fn", loop)
    return f"ratio {place.status(device)['memory_ratio']}"


def postgres(place):
    """PostgreSQL: pgbench, a crash, pg_amcheck."""
    directories = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not directories:
        raise Missing("PostgreSQL (Debian: postgresql)")
    need_root("to mount")
    bins = directories[-1]
    file, device = place.file("--size", "2G", "--cold", "1")
    loop = place.loop(file)
    run("mkfs.ext4", "-q", loop)
    mounted = place.mount(loop)
    os.chmod(place.path, 0o755)
    shutil.chown(mounted, "postgres", "postgres")
    at = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
    place_of_data = mounted / "data"
    run(*at, bins / "initdb", "-D", place_of_data, "-k", "--no-instructions", cwd="/")
    start = [*at, bins / "pg_ctl", "-D", place_of_data, "-w", "-l", mounted / "log", "-o", f"-k {mounted} -c listen_addresses=", "start"]
    run(*start, cwd="/", capture_output=False, stdout=subprocess.DEVNULL)
    client = {"cwd": "/", "env": {**os.environ, "PGHOST": str(mounted), "PGUSER": "postgres"}}
    try:
        run(bins / "pgbench", "-i", "-s", "20", "-q", "postgres", **client)
        seconds = 120 if place.options.soak else 10
        run(bins / "pgbench", "-c", "4", "-T", seconds, "postgres", **client)
        run(*at, bins / "pg_ctl", "-D", place_of_data, "-m", "immediate", "stop", cwd="/")
        forget()
        run(*start, cwd="/", capture_output=False, stdout=subprocess.DEVNULL)
        run(bins / "psql", "-c", "create extension amcheck", "postgres", **client)
        run(bins / "pg_amcheck", "--heapallindexed", "postgres", **client)
        sums = run(bins / "psql", "-At", "-c", "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)", "postgres", **client)
        if sums.strip() != "t":
            raise Wrong("the balances are not what the history says")
    finally:
        run(*at, bins / "pg_ctl", "-D", place_of_data, "-m", "fast", "stop", cwd="/")
    run(*at, bins / "pg_checksums", "-D", place_of_data, cwd="/")
    status = place.status(device)
    place.unmount(mounted, loop)
    run("e2fsck", "-fn", loop)
    return f"ratio {status['memory_ratio']}"
