"""Calls functions in many ways, prints the stack of the innermost one, and waits there."""
import ctypes
import functools
import os
import sys


def show():
    """Prints the stack of the caller: name, file, first line, line, innermost function first."""
    frame, lines = sys._getframe(1), []
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        lines.append("\t".join([name, code.co_filename, str(code.co_firstlineno), str(frame.f_lineno)]))
        frame = frame.f_back
    out = "\n".join(lines) + "\n\n"
    os.write(1, out.encode())


def leaf(depth=3):
    if depth:
        # A call whose arguments stand on
        # lines of their own.
        return leaf(
            depth -
            1
        )
    return show(), os.read(0, 1)


def generator():
    yield from (leaf() for _ in range(1))


class Größe:
    """The name is not ASCII."""

    def __init__(self):
        self.value = list(generator())

    @property
    def 名前(self):
        return type("Made", (), {"call": lambda self: Größe()})().call()

    @functools.lru_cache
    def cached(self, x):
        return Größe.__dict__["名前"].fget(self)


async def coroutine():
    async def inner():
        return Größe.cached(object(), 1)
    return await inner()


def compare(a, b):
    """Called by qsort, of the C library."""
    try:
        coroutine().send(None)
    except StopIteration:
        pass
    return 0


def sort():
    libc = ctypes.CDLL(None)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    array = (ctypes.c_int * 2)(1, 2)
    libc.qsort(array, 2, ctypes.sizeof(ctypes.c_int), kind(compare))


def ordered(x):
    exec(compile("\n" * 300 + "sort()", "<made>", "exec"))
    return x


def handle():
    try:
        raise KeyError("x")
    except KeyError:
        with open(os.devnull):
            for x in sorted([1], key=ordered):
                pass


if __name__ == "__main__":
    handle() ; [handle() for _ in range(1)]
