# Burns CPU below as many calls as the argument says, each of a function of its own.
import sys

lines = ["def f0():\n    n = 0\n    while True:\n        for i in range(1000):\n            n = (n * 31 + i) & 0xffff"]
for i in range(1, int(sys.argv[1])):
    lines.append(f"def f{i}(add={i}):\n    before = add * 2\n    after = f{i - 1}()\n    return [before, after, add]")
sys.setrecursionlimit(10000)
exec("\n".join(lines))
globals()[f"f{int(sys.argv[1]) - 1}"]()
