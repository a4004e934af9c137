"""Arrays of very different compressibility, worked on with numpy.

usage: python_numpy.py MIB
"""

import hashlib
import sys

import numpy as np


def main():
    size = int(sys.argv[1]) << 20
    rng = np.random.default_rng(11)
    rows = size // 8 // 5

    # A sensor: slow waves and noise, quantised in steps of 1/1024 like those of an instrument.
    time = np.arange(rows, dtype=np.float64)
    signal = np.round((np.sin(time / 700) * 40 + rng.normal(0, 0.5, rows)) * 1024) / 1024
    # Keys: sorted, with gaps. Labels: small integers. Weights: plain noise, which hardly compresses.
    keys = np.cumsum(rng.integers(1, 2000, rows))
    labels = rng.integers(0, 50, rows).astype(np.int64)
    weights = rng.random(rows // 2)
    counts = rng.poisson(3, rows).astype(np.int32)

    print("by label:", hashlib.sha256(np.bincount(labels, weights=signal, minlength=50).round(6).tobytes()).hexdigest())
    smooth = np.cumsum(signal)
    smooth[64:] -= smooth[:-64].copy()
    print("smooth: %.9f %.9f" % (smooth.min() / 64, smooth.max() / 64))

    # Random access: look up keys in an order unrelated to their own.
    wanted = rng.integers(0, keys[-1], rows // 8)
    found = np.searchsorted(keys, wanted)
    print("found:", int(found.sum()), "%.6f" % signal[np.minimum(found, rows - 1)].sum())

    order = np.argsort(signal[: rows // 2], kind="stable")
    print("ordered: %.9f" % (weights[order][: rows // 4] * labels[order][: rows // 4]).sum())
    labels[order[::3]] += counts[: rows // 2][::3]

    digest = hashlib.sha256()
    for array in (signal, keys, labels, weights, counts, smooth, order):
        digest.update(array.tobytes())
    print("sha256", digest.hexdigest())


if __name__ == "__main__":
    main()
