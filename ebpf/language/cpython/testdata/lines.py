"""Prints the line table of each function in some modules, and the line of each instruction."""
import asyncio.base_events
import argparse
import dataclasses
import decimal
import dis
import enum
import http.server
import inspect
import json.decoder
import pydoc
import sys
import types
import typing


def lines(code):
    """Returns the line of the instruction at each even offset, 0 where there is none."""
    size, found = len(code.co_code), []
    if hasattr(code, "co_lines"):
        found = [0] * (size // 2)
        for start, end, line in code.co_lines():
            for at in range(start, end, 2):
                found[at // 2] = line or 0
        return found
    starts = dict(dis.findlinestarts(code))
    line = code.co_firstlineno
    for at in range(0, size, 2):
        line = starts.get(at, line)
        found.append(line)
    return found


def show(code):
    table = code.co_linetable if hasattr(code, "co_linetable") else code.co_lnotab
    print(code.co_firstlineno, table.hex() or "-", ",".join(map(str, lines(code))))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            show(constant)


for module in [asyncio.base_events, argparse, dataclasses, decimal, enum, http.server, inspect, json.decoder, pydoc, typing,
               types, dis]:
    with open(module.__file__, "rb") as f:
        show(compile(f.read(), module.__file__, "exec"))
# Lines and addresses that are far from each other, and without columns.
show(compile("x = 1\n" + "\n" * 40000 + "y = (" + "\n" * 300 + "2)\nfor z in [\n3, x,\n]: pass", "far", "exec"))
show(compile("x = (" + "a," * 3000 + ")\ny=1", "wide", "exec"))
