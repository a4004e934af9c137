"""Programs that serve requests for a part of their data and then are idle: what stays resident, and what that
costs.

Each run: start, fill, work, idle, work. Resident is the private anonymous memory of the whole tree, including
memfold's own, sampled all the time; lowest is the minimum in the second half of the idle time. Throughput is
the mean of both periods of work.
"""

import contextlib
import json
import random
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import memory
import report
from idling import servers

MODES = {
    "plain": None,
    "auto": ["--limit", "auto"],
    "proactive": ["--proactive=10"],
}
# The figures in the README of smash, peak to lowest resident and throughput, on another machine with other
# loads.
SMASH = {"memcached": (0.88, 1.05), "sqlite in memory": (0.73, 0.91), "redis, documents": (0.58, 0.75), "redis, default values": (0.58, 0.75)}
WORK, IDLE = 10, 35


def section(memfold, results, options):
    """Interleaves the modes, in a different order each time."""
    work, idle = (4, 15) if options.quick else (WORK, IDLE)
    rows = []
    for kind in servers.ALL:
        if options.programs and not any(word in kind.name for word in options.programs):
            continue
        for repeat in range(options.repeats):
            modes = list(MODES)
            random.Random(repeat).shuffle(modes)
            for mode in modes:
                with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place:
                    server = kind(place, options.quick)
                    if server.missing():
                        report.progress(f"{kind.name}: left out, there is no {server.missing()} (Debian: {' '.join(kind.packages)})")
                        break
                    row = one(memfold, MODES[mode], server, Path(place), work, idle)
                rows.append({"program": kind.name, "mode": mode, "repeat": repeat, **row})
                report.progress(f"{kind.name}, {mode}: {row['peak'] >> 20} MiB -> {row['lowest'] >> 20} MiB, "
                                f"{row['before']:.0f} and {row['after']:.0f} a second")
    results.add("idle", rows, work_seconds=work, idle_seconds=idle)
    print(f"Idle: medians of {options.repeats}; {work} s of work on a twentieth of the data, {idle} s idle, {work} s of work again")
    report.table(["program", "mode", "peak MiB", "lowest MiB", "saved", "throughput", "before", "after", "stalled", "smash saved", "its throughput"],
                 list(lines(rows)))


def lines(rows):
    for program in dict.fromkeys(row["program"] for row in rows):
        of = {mode: [row for row in rows if row["program"] == program and row["mode"] == mode] for mode in MODES}
        plain = {row["repeat"]: row for row in of["plain"]}
        for mode, own in of.items():
            if not own:
                continue

            def share(*keys):
                """Median over the repeats of this mode's throughput divided by the plain one's."""
                return statistics.median(sum(row[key] for key in keys) / sum(plain[row["repeat"]][key] for key in keys) for row in own)

            smash = SMASH.get(program, (None, None)) if mode != "plain" else (None, None)
            peak, lowest = report.median(own, "peak"), report.median(own, "lowest")
            yield [program, mode, peak / memory.MIB, lowest / memory.MIB, f"{lowest / report.median(of['plain'], 'peak') - 1:+.0%}",
                   share("before", "after"), share("before"), share("after"),
                   "-" if mode == "plain" else f"{statistics.median(row['stalled'] for row in own):.1%}",
                   "-" if smash[0] is None else f"-{smash[0]:.0%}", smash[1]]


def one(memfold, options, server, place, work, idle):
    stats = place / "stats.json"
    prefix = [] if options is None else [memfold, "run", "--quiet", *options, "--stats", str(stats), "--"]
    samples = []
    with running(server, place, prefix, samples) as (server, process):
        before = server.work(process, work)
        begin = time.monotonic()
        time.sleep(idle)
        end = time.monotonic()
        after = server.work(process, work)
    lowest = min(bytes for at, bytes in samples if (begin + end) / 2 <= at <= end)
    row = {"peak": max(bytes for _, bytes in samples), "lowest": lowest, "before": before, "after": after}
    if options is not None:
        told = json.loads(stats.read_text())
        row.update(stalled=told["stalled_seconds"] / told["wall_seconds"], stats=told)
    return row


@contextlib.contextmanager
def running(server, place, prefix=(), samples=None):
    """The filled server and its process; its resident memory is added to `samples`."""
    server.prepare()
    piped = subprocess.PIPE if getattr(server, "piped", False) else subprocess.DEVNULL
    with open(place / "log", "wb") as log:
        process = subprocess.Popen([*prefix, *server.command()], stdin=piped, stdout=piped, stderr=log)
    done = threading.Event()

    def sample():
        while not done.wait(0.2):
            samples.append((time.monotonic(), resident(process.pid)))

    watcher = threading.Thread(target=sample)
    if samples is not None:
        watcher.start()
    try:
        server.fill(process)
        yield server, process
    finally:
        done.set()
        if samples is not None:
            watcher.join()
        server.end(process)


def resident(root):
    """Private anonymous memory of a tree, bytes."""
    total = 0
    for pid in memory.descendants(root):
        try:
            text = memory.read_text(f"/proc/{pid}/smaps_rollup")
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return total
