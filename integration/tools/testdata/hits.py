"""Writes and allocates in two functions, each its own number of bytes, in turn in several threads."""

import os
import sys
import threading
import time

MUCH, LITTLE = 100000, 30000
null = os.open(os.devnull, os.O_WRONLY)
much, little = memoryview(bytes(MUCH)), memoryview(bytes(LITTLE))


def writesMuch(kept):
    kept.append(bytearray(MUCH))
    os.write(null, much)


def writesLittle(kept):
    kept.append(bytearray(LITTLE))
    os.write(null, little)


def middle(kept):
    writesMuch(kept)
    writesLittle(kept)


def outer():
    kept = []
    while True:
        for _ in range(4):
            middle(kept)
        time.sleep(0.05)
        if len(kept) > 4000:
            kept.clear()


for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=outer, daemon=True).start()
outer()
