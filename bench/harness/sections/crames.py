"""Repeats table III of the CRAMES paper (Yang et al., 2010): audio coding, JPEG, MPEG and matrix
multiplication in less and less memory.

The paper ran adpcm, jpeg (cjpeg and djpeg, progressive) and mpeg2 of MediaBench, and multiplied matrices of
512 by 512, on a hand-held computer with 20 MB down to 8 MB for programs. Here, programs from Debian do these
four kinds of work. Each uses at least 200 MiB of private anonymous memory, and gets 100 % down to 40 % of its
own peak:

- audio: ffmpeg reverses a recording of 16 minutes and codes it as IMA ADPCM. It keeps all samples, and writes
  and reads each of them once.
- jpeg: cjpeg codes a photograph of 75 megapixels as a progressive JPEG in three qualities, and djpeg decodes
  it. Both keep all coefficients, and every scan passes over them.
- mpeg: mpeg2enc, which is related to the paper's encoder, codes groups of up to 60 pictures, and keeps the
  pictures of a group.
- matrix: numpy multiplies two matrices of 3000 by 3000 with the reference BLAS; other BLAS libraries are many
  times as fast.
"""

import hashlib
import math
import statistics
import tempfile
from pathlib import Path

import cases
import energy
import memory
import pages
import peers
import report
import run as programs

MIB = memory.MIB
LEVELS = (100, 90, 80, 70, 60, 50, 40)
QUICK_LEVELS = (100, 70, 40)
PAIRS, QUICK_PAIRS = 5, 2
# A run is killed after this many times the plain time; an even larger slowdown adds no information.
HOPELESS = 5
# The goal is the paper's own result with PBPM, 0.2 % and 9.2 %, with room for noise in the mean.
MEAN_GOAL, WORST_GOAL = 0.02, 0.09
# Student's t for 95 %, two-sided, by degrees of freedom; beyond the table, the last value is conservative.
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
       2.101, 2.093, 2.086)
MEDIA = cases.LOAD / "media.py"

JPEG = ("for quality in 75 85 95; do cjpeg -dct int -progressive -optimize -quality $quality -outfile $quality.jpg photo && "
        "djpeg -dct int -ppm $quality.jpg | sha256sum || exit; done")
MPEG = "mpeg2enc -v 0 -f 3 -b 8000 -q 6 -g 30 -G 60 -o film.m2v < film"


def media(kind, place):
    """Gives a case its input: a link to a file that is made once and kept in `place`."""
    def prepare(directory, size):
        place.mkdir(parents=True, exist_ok=True)
        made_by = hashlib.sha256(MEDIA.read_bytes()).hexdigest()[:8]
        path = place / f"{kind}-{size}-{made_by}"
        if not path.exists():
            report.progress(f"making {path}")
            part = path.with_name(path.name + ".part")
            cases.output_of([cases.numpy_python(), MEDIA, kind, str(size)], part)
            part.rename(path)
        # Reads the file into the page cache, so that the first run is not charged for it.
        with open(path, "rb") as file:
            while file.read(1 << 22):
                pass
        (directory / kind).symlink_to(path)
    return prepare


def programs_over(place):
    """The four cases. Their sizes are seconds of music, rows of the photograph, pictures of the film, and rows of
    the matrices.
    """
    def case(name, small, big, command, needs=(), packages=(), **more):
        return cases.Case(name, small, big, command, needs=("numpy", *needs), packages=("python3-numpy", *packages), **more)

    return [
        case("audio", 320, 960, lambda size: ["ffmpeg", "-nostdin", "-v", "error", "-i", "music", "-af", "areverse",
                                              "-c:a", "adpcm_ima_wav", "-trellis", "1", "coded.wav"],
             ("ffmpeg",), ("ffmpeg",), prepare=media("music", place), outputs=("coded.wav",)),
        case("jpeg", 3072, 9216, lambda size: ["sh", "-c", JPEG], ("cjpeg", "djpeg"), ("libjpeg-turbo-progs",),
             prepare=media("photo", place), outputs=("75.jpg", "85.jpg", "95.jpg")),
        case("mpeg", 20, 60, lambda size: ["sh", "-c", MPEG], ("mpeg2enc",), ("mjpegtools",),
             prepare=media("film", place), outputs=("film.m2v",)),
        case("matrix", 1500, 3000, lambda size: [cases.numpy_python(), cases.LOAD / "matrix.py", size]),
    ]


