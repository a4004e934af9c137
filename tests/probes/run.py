#!/usr/bin/env python3
"""Checks the probes of the built binaries, statically and with tracers.

1. The notes of each binary, as readelf shows them, agree with the table in docs/probes.md: names, numbers of
   arguments, one location and one semaphore each, a nop at the location.
2. bpftrace counts the probes that fire while a program performs known numbers of operations, which it prints.
3. Each script in tools/ runs and shows what it should, including those for `memfold run`.
4. gdb, a tracer that needs only ptrace from the kernel, counts the same.

Checks that need a tracer that is missing or not allowed are reported and skipped. The notes are always
checked.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOP = {"X86-64": b"\x90", "AArch64": b"\x1f\x20\x03\xd5"}
# Probes that must always exist.
WANTED = {
    "program": ("list_", "slab_", "heap_", "store_", "compress", "decompress", "test_list_", "test_heap_"),
    "library": ("list_", "slab_", "heap_", "store_", "compress", "decompress", "test_list_", "test_heap_"),
    "preload": ("runtime_", "store_", "compress", "decompress"),
}
# The program lengthens no node, and its store has too few holes.
MAY_LACK = {"program": {"heap_resize", "test_heap_resize"}, "library": set(), "preload": set()}
# Messages of bpftrace and the kernel if tracefs is not mounted, which no script needs.
CHATTER = ("RLIMIT_MEMLOCK", "uprobe_events", "failed to detach")
ADDS, ROUNDS, LIES = 3000, 2, 4


class Failure(Exception):
    """A failed check."""


def holds(what, otherwise):
    if not what:
        raise Failure(otherwise)


def output(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def documented():
    """The probes in docs/probes.md with their arguments."""
    text = (ROOT / "docs/probes.md").read_text().split("## The probes")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", text, re.M)
    return {name: arguments.split(", ") for name, arguments in rows}


def in_source():
    """The same from the list in the source."""
    text = (ROOT / "crates/memfold/src/probe/mod.rs").read_text().split("\nprobes! {")[1]
    rows = re.findall(r"^    (\w+)\(([\w, ]*)\)(?: in \w+ at \d)?;", text, re.M)
    return {name: arguments.split(", ") for name, arguments in rows}


def sections(binary):
    """Address, offset and bytes of each section."""
    rows = re.findall(r"\] (\S+) +\w+ +([0-9a-f]{16}) ([0-9a-f]+) ([0-9a-f]+) ", output("readelf", "-SW", binary))
    return {name: tuple(int(number, 16) for number in numbers) for name, *numbers in rows}


def notes(binary):
    """Location, semaphore and arguments of each of memfold's probes."""
    found = re.findall(
        r"Provider: memfold\s+Name: (\w+)\s+Location: (0x\w+), Base: (0x\w+), Semaphore: (0x\w+)\s+Arguments: ?(.*)",
        output("readelf", "-nW", binary),
    )
    return [(name, int(place, 16), int(base, 16), int(semaphore, 16), where) for name, place, base, semaphore, where in found]


def check_notes(kind, binary, table):
    where, found = sections(binary), notes(binary)
    names = [note[0] for note in found]
    holds(len(names) == len(set(names)), f"{binary}: a probe is there twice")
    holds(len({note[3] for note in found}) == len(found), f"{binary}: two probes have one semaphore")
    wanted = {name for name in table if name.startswith(WANTED[kind])} - MAY_LACK[kind]
    holds(wanted <= set(names), f"{binary}: no notes of {sorted(wanted - set(names))}")
    header = output("readelf", "-h", binary)
    nop = next(code for machine, code in NOP.items() if machine in header)
    text, semaphores = where[".text"], where[".probes"]
    with open(binary, "rb") as file:
        for name, place, base, semaphore, arguments in found:
            holds(name in table, f"{binary}: {name} is not in docs/probes.md")
            count = len(arguments.split())
            holds(count == len(table[name]), f"{binary}: {name} has {count} arguments: {arguments}")
            holds(all(one.startswith("8@") for one in arguments.split()), f"{binary}: {name}: {arguments}")
            holds(text[0] <= place < text[0] + text[2], f"{binary}: {name} is not in the code")
            holds(base == where[".stapsdt.base"][0], f"{binary}: {name} has the base {base:#x}")
            holds(semaphores[0] <= semaphore < semaphores[0] + semaphores[2], f"{binary}: the semaphore of {name}")
            file.seek(place - text[0] + text[1])
            holds(file.read(len(nop)) == nop, f"{binary}: {name} is at no nop")
    print(f"probes: {binary.name}: {len(found)} notes, as in docs/probes.md")
    return set(names)


