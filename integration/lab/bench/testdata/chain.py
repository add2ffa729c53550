"""Burns CPU in a chain of functions for some seconds: the sixth is called by native code."""

import sys
import time


def f10(n):
    for i in range(4000):
        n = (n * 31 + i) % 65521
    return n


def f09(n):
    return f10(n) + 1


def f08(n):
    return f09(n) + 1


def f07(n):
    return f08(n) + 1


def f06(n):
    return f07(n) + 1


def f05(n):
    return min([n, n + 1], key=f06)


def f04(n):
    return f05(n) + 1


def f03(n):
    return f04(n) + 1


def f02(n):
    return f03(n) + 1


def f01(n):
    return f02(n) + 1


end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    f01(1)
