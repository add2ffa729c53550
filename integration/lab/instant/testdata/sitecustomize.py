"""Python imports this at its start: it answers SIGTRAP with the functions that its thread runs."""
import faulthandler
import signal

faulthandler.register(signal.SIGTRAP, file=700, all_threads=False, chain=False)
