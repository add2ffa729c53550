"""Runs for a few milliseconds."""
import time


def briefly():
    end = time.process_time() + 0.02
    while time.process_time() < end:
        sum(range(50))


def main():
    briefly()


main()
