#!/usr/bin/env python3
"""Runs real programs in less memory and checks that nothing else changes.

For each program, a plain run is sampled and gives the peak of its private anonymous memory. A second run is
stopped near that peak, and its pages show how well its data compress (r). Short programs vary from run to run
because of their collectors and threads, so both are done three times: the highest peak and the median of r
count. Then `memfold run` gets the limit

    limit = peak x max(0.4, 0.12 + 1.05 / r)

The program's output, exit status and files must equal those of the plain run, byte for byte. The memory of
the whole tree, sampled from outside, must stay within the limit's tolerance, and the statistics must show
that pages were really evicted and restored.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import memory
import pages
from cases import CASES

MIB = memory.MIB
# With fewer than this, the run proves nothing.
LEAST_COMPRESSED, LEAST_FAULTED = 2000, 50
# A plain run of fewer seconds is repeated.
SHORT, REPEATS = 2.0, 3
PROOF_RATIO = 5.0


class Failure(Exception):
    """A check that failed."""


def digest_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def clean_environment(case):
    """The environment, the same for every run, so that nothing but memfold differs."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "JAVA_HOME") if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", "PYTHONHASHSEED": "1", "PYTHONDONTWRITEBYTECODE": "1", **case.environment}


class Attempt:
    """Runs one case several times in its own directories."""

    def __init__(self, case, size, place):
        self.case, self.size, self.place = case, size, place
        self.source = place / "input"
        self.source.mkdir()
        case.prepare(self.source, size)

    def run(self, name, prefix=(), runner=memory.run, **options):
        """Runs the case once with `runner`; the result has its output, its files and memfold's messages."""
        directory = self.place / name
        # Every run uses the same directory, since a program may write its path.
        work = self.place / "work"
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(self.source, work, symlinks=True)
        directory.mkdir()
        try:
            client = self.case.client(self.size, work) if self.case.client else None
            result = runner(
                [str(part) for part in (*prefix, *self.case.command(self.size))], work,
                stdout=directory / "stdout", stderr=directory / "stderr",
                client=client and [str(part) for part in client],
                env={**clean_environment(self.case), "REDIS_SERVER": str(work / "redis-server")}, **options)
            result.stdout = (directory / "stdout").read_bytes()
            lines = (directory / "stderr").read_bytes().splitlines(keepends=True)
            result.own_words = [line for line in lines if line.startswith(b"memfold: ")]
            result.stderr = b"".join(line for line in lines if not line.startswith(b"memfold: "))
            result.files = {file: digest_of(work / file) if (work / file).exists() else None for file in self.case.outputs}
            return result
        finally:
            shutil.rmtree(work)

    def measure_ratio(self, peak, zstd):
        """A second plain run, stopped near its peak."""
        catcher = pages.Catcher(peak * 0.7, lambda found: pages.ratio(found, zstd))
        self.run("stopped", on_sample=catcher.look, period=0.003)
        if catcher.caught is None:
            raise Failure("the second plain run never came near the peak of the first")
        return catcher.caught


def check(plain, folded, stats, limit, case):
    """Checks everything that must be true of a run under memfold."""
    if folded.status != plain.status:
        raise Failure(f"exit status {folded.status}, plainly {plain.status}: {tail(folded)}")
    if folded.stdout != plain.stdout:
        raise Failure(f"another output, {first_difference(plain.stdout, folded.stdout)}")
    if case.stderr_stable and folded.stderr != plain.stderr:
        raise Failure(f"another standard error, {first_difference(plain.stderr, folded.stderr)}")
    for name, digest in plain.files.items():
        if folded.files[name] != digest or digest is None:
            raise Failure(f"another {name}")
    compressed, faulted = stats["pages_compressed"], stats["pages_faulted"]
    if compressed < LEAST_COMPRESSED or faulted < LEAST_FAULTED:
        raise Failure(f"proves nothing: {compressed} pages compressed, {faulted} faulted")
    if stats["processes"] < case.processes:
        raise Failure(f"{stats['processes']} processes were managed, not {case.processes}")
    if stats["limit_bytes"] != limit or stats["exit_status"] != plain.status[0]:
        raise Failure("the statistics tell another limit or status")
    over, times = memory.excess(folded.samples, limit)
    if over:
        raise Failure(f"the limit's tolerance was exceeded by {over / MIB:.1f} MiB ({times} of {len(folded.samples)} samples)")


def first_difference(one, two):
    at = next((at for at, pair in enumerate(zip(one, two)) if pair[0] != pair[1]), min(len(one), len(two)))
    return f"from byte {at}: {two[at:at + 80]!r}, plainly {one[at:at + 80]!r}"