def begin_tracing(arguments, log):
    """Starts bpftrace with a script that prints a word at its start, and waits until it listens."""
    with open(log, "w") as file:
        tracer = subprocess.Popen(["bpftrace", *map(str, arguments)], stdout=file, stderr=subprocess.STDOUT)
    for _ in range(900):
        if re.search("^(Tracing|Testing)", log.read_text(), re.M):
            return tracer
        if tracer.poll() is not None:
            break
        time.sleep(0.1)
    end_tracing(tracer)
    raise Failure(f"bpftrace {arguments} did not begin: {log.read_text()}")


def catches(process, which):
    """Whether a process has a handler for a signal."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return False
    return bool(int(re.search(r"^SigCgt:\s+(\w+)", status, re.M)[1], 16) >> (which - 1) & 1)


def end_tracing(tracer):
    """Ends bpftrace, which then prints its counts. It may miss a signal that arrives just before it waits, so
    it is told again. It prints without a handler, so that one more signal would kill it there: on a busy
    machine that takes longer than a second."""
    for _ in range(24):
        if catches(tracer, signal.SIGINT):
            tracer.send_signal(signal.SIGINT)
        try:
            tracer.wait(5)
            return
        except subprocess.TimeoutExpired:
            pass
    tracer.kill()
    raise Failure("bpftrace did not end")


def until_quiet(log):
    """Waits until bpftrace has shown the last events, which it does not read after it is told to end."""
    size, since = -1, time.monotonic()
    until = since + 10
    while time.monotonic() < min(since + 0.5, until):
        if size != log.stat().st_size:
            size, since = log.stat().st_size, time.monotonic()
        time.sleep(0.05)


def bpftrace(arguments, command):
    """Runs a program under bpftrace; returns the output of both."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        tracer = begin_tracing(arguments, log)
        try:
            said = output(*map(str, command), timeout=300)
            until_quiet(log)
        finally:
            end_tracing(tracer)
        lines = log.read_text().splitlines()
    lines = [line for line in lines if not any(word in line for word in CHATTER)]
    errors = [line for line in lines if "ERROR" in line or "Lost" in line]
    holds(tracer.returncode == 0 and not errors, f"bpftrace {arguments}: {tracer.returncode}: {errors}")
    return said + "\n".join(lines)


