"""Threads that wait at known lines; SIGUSR1 has faulthandler write the stacks of all to the file that is named."""
import faulthandler
import signal
import sys
import threading
import time

faulthandler.register(signal.SIGUSR1, file=open(sys.argv[1], "w"), all_threads=True)
lock = threading.Lock()
lock.acquire()


class Shop:
    def reserve(self, depth):
        if depth:
            return self.reserve(depth - 1)
        with lock:
            return None


def sleeper():
    for _ in map(lambda n: time.sleep(n), [3600]):
        pass


threading.Thread(target=Shop().reserve, args=(200,), daemon=True).start()
threading.Thread(target=sleeper, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
