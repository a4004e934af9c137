"""Tests of the intervals, the energy and the verdicts of the section crames, without running a program."""

import math
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "programs"))
import energy  # noqa: E402
from sections import crames  # noqa: E402


def row(peer, pair, wall, same=True, timed_out=False):
    return {"program": "audio", "level": 40, "peer": peer, "pair": pair, "wall": wall, "same": same, "timed_out": timed_out,
            "joules": None, "stats": {}, "held": False}


class Crames(unittest.TestCase):
    def test_the_interval_is_students(self):
        # Mean 0.2, deviation 0.1, three values: 0.2 -+ 4.303 * 0.1 / sqrt(3).
        ratio, low, high = crames.interval([0.1, 0.2, 0.3])
        self.assertAlmostEqual(math.log(ratio), 0.2)
        self.assertAlmostEqual(math.log(low), 0.2 - 0.24843, 4)
        self.assertAlmostEqual(math.log(high), 0.2 + 0.24843, 4)

    def test_one_pair_has_no_interval(self):
        self.assertEqual(crames.interval([0.0]), (1.0, None, None))

    def test_pairs_are_compared_with_their_own_plain_runs(self):
        cell = crames.compared([row("no limit", 0, 2.0), row("memfold", 0, 3.0), row("memfold", 1, 8.0), row("no limit", 1, 4.0)])
        self.assertEqual(cell["audio", 40]["wall"], [math.log(1.5), math.log(2)])
        self.assertEqual((cell["audio", 40]["joules"], cell["audio", 40]["outcome"]), ([], "same"))

    def test_a_run_with_a_different_output_gives_no_figure(self):
        for changes, word in (({"same": False}, "DIFFERENT"), ({"same": False, "timed_out": True}, "timed out")):
            cell = crames.compared([row("no limit", 0, 2.0), row("memfold", 0, 3.0, **changes)])["audio", 40]
            self.assertEqual((cell["wall"], cell["outcome"], cell["held"]), ([], word, None))


class Energy(unittest.TestCase):
    def test_the_counter_goes_round(self):
        with tempfile.TemporaryDirectory() as place:
            for name, kind in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:1", "psys")):
                (Path(place) / name).mkdir()
                (Path(place) / name / "name").write_text(kind + "\n")
                (Path(place) / name / "energy_uj").write_text("9000000\n")
                (Path(place) / name / "max_energy_range_uj").write_text("10000000\n")
            counter = energy.Counter(Path(place))
            (Path(place) / "intel-rapl:0" / "energy_uj").write_text("1500000\n")
            self.assertEqual((counter.joules(), counter.why_not), (2.5, None))

    def test_without_a_counter_it_says_why(self):
        with tempfile.TemporaryDirectory() as place:
            counter = energy.Counter(Path(place))
            self.assertIsNone(counter.joules())
            self.assertIn("no package's counter", counter.why_not)


if __name__ == "__main__":
    unittest.main()