def no_bpftrace(program):
    """The reason why bpftrace cannot be used here, or None."""
    if not shutil.which("bpftrace"):
        return "bpftrace is missing (apt-get install bpftrace)"
    one = f"usdt:{program}:memfold:list_clear {{ }} BEGIN {{ exit(); }}"
    try:
        done = subprocess.run(["bpftrace", "-e", one], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "bpftrace does not come to an end"
    return None if done.returncode == 0 else f"bpftrace is not allowed, or the kernel lacks something: {done.stderr.strip()[-200:]}"


def said(text):
    """The numbers that the program printed."""
    return {name: int(count) for name, count in re.findall(r"^(\w+(?::\d)?) (\d+)$", text, re.M)}


def count_with_bpftrace(program, table):
    counted = [name for name in table if not name.startswith(("runtime_", "test_")) and name not in MAY_LACK["program"]]
    script = 'BEGIN { printf("Tracing\\n"); }\n'
    script += "".join(f"usdt:{program}:memfold:{name} {{ @n[\"{name}\"] = count(); }}\n" for name in counted)
    script += f"usdt:{program}:memfold:list_add /arg2 == 1/ {{ @n[\"list_add:1\"] = count(); }}\n"
    script += f"usdt:{program}:memfold:heap_free /arg1 == 2/ {{ @n[\"heap_free:2\"] = count(); }}\n"
    script += f"usdt:{program}:memfold:compress {{ @bytes = sum(arg1); @payload = sum(arg2); }}\n"
    script += f"usdt:{program}:memfold:slab_alloc {{ @elements = max(arg2); }}\n"
    text = bpftrace(["-e", script], [program, ADDS, ROUNDS])
    counts = {name: int(count) for name, count in re.findall(r"^@n\[([\w:]+)\]: (\d+)$", text, re.M)}
    expected = {name: count for name, count in said(text).items() if not name.startswith("test_")}
    holds(expected["list_add"] == ADDS * ROUNDS + 3 and expected["heap_fault"] > 1000, f"the program said {expected}")
    wrong = {name: (counts.get(name), count) for name, count in expected.items() if counts.get(name, 0) != count}
    holds(not wrong, f"counted, and said by the program: {wrong}")
    holds(counts["slab_alloc"] == counts["slab_free"], "leaves were made and not freed")
    holds(counts["heap_alloc"] == counts["heap_free"] - 1, "nodes were made and not freed")
    holds(counts["compress"] <= counts["heap_compress"] <= counts["store_put"], f"compressions: {counts}")
    # Arrays of ascending numbers need no codec.
    holds(counts["decompress"] <= counts["heap_decompress"] == counts["heap_fault"], f"decompressions: {counts}")
    holds(counts["heap_block_make"] == counts["heap_block_vacate"], f"blocks: {counts}")
    numbers = dict(re.findall(r"^@(bytes|payload|elements): (\d+)$", text, re.M))
    holds(0 < int(numbers["payload"]) < int(numbers["bytes"]) and int(numbers["elements"]) > 100, f"{numbers}")
    silent = [name for name in counted if name not in counts and not name.startswith("store_")]
    holds(not silent, f"never fired: {silent}")
    print(f"probes: bpftrace counted what the program said: {len(expected)} numbers, {counts['list_add']} additions, {counts['heap_fault']} faults")


def sums(text, columns):
    """The sums of columns of the table that a script shows, whose lines begin with the time."""
    rows = [line.split()[1:] for line in text.splitlines() if re.match(r"\d\d:\d\d:\d\d +\d", line)]
    return {name: sum(int(row[column]) for row in rows) for name, column in columns.items()}


def run_scripts(program, preload):
    shows = {
        "list-latency.bt": [r"^@add_ns\[0\]:", r"^@add_ns\[1\]:", r"^@find_ns\[1\]:", r"^@remove_ns\[1\]:", r"^@within\[faults\]: \d+"],
        "rates.bt": [],
        "paging.bt": [r"^@fault_us:", r"^@kept_percent:"],
        "reaps.bt": [r"^ +\d+ reap +[0-9a-f]+ +\d+", r"^ +\d+ pack ", r"^@splits: \d+"],
        "codecs.bt": [r"^@compress_us\[\d+\]:", r"^@decompress_us\[\d+\]:"],
        "verdicts.bt": [rf"^@verdicts\[.*test_list_add, 1\]: {LIES}$", r"test_list_add of [0-9a-f]+: element \d is out of order"],
    }
    columns = {
        "rates.bt": {"list_add": 0, "list_remove": 1, "list_find": 2, "heap_fault": 7, "heap_peek": 8, "heap_evict": 9},
        "paging.bt": {"heap_fault": 0, "heap_peek": 1, "heap_evict": 2},
    }
    for name, patterns in shows.items():
        lies = LIES if name == "verdicts.bt" else 0
        text = bpftrace([ROOT / "tools" / name, program], [program, ADDS, ROUNDS, lies])
        expected = said(text)
        for pattern in patterns:
            holds(re.search(pattern, text, re.M), f"tools/{name} did not show {pattern}:\n{text[-2000:]}")
        if name == "verdicts.bt":
            verdicts = {(probe, verdict): int(count) for probe, verdict, count in re.findall(r":(test_\w+), (\d)\]: (\d+)$", text, re.M)}
            holds(verdicts[("test_list_add", "0")] == expected["list_add"] - LIES, f"{verdicts}")
            holds(verdicts[("test_list_remove", "0")] == expected["list_remove"], f"{verdicts}")
            bad = {probe for probe, verdict in verdicts if verdict == "1"}
            holds(bad == {"test_list_add"}, f"wrong ones: {verdicts}")
            holds(verdicts[("test_heap_alloc", "0")] > 10 and verdicts[("test_heap_free", "0")] > 10, f"{verdicts}")
        # The figures of all seconds, and of the rest at the end, add up.
        counts = sums(text, columns.get(name, {}))
        wrong = {probe: (count, expected[probe]) for probe, count in counts.items() if count != expected[probe]}
        holds(not wrong, f"tools/{name}: shown, and said by the program: {wrong}:\n{text[-2000:]}")
    if preload:
        # The library has neither lists nor heaps, so the missing probes are skipped.
        holds("Tracing" in bpftrace([ROOT / "tools/rates.bt", preload], ["true"]), "tools/rates.bt with a library")
    print(f"probes: {len(shows)} scripts of tools/ show what they should, the verdicts of lists that are wrong included")


def memfold_run(memfold, preload):
    """A program under `memfold run`, whose statistics say how many faults there were."""
    program = "a = [str(i) * 3 for i in range(600000)]; print(sum(map(len, a)))"
    counts = "".join(
        f"usdt:{preload}:memfold:{probe} {{ @{name} = {what}; }}\n"
        for probe, name, what in (
            ("runtime_restore", "faults", "count()"),
            ("runtime_restore", "pages", "sum(arg1)"),
            ("runtime_rescue", "rescued", "sum(arg1)"),
            ("compress", "compressed", "count()"),
        )
    )
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        script, log, log_of_tool, stats = (directory / name for name in ("count.bt", "log", "tool", "stats"))
        script.write_text(f'BEGIN {{ printf("Tracing\\n"); }}\n{counts}')
        tracers = []
        try:
            for which, to in (([script], log), ([ROOT / "tools/paging-run.bt", preload], log_of_tool)):
                tracers.append(begin_tracing(which, to))
            command = [memfold, "run", "--limit", "30M", "--stats", stats, "--", sys.executable, "-c", program]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
        finally:
            for tracer in tracers:
                end_tracing(tracer)
        if ran.returncode == 125:
            print(f"probes: SKIPPED memfold run: {ran.stderr.strip()}")
            return
        holds(ran.returncode == 0 and ran.stdout.strip() == str(sum(len(str(i) * 3) for i in range(600000))), f"{ran}")
        stats = json.loads(stats.read_text())
        found = {name: int(count) for name, count in re.findall(r"^@(\w+): (\d+)$", log.read_text(), re.M)}
        expected = {
            "faults": stats["pages_faulted"],
            "pages": stats["pages_faulted"] + stats["pages_prefetched"],
            "rescued": stats["pages_rescued"],
        }
        holds(stats["pages_faulted"] > 500, f"too few faults to tell: {stats}")
        wrong = {name: (found.get(name, 0), count) for name, count in expected.items() if found.get(name, 0) != count}
        holds(not wrong, f"memfold run: counted, and said by its statistics: {wrong}")
        holds(found["compressed"] >= stats["pages_compressed"] - stats["pages_same_filled"], f"{found} {stats}")
        text = log_of_tool.read_text()
        shown = sums(text, {"pages": 1, "rescued": 2})
        holds(re.search(r"^@fault_us:", text, re.M) and shown.items() <= expected.items(), f"paging-run.bt: {text}, but {expected}")
    print(f"probes: bpftrace counted what memfold run said: {found['faults']} faults, {found['pages']} pages brought back")


def memfold_spill(memfold, preload):
    """Random bytes, half of which are spilled to a file: the counts must equal the statistics."""
    program = "import os; a = [os.urandom(1 << 20) for i in range(80)]; print(sum(x[k] >= 0 for x in a for k in range(0, 1 << 20, 4096)))"
    counts = "".join(
        f"usdt:{preload}:memfold:{probe} {{ @{name} = {what}; }}\n"
        for probe, name, what in (
            ("runtime_spill_begin", "sent", "count()"),
            ("runtime_spill", "answers", "count()"),
            ("runtime_spill", "spilled", "sum(arg1)"),
            ("runtime_fetch", "fetched", "sum(arg1)"),
            ("runtime_fetch_begin", "asked", "count()"),
            ("runtime_fetch_begin", "direct", "sum(arg3)"),
        )
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        directory = Path(directory)
        script, log, log_of_tool, stats = (directory / name for name in ("count.bt", "log", "tool", "stats"))
        script.write_text(f'BEGIN {{ printf("Tracing\\n"); }}\n{counts}')
        tracers = []
        try:
            for which, to in (([script], log), ([ROOT / "tools/spill.bt", preload], log_of_tool)):
                tracers.append(begin_tracing(which, to))
            command = [memfold, "run", "--limit", "48M", "--spill", directory, "--stats", stats, "--", sys.executable, "-c", program]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
        finally:
            for tracer in tracers:
                end_tracing(tracer)
        if ran.returncode == 125:
            print(f"probes: SKIPPED memfold run --spill: {ran.stderr.strip()}")
            return
        holds(ran.returncode == 0 and ran.stdout.strip() == "20480", f"{ran}")
        stats = json.loads(stats.read_text())
        found = {name: int(count) for name, count in re.findall(r"^@(\w+): (\d+)$", log.read_text(), re.M)}
        expected = {
            "spilled": stats["pages_spilled"],
            "fetched": stats["pages_fetched"],
            "direct": stats["spill"]["direct_reads"],
        }
        holds(stats["pages_spilled"] > 5000 and stats["pages_fetched"] > 100, f"too few to tell: {stats}")
        wrong = {name: (found.get(name, 0), count) for name, count in expected.items() if found.get(name, 0) != count}
        # When the program ends, a batch may be on its way.
        holds(not wrong and found["answers"] <= found["sent"] <= found["answers"] + 2, f"counted, and said by the statistics: {wrong}, {found}")
        text = log_of_tool.read_text()
        shown = sums(text, {"spilled": 3, "fetched": 5})
        holds(re.search(r"^@fetch_us:", text, re.M) and shown.items() <= expected.items(), f"spill.bt: {text}, but {expected}")
    print(f"probes: bpftrace counted what memfold run --spill said: {found['spilled']} pages spilled, {found['fetched']} brought back")


def count_with_gdb(program):
    if not shutil.which("gdb"):
        print("probes: SKIPPED gdb: it is missing (apt-get install gdb)")
        return
    probes = ("list_add", "list_remove", "list_find", "heap_free", "test_list_remove")
    commands = ["set pagination off", "set debuginfod enabled off"]
    for number, probe in enumerate(probes, 1):
        commands += [f"break -probe-stap memfold:{probe}", f"ignore {number} 1000000"]
    # The third argument of the test probe is the address of its text.
    commands += ["break -probe-stap memfold:test_list_add if $_probe_arg1 == 1", "commands", "silent", 'printf "verdict %lu: %s\\n", $_probe_arg1, (char *)$_probe_arg2']
    commands += ["continue", "end", "run", "info breakpoints"]
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "commands"
        file.write_text("\n".join(commands) + "\n")
        done = subprocess.run(
            ["gdb", "-nx", "-batch", "-x", file, "--args", program, "100", "1", str(LIES)], capture_output=True, text=True, timeout=120
        )
    text = done.stdout
    if re.search(r"ptrace: Operation not permitted|Could not trace the inferior|Cannot create process", text + done.stderr):
        print("probes: SKIPPED gdb: it may not trace")
        return
    expected = said(text)
    blocks = re.split(r"^\d+ +breakpoint", text, flags=re.M)[1:]
    hits = [int(found[1]) if (found := re.search(r"already hit (\d+) time", block)) else 0 for block in blocks]
    holds(expected and len(hits) >= len(probes), f"gdb: {text[-2000:]} {done.stderr[-500:]}")
    counted = dict(zip(probes, hits))
    wanted = {"list_add": expected["list_add"], "list_remove": expected["list_remove"], "list_find": expected["list_find"]}
    wanted["test_list_remove"] = expected["list_remove"]
    wrong = {name: (counted[name], count) for name, count in wanted.items() if counted[name] != count}
    holds(not wrong, f"gdb: hit, and said by the program: {wrong}")
    verdicts = re.findall(r"^verdict 1: element \d is out of order$", text, re.M)
    holds(len(verdicts) == LIES, f"gdb saw {len(verdicts)} wrong verdicts of {LIES}: {text[-2000:]}")
    print(f"probes: gdb counted what the program said: {counted['list_add']} additions, and {LIES} verdicts of lists that are wrong")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True, help="examples/probes of the memfold crate, built")
    parser.add_argument("--library", type=Path, help="libmemfold.so")
    parser.add_argument("--preload", type=Path, help="libmemfold_preload.so")
    parser.add_argument("--memfold", type=Path, help="the command")
    arguments = parser.parse_args()
    table = documented()
    program = arguments.program.resolve()
    try:
        holds(table and table == in_source(), "docs/probes.md has other probes than crates/memfold/src/probe/mod.rs")
        if not shutil.which("readelf"):
            raise Failure("readelf is missing (apt-get install binutils)")
        binaries = {"program": program, "library": arguments.library, "preload": arguments.preload}
        present = {kind: check_notes(kind, binary.resolve(), table) for kind, binary in binaries.items() if binary}
        if len(present) == 3:
            nowhere = set(table) - set().union(*present.values())
            holds(not nowhere, f"in no binary: {sorted(nowhere)}")
        reason = no_bpftrace(program)
        if reason:
            print(f"probes: SKIPPED bpftrace, and the scripts in tools/: {reason}")
        else:
            count_with_bpftrace(program, table)
            run_scripts(program, arguments.preload and arguments.preload.resolve())
            if arguments.memfold and arguments.preload:
                memfold_run(arguments.memfold.resolve(), arguments.preload.resolve())
                memfold_spill(arguments.memfold.resolve(), arguments.preload.resolve())
        count_with_gdb(program)
    except Failure as failure:
        sys.exit(f"probes: FAILED: {failure}")


if __name__ == "__main__":
    main()
