"""Spends its time in functions that are called in a known way until its standard input ends: busy.py WAY."""
import asyncio
import ctypes
import multiprocessing
import os
import select
import sys
import threading

stop = os.dup(0)  # multiprocessing closes the standard input of its processes


def say(frame):
    """Prints a stack, the innermost function first."""
    frames = []
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        frames.append("%s|%s|%d|%d" % (name, code.co_filename, code.co_firstlineno, frame.f_lineno))
        frame = frame.f_back
    os.write(1, ("\t".join(frames) + "\n").encode())


def burn():
    say(sys._getframe(1))
    x = 0
    while not select.select([stop], [], [], 0)[0]:
        for i in range(2000):
            x += i * i % 7
    return x


def plain():
    burn()


def produce():
    yield 1
    burn()
    yield 2


def delegate():
    yield from produce()


def generators():
    return [x for x in delegate()]


class Failing:
    def __enter__(self):
        return self

    def __exit__(self, *args):
        burn()
        return True


def exceptions():
    try:
        raise ValueError
    except ValueError:
        with Failing():
            raise KeyError


def compare(a, b):
    burn()
    return 0


def native():
    libc = ctypes.CDLL(None)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    array = (ctypes.c_int * 2)(1, 2)
    libc.qsort(array, 2, ctypes.sizeof(ctypes.c_int), kind(compare))


def key(x):
    burn()
    return x


def keys():
    sorted([1], key=key)


async def work():
    burn()


async def gather():
    await asyncio.gather(work(), asyncio.sleep(0))


def coroutines():
    asyncio.run(gather())


def threads():
    kept = []  # a function that is gone before it was read has no lines

    def start(n):
        made = {}
        kept.append(made)
        exec("def function_%d(f): f()" % n, made)
        made["function_%d" % n](burn)

    all = [threading.Thread(target=start, args=(n,)) for n in range(200)]
    for t in all:
        t.start()
    for t in all:
        t.join()


def child():
    burn()


def fork():
    pid = os.fork()
    if pid == 0:
        child()
        os._exit(0)
    os.waitpid(pid, 0)


def processes():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(key, [1, 2])


def deep(n=400):
    if n:
        return deep(n - 1)
    burn()


def without_gil():
    import hashlib
    data = bytes(1 << 24)
    say(sys._getframe())
    while not select.select([stop], [], [], 0)[0]:
        hashlib.sha256(data)


globals()[sys.argv[1]]()
