"""Node 0 is interrupted while it waits for an object that node 1 does not make, and ends. Node 1 has missed nothing."""

import os
import signal
import sys
import threading

import loco

heard = threading.Semaphore(0)
has_raised = False


def handler(_number, _frame):
    """Raises in the middle of a call, which is when others are refused."""
    global has_raised
    try:
        node.fence("nothing")
    except loco.Usage:
        has_raised = True
        raise KeyboardInterrupt from None
    finally:
        heard.release()


def send():
    while not has_raised:
        os.kill(os.getpid(), signal.SIGINT)
        heard.acquire()


try:
    with loco.start(timeout=60) as node:
        meeting = loco.Barrier(node, "meeting")
        node.wait_for_ready()
        if node.id == 0:
            lonely = loco.Barrier(node, "lonely")
            signal.signal(signal.SIGINT, handler)
            threading.Thread(target=send).start()
            try:
                node.wait_for_ready()
            except KeyboardInterrupt:
                sys.exit(3)
        meeting.wait()
except loco.PeerLost as lost:
    assert lost.node == 0, lost
