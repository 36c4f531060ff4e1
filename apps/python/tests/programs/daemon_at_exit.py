"""The main thread ends while a daemon thread is in a call that nothing ends."""

import math
import threading
import time

import loco

begun = threading.Event()


class Slow:
    """What ends slowly: Python has begun to take itself down by then, and other threads run meanwhile."""

    def __del__(self, sleep=time.sleep):
        sleep(0.1)


slow = Slow()

with loco.start(alone=True) as node:
    ring = loco.RingBuffer(node, "ring", 0, 64, readers=[0])
    node.wait_for_ready()
    reader = ring.reader()

    def receive():
        begun.set()
        while True:
            try:
                reader.receive(math.inf)
            except loco.Usage:
                # The main thread has the reader for a moment.
                pass

    threading.Thread(target=receive, daemon=True).start()
    begun.wait()
    # Until the thread is in its call, another one may use the reader.
    while True:
        try:
            reader.try_receive()
        except loco.Usage as error:
            assert "another thread is in the middle of a call" in str(error), error
            break
print("the main thread is done")
