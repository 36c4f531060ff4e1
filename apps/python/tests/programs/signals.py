"""Signals while a call waits: handlers run, other threads run, and what a handler raises ends the call."""

import math
import os
import signal
import threading

import loco

#: Of so many signals in the middle of a call, the last one raises.
COUNT = 5

#: Released when a signal has been heard.
heard = threading.Semaphore(0)
#: The number of signals in the middle of the running call.
count = 0
#: Set when the handler raises.
has_raised = False
#: What is done before the handler raises.
last_steps = None


class Enough(Exception):
    """What the handler raises."""


def is_waiting():
    """Returns true in the middle of a call, when others are refused. Between two calls a handler may use objects."""
    try:
        node.fence("nothing")
        return False
    except loco.Usage as error:
        assert "in the middle of a call" in str(error), error
        return True


def hears(raises):
    """Returns a handler of a signal that raises only in the middle of a call."""

    def handler(number, frame):
        global count, has_raised
        try:
            if not is_waiting():
                return
            count += 1
            if count == COUNT:
                has_raised = True
                if last_steps is not None:
                    last_steps()
                raises(number, frame)
        finally:
            heard.release()

    return handler


def send():
    """Sends signals, each when the one before has been heard, until the handler raises."""
    while not has_raised:
        os.kill(os.getpid(), signal.SIGINT)
        heard.acquire()


def ends(call, *arguments, **options):
    """Checks that a call that nothing ends is ended by a handler."""
    global count, has_raised
    count, has_raised = 0, False
    sender = threading.Thread(target=send)
    sender.start()
    try:
        call(*arguments, **options)
        raise AssertionError(f"{call} has ended by itself")
    except (Enough, KeyboardInterrupt) as raised:
        sender.join()
        return type(raised)


def enough(_number, _frame):
    raise Enough


with loco.start(timeout=math.inf) as node:
    barrier = loco.Barrier(node, "barrier")
    tas, ticket = loco.TasLock(node, "tas", 1), loco.TicketLock(node, "ticket", 1)
    ring = loco.RingBuffer(node, "ring", 1, 64)
    own_ring = loco.RingBuffer(node, "own_ring", 0, 64, readers=[0])
    region = loco.SharedRegion(node, "region", 8)
    node.wait_for_ready()
    if node.id == 1:
        guards = [tas.lock(), ticket.lock()]
    barrier.wait()
    if node.id == 0:
        signal.signal(signal.SIGINT, hears(enough))
        assert ends(barrier.wait) is Enough
        ends(barrier.wait, timeout=600)
        ends(tas.lock)
        ends(ticket.lock)
        reader = ring.reader()
        ends(reader.receive)
        ends(region.wait_until, 0, "==", 1)
        lonely = loco.Barrier(node, "lonely")
        ends(node.wait_for_ready)
        del lonely

        # A message that comes while the handler raises is not lost.
        writer, own_reader = own_ring.writer(), own_ring.reader()

        def submit():
            thread = threading.Thread(target=writer.submit, args=(b"kept",))
            thread.start()
            thread.join()

        last_steps = submit
        ends(own_reader.receive)
        assert own_reader.receive(timeout=0) == b"kept"

        # A handler cannot close the node in the middle of a call, and the node is as it was.
        refused = []

        def close():
            try:
                node.close()
            except loco.Usage as error:
                refused.append(str(error))

        last_steps = close
        ends(region.wait_until, 0, "==", 1)
        assert len(refused) == 1 and "in the middle of a call" in refused[0], refused
        assert region.get_word(1, 0) == 0

        # What Python does by itself.
        last_steps = None
        signal.signal(signal.SIGINT, hears(signal.default_int_handler))
        assert ends(region.wait_until, 0, "==", 1) is KeyboardInterrupt
        signal.signal(signal.SIGINT, signal.default_int_handler)
        region.put_word(1, 0, 1)
    else:
        # Its locks are held until the other has heard all signals.
        region.wait_until(0, "==", 1)
        for guard in guards:
            guard.release()
    # The barrier goes on with the round that was interrupted.
    barrier.wait()
    with tas, ticket:
        pass
    barrier.wait()
print("signals are heard")