def tail(result):
    words = b" ".join(line.strip() for line in (result.stderr.splitlines() + result.own_words)[-3:])
    return words.decode(errors="replace") or "no message"


def run_case(case, size, memfold, zstd, options):
    """Performs all runs of a case; returns a row of figures, or raises Failure."""
    row = {"name": case.name, "size": size}
    with tempfile.TemporaryDirectory(prefix=f"memfold-{case.name}-", dir=options.tmp) as place:
        attempt = Attempt(case, size, Path(place))
        plain = attempt.run("plain")
        if plain.status[1] or plain.status[0] not in (0, 7):
            raise Failure(f"the plain run ended with {plain.status}: {tail(plain)}")
        repeats = REPEATS if plain.wall < SHORT else 1
        peak = max([plain.peak] + [attempt.run("plain-again").peak for _ in range(repeats - 1)])
        ratio, count, same = sorted(attempt.measure_ratio(peak, zstd) for _ in range(repeats))[repeats // 2]
        factor = max(0.4, 0.12 + 1.05 / ratio) if ratio else 1.0
        limit = int(peak * factor) // 4096 * 4096
        row.update(peak_bytes=peak, plain_wall=plain.wall, plain_cpu=plain.cpu, ratio=ratio, pages_sampled=count,
                   same_filled=same, limit_bytes=limit, proof=ratio <= PROOF_RATIO)
        print(f"{case.name:15} peak {peak / MIB:6.1f} MiB  r {ratio:4.2f} ({count} pages)  "
              f"limit {limit / MIB:6.1f} MiB ({factor:4.0%})  plain {plain.wall:5.2f} s", end="", flush=True)
        if options.plain:
            print()
            return row
        stats_file = Path(place) / "stats.json"
        folded = attempt.run("folded", (memfold, "run", "--limit", limit, "--stats", stats_file, "--"),
                             count_shared=True, period=0.01, timeout=options.timeout)
        row.update(wall=folded.wall, cpu=folded.cpu, outside_peak_bytes=folded.peak)
        if folded.timed_out:
            raise Failure(f"did not end within {options.timeout:.0f} s: {tail(folded)}")
        if not stats_file.exists():
            raise Failure(f"no statistics; status {folded.status}: {tail(folded)}")
        stats = json.loads(stats_file.read_text())
        row["stats"] = stats
        print(f"  memfold {folded.wall:5.2f} s, peak {folded.peak / MIB:6.1f} MiB", end="", flush=True)
        check(plain, folded, stats, limit, case)
        print("  ok" + ("" if row["proof"] else "  (no proof: r > 5)"))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these programs")
    parser.add_argument("--memfold", default=os.environ.get("MEMFOLD", "target/release/memfold"))
    parser.add_argument("--big", action="store_true", help="all programs, larger loads")
    parser.add_argument("--budget", type=float, help="start no further program after so many seconds")
    parser.add_argument("--missing-packages", action="store_true", help="print the Debian packages that would be needed")
    parser.add_argument("--plain", action="store_true", help="only measure the plain runs")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--tmp", help="where the loads keep their files")
    parser.add_argument("--timeout", type=float, default=180, help="seconds that a run may take")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(case.name for case in CASES))
        return 0
    unknown = set(options.names) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no such program test: {', '.join(sorted(unknown))}")

    wanted = [case for case in CASES if (case.name in options.names if options.names else options.big or not case.only_big)]
    if options.missing_packages:
        print(" ".join(sorted({package for case in wanted if case.missing() for package in case.packages})))
        return 0

    memfold = os.path.abspath(options.memfold)
    if not options.plain and not os.access(memfold, os.X_OK):
        sys.exit(f"{memfold} is not there: run `make build` first, or name it with --memfold")
    memory.take_charge()
    zstd = pages.Zstd()
    started, rows, passed, failed, skipped = time.monotonic(), [], 0, 0, 0
    for case in wanted:
        missing = case.missing()
        if not missing and options.budget and time.monotonic() - started > options.budget:
            missing = "time: the budget is used up"
        if missing:
            print(f"{case.name:15} skipped, because {missing} is missing")
            skipped += 1
            continue
        try:
            rows.append(run_case(case, case.big if options.big else case.small, memfold, zstd, options))
            passed += 1
        except Failure as failure:
            print(f"\n{case.name:15} FAILED: {failure}")
            failed += 1
        except (OSError, subprocess.SubprocessError) as error:
            print(f"\n{case.name:15} FAILED: {type(error).__name__}: {error}")
            failed += 1
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
