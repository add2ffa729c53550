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


def ended():
    return select.select([stop], [], [], 0)[0]


def burn(pause=None):
    say(sys._getframe(1))
    x = 0
    while not ended():
        for i in range(2000):
            x += i * i % 7
        if pause:
            pause()
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


def greenlets():
    """The main greenlet goes on with each of the others from ever other depths of the stack."""
    from greenlet import getcurrent, greenlet
    main = getcurrent()

    def shallow():
        burn(main.switch)

    def deeper(n):
        if n:
            deeper(n - 1)
        else:
            burn(main.switch)

    def through_native():
        sorted([1], key=lambda x: deeper(3))

    def by_another():
        inner = greenlet(deeper)
        inner.switch(5)
        while not inner.dead:
            main.switch()
            inner.switch()

    all = [greenlet(shallow), greenlet(through_native), greenlet(by_another)] + [greenlet(lambda: deeper(40))]

    def turn(depth):
        if depth:
            sorted([1], key=lambda x: turn(depth - 1))
        else:
            for g in all:
                g.switch()

    depth = 0
    while not ended():
        turn(depth)
        depth = (depth + 7) % 30


def interpreter():
    """Another interpreter runs this file in the same thread."""
    try:
        import _interpreters
        run, other = _interpreters.exec, _interpreters.create("legacy")
    except ImportError:
        import _xxsubinterpreters
        options = {"isolated": False} if sys.version_info >= (3, 12) else {}
        run, other = _xxsubinterpreters.run_string, _xxsubinterpreters.create(**options)
    with open(__file__) as f:
        text = f.read()
    run(other, "import sys; sys.argv = ['busy.py', 'plain']; __file__ = %r; exec(compile(%r, __file__, 'exec'))"
        % (__file__, text))


def interpreters():
    """Several threads run other interpreters."""
    all = [threading.Thread(target=interpreter) for n in range(3)]
    for t in all:
        t.start()
    for t in all:
        t.join()


globals()[sys.argv[1]]()
