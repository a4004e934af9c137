"""Pages of real programs' heaps, for synthetic loads.

If $MEMFOLD_CORPUS (a directory with files proc-*) is set, its files are used. Otherwise the program tests'
loads are run and stopped near their peaks, and their pages are read. Same-filled pages and duplicates are
left out.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "programs"))
import cases  # noqa: E402
import memory  # noqa: E402
import pages  # noqa: E402
import run as programs  # noqa: E402

SOURCES = ("python-json", "python-numpy", "node", "java-default", "redis", "sqlite", "g++")
PAGES_EACH = 1024


def capture(case, path):
    """Writes pages of the case's program to `path`."""
    catcher = pages.Catcher(24 * memory.MIB, pages.distinct, share=4)
    with tempfile.TemporaryDirectory(prefix="memfold-capture-") as place:
        programs.Attempt(case, case.small, Path(place)).run("capture", on_sample=catcher.look)
    path.write_bytes(b"".join(pages.some(catcher.caught or [], PAGES_EACH)))


@contextlib.contextmanager
def corpus(only=SOURCES):
    """(files, their origin); the files exist while the block runs."""
    given = os.environ.get("MEMFOLD_CORPUS")
    if given:
        files = sorted(Path(given).glob("proc-*"))
        if not files:
            sys.exit(f"no proc-* files in MEMFOLD_CORPUS={given}")
        yield files, "given captures: " + ", ".join(file.name for file in files)
        return
    place = Path(tempfile.mkdtemp(prefix="memfold-corpus-"))
    try:
        for case in cases.CASES:
            if case.name in only and not case.missing():
                print(f"capturing {case.name}", file=sys.stderr, flush=True)
                capture(case, place / f"proc-{case.name}")
        files = sorted(file for file in place.iterdir() if file.stat().st_size)
        yield files, "own captures: " + ", ".join(file.name for file in files)
    finally:
        shutil.rmtree(place)
