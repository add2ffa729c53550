"""Uses the standard library in earnest: library.py WORK SECONDS. The seconds are those of CPU time."""
import sys
import time

seconds = float(sys.argv[2])


def again():
    return time.process_time() < seconds


def sources():
    """Returns the texts of some modules of the standard library."""
    import os
    folder = os.path.dirname(os.__file__)
    for name in ["argparse", "ast", "inspect", "typing", "pydoc", "decimal", "tarfile", "zipfile"]:
        try:
            with open(os.path.join(folder, name + ".py"), encoding="utf-8") as f:
                yield f.read()
        except OSError:
            pass


def compiling():
    import ast
    import dis
    import io
    import tokenize
    while again():
        for text in sources():
            tree = ast.parse(text)
            sum(1 for node in ast.walk(tree))
            ast.unparse(tree) if hasattr(ast, "unparse") else ast.dump(tree)
            list(tokenize.generate_tokens(io.StringIO(text).readline))
            for instruction in dis.get_instructions(compile(text, "x", "exec")):
                str(instruction)
            if not again():
                return


def texts():
    import difflib
    import html.parser
    import json
    import re
    import string
    import textwrap

    class Parser(html.parser.HTMLParser):
        def handle_starttag(self, tag, attrs):
            self.tags = getattr(self, "tags", 0) + len(attrs)

    while again():
        text = next(sources())
        json.loads(json.dumps({str(i): [text[i:i + 20]] * 3 for i in range(500)}, indent=1))
        re.sub(r"(\w+)\s*=\s*(\w+)", lambda m: m.group(2) + string.Template("$x").substitute(x=m.group(1)), text)
        textwrap.wrap(text[:5000])
        list(difflib.unified_diff(text[:4000].splitlines(), text[200:4200].splitlines()))
        Parser().feed("<p class='a'><b x=1>c</b></p>" * 200)


def server():
    import http.server
    import threading
    import urllib.request

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_GET(self):
            body = b"x" * 1000
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()

        def client():
            while again():
                urllib.request.urlopen("http://127.0.0.1:%d/" % httpd.server_address[1]).read()

        clients = [threading.Thread(target=client) for _ in range(4)]
        for c in clients:
            c.start()
        for c in clients:
            c.join()
        httpd.shutdown()


def loops():
    import asyncio

    async def produce(queue):
        while again():
            await queue.put([i async for i in count(20)])

    async def count(n):
        for i in range(n):
            if i % 7 == 0:
                await asyncio.sleep(0)
            yield i

    async def consume(queue):
        total = 0
        while True:
            total += sum(x for x in await queue.get())
            queue.task_done()

    async def main():
        queue = asyncio.Queue(10)
        consumers = [asyncio.create_task(consume(queue)) for _ in range(3)]
        await asyncio.gather(*(produce(queue) for _ in range(3)))
        for c in consumers:
            c.cancel()

    asyncio.run(main())


def work(n):
    return sum(divmod(i, 7)[1] for i in range(n))


def processes():
    import concurrent.futures
    import multiprocessing
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        for _ in range(int(12 * seconds)):  # the CPU time is that of other processes
            list(pool.map(work, [20000] * 4))


def callbacks():
    import ctypes
    import functools
    import xml.parsers.expat
    libc = ctypes.CDLL(None)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))

    def compare(a, b):
        return order(a[0], b[0])

    def order(a, b):
        return (a > b) - (a < b)

    def started(name, attributes):
        sorted(attributes.items(), key=functools.cmp_to_key(lambda a, b: order(a, b)))

    while again():
        array = (ctypes.c_int * 200)(*(i * 37 % 101 for i in range(200)))
        libc.qsort(array, 200, ctypes.sizeof(ctypes.c_int), kind(compare))
        parser = xml.parsers.expat.ParserCreate()
        parser.StartElementHandler = started
        parser.Parse("<x>" + "<y a='1' b='2' c='3'/>" * 300 + "</x>", True)


class Node:
    """Has a finalizer and operators."""
    __slots__ = ["value", "next"]

    def __init__(self, value, next=None):
        self.value, self.next = value, next

    def __del__(self):
        self.value = None

    def __lt__(self, other):
        return self.value < other.value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return self.value == other.value


def objects():
    import collections
    import copy
    import dataclasses
    import decimal
    import enum
    import fractions
    import heapq
    import pickle

    Point = dataclasses.make_dataclass("Point", ["x", "y"], order=True)
    Point.__module__, globals()["Point"] = __name__, Point

    class Color(enum.Flag):
        RED = enum.auto()
        BLUE = enum.auto()

    def failing(n):
        if n == 0:
            raise LookupError(n)
        try:
            return failing(n - 1)
        finally:
            Color.RED | Color.BLUE

    while again():
        heap = [Node(i * 31 % 97) for i in range(200)]
        heapq.heapify(heap)
        while heap:
            heapq.heappop(heap)
        pickle.loads(pickle.dumps([Point(i, 0) for i in range(50)]))
        copy.deepcopy({Node(i): [Point(i, 1)] for i in range(30)})
        collections.Counter(Node(i % 5) for i in range(200))
        sum(fractions.Fraction(1, i) for i in range(1, 30))
        decimal.Decimal(2).sqrt(decimal.Context(200))
        try:
            failing(20)
        except LookupError:
            pass
        (lambda *a, **k: [*map(lambda x: x + 1, a)])(*range(100))


globals()[sys.argv[1]]()
