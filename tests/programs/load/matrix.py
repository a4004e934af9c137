"""Multiplies two matrices of 12-bit samples, stored as numbers of 8 bytes, and prints a hash of the product.

usage: matrix.py SIZE
"""

import hashlib
import sys

import numpy as np


def main():
    size = int(sys.argv[1])
    rng = np.random.default_rng(5)
    # Whole numbers, so that the product is exact and does not depend on the library's order of additions.
    left, right = (rng.integers(-2048, 2048, (size, size), np.int16).astype(np.float64) for _ in range(2))
    print("sha256", hashlib.sha256((left @ right).data).hexdigest())


if __name__ == "__main__":
    main()
