#!/usr/bin/env python3
"""Asks server.py for COUNT customers again and again, a hundred times a second, until the server ends.

usage: ask.py PORT COUNT
"""

import itertools
import sys
import time
import urllib.request


def main():
    port, count = map(int, sys.argv[1:])
    for number in itertools.cycle(range(count)):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/{number * 7919}").read()
        except OSError:
            return
        time.sleep(0.01)


main()
