#!/usr/bin/env python3
"""Pages compressed by newer codecs of others (LZAV, zxc, misa77), beside lz4, zstd and weft.

Their sources are fetched (they are not part of this repository) and built with what their projects recommend. All
codecs run in one process, in turn. Prints the harmonic mean of the files' ratios, and how many times as fast as lz4
each is, by CPU time over all files.

usage: bench/codecs/newer.py [--unit 4096] [--rounds 5] [--sources DIR] [--lib target/release/lib] FILE...

Needs git, cmake, g++, liblz4-dev, libzstd-dev, and `make capi`.
"""

import argparse
import collections
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCES = {
    "lzav": ("https://github.com/avaneev/lzav", "6e2a579"),
    "zxc": ("https://github.com/hellobertrand/zxc", "26679e4"),
    "misa77": ("https://github.com/welcome-to-the-sunny-side/misa77", "97db070"),
}


def run(*command):
    if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
        sys.exit(f"this failed: {' '.join(map(str, command))}")


def build(sources, lib):
    """Fetches and builds what is not there yet; returns the program."""
    for name, (address, commit) in SOURCES.items():
        place = sources / name
        if not place.exists():
            run("git", "clone", "--quiet", address, place)
        run("git", "-C", place, "checkout", "--quiet", commit)
    for name, target in [("zxc", "zxc_lib"), ("misa77", "misa77")]:
        place = sources / name / "build"
        run("cmake", "-S", sources / name, "-B", place, "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", place, "--target", target)
    libraries = [next((sources / name / "build").rglob(f"lib{name}*.a")) for name in ("zxc", "misa77")]
    program = sources / "newer"
    includes = [sources / "lzav", sources / "zxc" / "include", sources / "misa77" / "include", ROOT / "crates/capi/include"]
    run("g++", "-std=c++20", "-O3", "-o", program, HERE / "newer.cc", *(f"-I{place}" for place in includes),
        *libraries, lib / "libmemfold.a", "-llz4", "-lzstd", "-pthread", "-ldl", "-lm")
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--unit", type=int, default=4096, help="bytes that are compressed at a time")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the fastest counts")
    parser.add_argument("--sources", type=Path, default=ROOT / "target" / "newer", help="where the sources are kept")
    parser.add_argument("--lib", type=Path, default=ROOT / "target" / "release" / "lib", help="where libmemfold is")
    parser.add_argument("files", nargs="+", metavar="FILE")
    options = parser.parse_args()
    options.sources.mkdir(parents=True, exist_ok=True)
    program = build(options.sources.resolve(), options.lib.resolve())
    out = subprocess.run([program, str(options.unit), str(options.rounds), *options.files], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    shares, times = collections.defaultdict(list), collections.defaultdict(lambda: [0, 0])
    for line in out.splitlines():
        _, name, *numbers = line.split("\t")
        size, stored, compress, restore = map(int, numbers)
        shares[name].append(stored / size)
        times[name][0] += compress
        times[name][1] += restore
    print(f"{len(options.files)} files, units of {options.unit} bytes")
    print(f"{'':12}{'ratio':>7}{'compress':>10}{'restore':>9}   × lz4")
    for name, of in shares.items():
        compress, restore = (times["lz4"][way] / max(times[name][way], 1) for way in (0, 1))
        print(f"{name:12}{len(of) / sum(of):7.3f}{compress:10.2f}{restore:9.2f}")


if __name__ == "__main__":
    main()
