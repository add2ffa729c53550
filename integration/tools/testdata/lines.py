"""Keeps memory in two lines of one function. Prints each line's number and how many bytes tracemalloc has for it."""
import ctypes
import tracemalloc

PR_SET_THP_DISABLE = 41  # a huge page is one page fault
ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
kept = []


def work():
    for _ in range(96):
        kept.append(b"x" * (1 << 20))
        kept.append(b"y" * (3 << 17))


tracemalloc.start()
work()
for line in tracemalloc.take_snapshot().statistics("lineno")[:2]:
    print(line.traceback[0].lineno, line.size)
