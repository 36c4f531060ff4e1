"""Signals while a call waits: handlers run, other threads run, and what a handler raises ends the call."""

import math
import os
import signal
import threading

import loco

heard = threading.Semaphore(0)
#: Of so many signals, the last one raises.
COUNT = 5
count = 0


class Enough(Exception):
    """What the handler raises."""


def handler(_number, _frame):
    global count
    count += 1
    if count == COUNT:
        count = 0
        raise Enough
    heard.release()


def send():
    """Sends signals, each when the one before has been heard. The last ones come in the middle of the call."""
    for number in range(COUNT):
        os.kill(os.getpid(), signal.SIGINT)
        if number < COUNT - 1:
            heard.acquire()


def ends(call, *arguments, **options):
    """Checks that a call that nothing ends is ended by a handler."""
    sender = threading.Thread(target=send)
    try:
        sender.start()
        call(*arguments, **options)
    except Enough:
        sender.join()
        return
    raise AssertionError(f"{call} has ended by itself")


with loco.start(timeout=math.inf) as node:
    barrier = loco.Barrier(node, "barrier")
    tas, ticket = loco.TasLock(node, "tas", 1), loco.TicketLock(node, "ticket", 1)
    ring = loco.RingBuffer(node, "ring", 1, 64)
    region = loco.SharedRegion(node, "region", 8)
    node.wait_for_ready()
    if node.id == 1:
        guards = [tas.lock(), ticket.lock()]
    barrier.wait()
    if node.id == 0:
        signal.signal(signal.SIGINT, handler)
        ends(barrier.wait)
        ends(barrier.wait, timeout=600)
        ends(tas.lock)
        ends(ticket.lock)
        reader = ring.reader()
        ends(reader.receive)
        ends(region.wait_until, 0, "==", 1)
        lonely = loco.Barrier(node, "lonely")
        ends(node.wait_for_ready)
        del lonely
        # A handler leaves objects alone while the thread is in a call. Between two calls it may use them.
        said = []

        def calls_within(_number, _frame):
            try:
                region.get_word(1, 0)
            except loco.Usage as error:
                said.append(str(error))
                raise Enough from error
            heard.release()

        def send_until_said():
            while not said:
                os.kill(os.getpid(), signal.SIGINT)
                if not said:
                    heard.acquire()

        signal.signal(signal.SIGINT, calls_within)
        sender = threading.Thread(target=send_until_said)
        try:
            sender.start()
            region.wait_until(0, "==", 1)
            raise AssertionError("it has ended by itself")
        except Enough:
            heard.release()
            sender.join()
        assert "in the middle of a call" in said[0], said
        # As it was: KeyboardInterrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
            region.wait_until(0, "==", 1)
            raise AssertionError("it has ended by itself")
        except KeyboardInterrupt:
            pass
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
