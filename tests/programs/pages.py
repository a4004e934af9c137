"""Samples the pages of a stopped tree and measures how well they compress.

A page of one repeated word is not counted, because it never reaches a codec. The ratio is that of zstd level
1 over pages of 4 KiB, each compressed separately.
"""

import contextlib
import ctypes
import ctypes.util
import os
import signal
import time

PAGE = 4096
RUN = 64  # pages sampled together
PRESENT, FILE_OR_SHARED = 1 << 63, 1 << 61
# Larger mappings are reservations, not data; scanning their page tables would take longer than the test.
TOO_WIDE = 64 << 30


class Zstd:
    """The system's libzstd, used without a Python package."""

    def __init__(self):
        self.lib = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
        for name in ("ZSTD_createCCtx", "ZSTD_compressCCtx", "ZSTD_compressBound"):
            getattr(self.lib, name).restype = ctypes.c_size_t
        self.context = ctypes.c_void_p(self.lib.ZSTD_createCCtx())
        self.space = ctypes.create_string_buffer(self.lib.ZSTD_compressBound(ctypes.c_size_t(PAGE)))

    def size(self, page):
        size = self.lib.ZSTD_compressCCtx(self.context, self.space, ctypes.c_size_t(len(self.space)),
                                          page, ctypes.c_size_t(PAGE), ctypes.c_int(1))
        return min(size, PAGE)


def stop(pids):
    """Stops every process that `pids()` names, including those that appear meanwhile."""
    stopped = set()
    while True:
        fresh = set(pids()) - stopped
        if not fresh:
            return stopped
        for pid in fresh:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        stopped |= fresh
        time.sleep(0.002)


def resume(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


class Catcher:
    """Stops a tree each time it has grown by a thirtieth, from `least` bytes on, and uses a sample of its
    pages.

    Pass `look` to a sampler. `caught` is what `use` returned for the last sample, the one nearest to the
    peak.
    """

    def __init__(self, least, use, share=8):
        self.next, self.use, self.share, self.caught = least, use, share, None

    def look(self, meter, size):
        if size < self.next:
            return
        stopped = stop(meter.pids)
        try:
            self.caught = self.use(sample(stopped, self.share))
            self.next = size * 31 / 30
        finally:
            resume(stopped)


def mappings(pid):
    """(start, end) of the private mappings that can contain anonymous pages."""
    with open(f"/proc/{pid}/maps") as file:
        for line in file:
            place, mode, *_ = line.split()
            start, end = (int(part, 16) for part in place.split("-"))
            if mode[3] == "p" and "[v" not in line and end - start < TOO_WIDE and not (
                    mode[:3] == "---" and end - start > 1 << 30):
                yield start, end


def chosen(start, end, share):
    """The aligned runs of [start, end) that belong to a fixed sample of one in `share`."""
    step = RUN * PAGE
    for begin in range(start // step * step, end, step):
        if (begin // step * 0x9E3779B97F4A7C15 >> 40) % share == 0:
            yield max(begin, start), min(begin + step, end)


def sample(pids, share=8):
    """Yields resident private anonymous pages of the (stopped) processes, those in one of `share` runs."""
    for pid in pids:
        try:
            pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY)
            memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        except OSError:
            continue  # it has ended
        try:
            for start, end in list(mappings(pid)):
                for begin, stop_at in chosen(start, end, share):
                    yield from read_run(pagemap, memory, begin, stop_at)
        finally:
            os.close(pagemap)
            os.close(memory)


def read_run(pagemap, memory, begin, end):
    entries = os.pread(pagemap, (end - begin) // PAGE * 8, begin // PAGE * 8)
    wanted = [int.from_bytes(entries[i:i + 8], "little") for i in range(0, len(entries), 8)]
    wanted = [bool(entry & PRESENT) and not entry & FILE_OR_SHARED for entry in wanted]
    if not any(wanted):
        return
    try:
        data = os.pread(memory, end - begin, begin)
    except OSError:
        return
    for index, is_wanted in enumerate(wanted):
        page = data[index * PAGE:(index + 1) * PAGE]
        if is_wanted and len(page) == PAGE:
            yield page


def same_filled(page):
    return page == page[:8] * (PAGE // 8)


def distinct(found):
    """The distinct pages that are not same-filled."""
    return list({page: None for page in found if not same_filled(page)})


def some(found, most):
    """At most so many of the pages, evenly chosen."""
    step = max(1, len(found) / most)
    return [found[int(i * step)] for i in range(min(len(found), most))]


def ratio(pages, zstd):
    """(ratio, pages measured, same-filled pages left out)."""
    count = packed = same = 0
    for page in pages:
        if same_filled(page):
            same += 1
        else:
            count += 1
            packed += zstd.size(page)
    return (count * PAGE / packed if packed else 0.0), count, same
