"""The checks of the program tests must be able to fail."""

import types
import unittest

import cases
import memory
import pages
import run

MIB = memory.MIB
LIMIT = 100 * MIB
CASE = cases.Case("some", 1, 1, lambda size: ["true"], processes=2)
STATS = {"pages_compressed": 50_000, "pages_faulted": 9_000, "processes": 3, "limit_bytes": LIMIT, "exit_status": 7}


def result(**changes):
    fields = {"status": (7, 0), "stdout": b"answer\n", "stderr": b"", "files": {"out": "digest"}, "own_words": [],
              "samples": [(0.1, 20 * MIB), (0.2, 112 * MIB), (0.3, 90 * MIB)]}
    return types.SimpleNamespace(**{**fields, **changes})


class Checks(unittest.TestCase):
    def test_a_good_run_passes(self):
        run.check(result(), result(), STATS, LIMIT, CASE)

    def test_every_difference_fails(self):
        wrong = {
            "status": (0, 0), "stdout": b"answer!\n", "stderr": b"oops\n", "files": {"out": "other"},
            "samples": [(0.1, 20 * MIB), (0.2, int(113.1 * MIB))],
        }
        for name, value in wrong.items():
            with self.subTest(name), self.assertRaises(run.Failure):
                run.check(result(), result(**{name: value}), STATS, LIMIT, CASE)

    def test_a_run_that_proves_nothing_fails(self):
        for name, value in (("pages_compressed", 0), ("pages_faulted", 0), ("processes", 1), ("limit_bytes", 1), ("exit_status", 0)):
            with self.subTest(name), self.assertRaises(run.Failure):
                run.check(result(), result(), {**STATS, name: value}, LIMIT, CASE)

    def test_a_missing_file_fails_even_when_both_lack_it(self):
        with self.assertRaises(run.Failure):
            run.check(result(files={"out": None}), result(files={"out": None}), STATS, LIMIT, CASE)


class Pages(unittest.TestCase):
    def test_ratio_leaves_out_same_filled_pages(self):
        noise = __import__("random").Random(1).randbytes(4096)
        ratio, count, same = pages.ratio([noise, bytes(4096), b"abcdefgh" * 512, noise], pages.Zstd())
        self.assertEqual((ratio, count, same), (1.0, 2, 2))

    def test_the_sample_covers_every_run_once(self):
        start, end = 0x7F0000003000, 0x7F0000003000 + 5000 * pages.PAGE
        runs = list(pages.chosen(start, end, 1))
        self.assertEqual(sum(stop - begin for begin, stop in runs), end - start)
        part = sum(stop - begin for begin, stop in pages.chosen(start, end, 8))
        self.assertTrue(0.05 < part / (end - start) < 0.25, part / (end - start))


if __name__ == "__main__":
    unittest.main()