def interval(logs):
    """(ratio, low, high): the geometric mean, and its 95 % interval by Student's t; no bounds for fewer than
    two values.
    """
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), None, None
    half = T95[min(len(logs) - 1, len(T95)) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def blas():
    """The library that numpy uses for products; the figures depend on it."""
    library = Path("/etc/alternatives/libblas.so.3-x86_64-linux-gnu")
    return str(library.resolve()) if library.exists() else None


def measure(case, size, memfold, levels, pairs, place, timeout, keep):
    """Rows of one program: its plain memory, then pairs of a plain and a limited run at each level."""
    attempt, counter, plain_peer = programs.Attempt(case, size, Path(place)), energy.Counter(), peers.Unlimited()
    plain = attempt.run("plain")
    if plain.status != (0, 0):
        raise programs.Failure(f"the plain run ended with {plain.status}: {programs.tail(plain)}")
    ratio, _, same_filled = attempt.measure_ratio(plain.peak, pages.Zstd())
    facts = {"program": case.name, "plain_peak_bytes": plain.peak, "zstd_ratio": ratio, "same_filled": same_filled}
    report.progress(f"{case.name}: {plain.peak / MIB:.0f} MiB, compressible to 1/{ratio:.2f}, {plain.wall:.1f} s")
    hopeless = set()
    for pair in range(pairs):
        for level in levels:
            if level in hopeless:
                continue
            limit = plain.peak * level // 100 // 4096 * 4096
            # The order alternates, so that a drift of the machine affects both.
            for peer in (plain_peer, memfold) if (pair + level // 10) % 2 else (memfold, plain_peer):
                counter.start()
                result = attempt.run("pair", runner=lambda command, directory, **more: peer.run(
                    command, limit, directory, **more),
                    timeout=min(timeout, HOPELESS * plain.wall) if peer is memfold else timeout)
                row = {**facts, "peer": peer.name, "level": level, "pair": pair, "limit_bytes": limit, "wall": result.wall,
                       "cpu": result.cpu, "joules": counter.joules(), "sampled_peak_bytes": result.peak,
                       "timed_out": result.timed_out,
                       "same": (result.status, result.stdout, result.files) == (plain.status, plain.stdout, plain.files)}
                if peer is memfold:
                    stats = {name: value for name, value in (result.stats or {}).items() if name != "command"}
                    row.update(stats=stats, held=bool(stats) and stats["peak_resident_bytes"] <= limit * 1.05 + 8 * MIB)
                if result.timed_out:
                    hopeless.add(level)
                keep(row)
                report.progress(f"{case.name:7} {level:3} % {peer.name:9} {result.wall:.2f} s, {result.cpu:.2f} s CPU, "
                                f"{result.peak / MIB:.0f} MiB" + ("" if row["same"] else f", {outcome([row])}"))


def outcome(limited):
    """Whether the runs completed, with the same output as the plain one."""
    return "timed out" if any(row["timed_out"] for row in limited) else "same" if all(row["same"] for row in limited) else "DIFFERENT"


def held(limited):
    """Whether the limit was kept in all runs for which that is known: a killed run leaves no statistics."""
    known = [row["held"] for row in limited if row["stats"]]
    return all(known) if known else None


def compared(rows):
    """The results of the pairs, by program and level."""
    found = {}
    for program, level in dict.fromkeys((row["program"], row["level"]) for row in rows):
        mine = [row for row in rows if (row["program"], row["level"]) == (program, level)]
        of = {(row["peer"], row["pair"]): row for row in mine}
        both = [(of["memfold", pair], of["no limit", pair]) for pair in sorted({row["pair"] for row in mine})
                if ("memfold", pair) in of and ("no limit", pair) in of]

        def logs(key):
            # If the output of one run differs from the plain one, the level has no figure.
            if not all(row["same"] and row[key] for pair in both for row in pair):
                return []
            return [math.log(one[key] / other[key]) for one, other in both]

        limited = [one for one, _ in both]
        if limited:
            found[program, level] = {"pairs": both, "limited": limited, "wall": logs("wall"), "joules": logs("joules"),
                                     "outcome": outcome(limited), "held": held(limited)}
    return found


def shown_ratio(logs):
    if not logs:
        return "-"
    ratio, low, high = interval(logs)
    return f"{ratio:.3f}" + (f" [{low:.3f}, {high:.3f}]" if low else "")


def line(program, level, cell):
    """One program at one level."""
    limited, stats = cell["limited"], [one["stats"] for one in cell["limited"] if one["stats"]]

    def middle(name):
        values = [one[name] for one in stats if one[name] is not None]
        return statistics.median(values) if values else None

    peak, packed = middle("peak_resident_bytes"), middle("compression_ratio")
    back = statistics.median(one["pages_faulted"] + one["pages_prefetched"] for one in stats) * 4096 if stats else None
    return [f"{program} {level} %", f"{limited[0]['limit_bytes'] / MIB:.0f}", peak and f"{peak / MIB:.0f}",
            {True: "yes", False: "NO", None: None}[cell["held"]], statistics.median(other["wall"] for _, other in cell["pairs"]),
            statistics.median(one["wall"] for one in limited),
            f"{HOPELESS} or more" if cell["outcome"] == "timed out" else shown_ratio(cell["wall"]),
            statistics.median(one["cpu"] / other["cpu"] for one, other in cell["pairs"]), shown_ratio(cell["joules"]),
            packed, back and back / limited[0]["plain_peak_bytes"], cell["outcome"]]


def summary(found, pairs):
    """Mean and worst penalty, for each program and for all, beside the goal."""
    programs_seen = dict.fromkeys(program for program, _ in found)
    lines = []
    for name in (*programs_seen, "all"):
        cells = {key: cell for key, cell in found.items() if name in ("all", key[0])}
        measured = {key: cell["wall"] for key, cell in cells.items() if cell["wall"]}
        if not measured:
            lines.append([name, *[None] * 6])
            continue
        # Each pair gives one mean over all levels and programs; the interval is that of these means.
        complete = min(len(logs) for logs in measured.values())
        means = [statistics.fmean(logs[pair] for logs in measured.values()) for pair in range(complete)]
        ratio, low, high = interval(means)
        worst = max(measured, key=lambda key: statistics.fmean(measured[key]))
        worst_ratio = interval(measured[worst])[0]
        ended = [cell for cell in cells.values() if cell["outcome"] == "same"]
        met = ratio - 1 <= MEAN_GOAL and worst_ratio - 1 <= WORST_GOAL and len(ended) == len(cells)
        lines.append([name, f"{ratio - 1:+.1%}", f"[{low - 1:+.1%}, {high - 1:+.1%}]" if low else None,
                      f"{worst_ratio - 1:+.1%} ({worst[0]}, {worst[1]} %)", f"{len(ended)} of {len(cells)}",
                      f"{sum(cell['held'] is True for cell in cells.values())} of {len(cells)}", "yes" if met else "no"])
    print(f"Penalties in time, {pairs} pairs; goal: mean at most {MEAN_GOAL:.0%}, worst at most {WORST_GOAL:.0%}.\n"
          "Levels at which a run timed out or gave a different output count in neither")
    report.table(["program", "mean", "95 %", "worst", "completed, same output", "limit held", "goal met"], lines)


def section(binary, results, options):
    """Runs the section and prints its tables."""
    levels = options.levels or (QUICK_LEVELS if options.quick else LEVELS)
    pairs = options.pairs or (QUICK_PAIRS if options.quick else PAIRS)
    memfold, rows = peers.Memfold(binary, "--quiet"), []
    why_no_energy, numpy_blas = energy.Counter().why_not, blas()

    def keep(row):
        rows.append(row)
        results.add("crames", rows, pairs=pairs, energy=why_no_energy or "RAPL", blas=numpy_blas)

    for case in programs_over(Path(options.inputs_dir)):
        if options.programs and case.name not in options.programs:
            continue
        if case.missing():
            report.progress(f"{case.name}: skipped, because {case.missing()} is missing: apt-get install {' '.join(case.packages)}")
            continue
        with tempfile.TemporaryDirectory(prefix="memfold-bench-") as place:
            try:
                measure(case, case.small if options.quick else case.big, memfold, levels, pairs, place, options.timeout, keep)
            except programs.Failure as failure:
                report.progress(f"{case.name}: {failure}")
    found = compared(rows)
    print("Table III of CRAMES: medians of seconds; ratios are geometric means of memfold / plain with Student's interval\n"
          "of 95 % over pairs; r is memfold's compression ratio, 'back' how many times the program's memory was restored")
    if why_no_energy:
        print(f"Energy is not measured: {why_no_energy}")
    report.table(["program, memory", "limit MiB", "peak MiB", "held", "plain s", "memfold s", "time ratio", "cpu ratio",
                  "energy ratio", "r", "back", "output"], [line(*key, cell) for key, cell in found.items()])
    summary(found, pairs)
