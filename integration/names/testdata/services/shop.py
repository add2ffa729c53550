"""A shop: a WSGI application."""

import json
import re

WORD = re.compile("([a-z]+)-([0-9]+)")
ITEMS = ["item-%d" % n for n in range(200)]


def backwards(item):
    return item[::-1]


def price(item):
    name, number = WORD.match(item).groups()
    return int(number) * 1.19 + len(name)


def render(items):
    prices = {}
    for item in items:
        prices[item] = price(item)
    return json.dumps({"prices": prices}, indent=1)


def application(environ, start_response):
    body = render(sorted(ITEMS, key=backwards)).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
