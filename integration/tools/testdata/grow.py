"""Keeps memory in two functions. Each prints its name and how many page faults getrusage(2) has counted meanwhile."""
import ctypes
import resource

PR_SET_THP_DISABLE = 41  # a huge page is one page fault
ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
kept = []


def growing():
    for _ in range(96):
        kept.append(b"x" * (1 << 20))


def growing_less():
    for _ in range(32):
        kept.append(b"x" * (1 << 20))


def print_faults(function):
    before = resource.getrusage(resource.RUSAGE_SELF)
    function()
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(function.__name__, after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt, flush=True)


print_faults(growing)
print_faults(growing_less)
