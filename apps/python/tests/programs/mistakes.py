"""Mistakes that beginners make, on two nodes: each message names the object, the node, and what to do."""

import math
import threading

import loco

#: Enough for a call that waits for what does not come.
SHORT = 0.1


def tells(kind, words, call, *arguments, **options):
    """Checks that the call raises `kind` with all of these words. Returns the exception."""
    try:
        call(*arguments, **options)
    except kind as error:
        for word in words:
            assert word in str(error), f"no `{word}` in: {error}"
        return error
    raise AssertionError(f"no {kind.__name__}: {words}")


with loco.start(timeout=60) as node:
    here, other = node.id, 1 - node.id
    is_first = here == 0
    meeting = loco.Barrier(node, "meeting")
    node.wait_for_ready()

    tells(loco.Usage, ["node of its job already", "call `loco.start` once"], loco.start)

    # Names.
    tells(loco.Usage, ["`a/b`", "take another name"], loco.Barrier, node, "a/b")
    twice = loco.Barrier(node, "twice")
    tells(loco.Usage, ["`twice`", f"node {here} already", "take another name"], loco.Barrier, node, "twice")
    del twice
    tells(loco.Usage, ["`far`", "node 7", "not a participant"], loco.TicketLock, node, "far", 7)
    tells(loco.Usage, ["node 7 is not part of this job", "nodes 0, 1"], node.among, [0, 7])
    tells(TypeError, ["Node"], loco.Barrier, "barrier", "b")
    part = node.among([here])

    def with_a_part():
        with part:
            raise AssertionError("the block has begun")

    whole = ["`among`", f"node {here}", "`loco.start`", "give it to the objects"]
    tells(loco.Usage, ["a `with` statement", *whole], with_a_part)
    tells(loco.Usage, ["`close`", *whole], part.close)
    tells(
        loco.Usage,
        ["`b`", "not a participant", "among more nodes"],
        loco.Barrier,
        node.among([other]),
        "b",
    )

    # Objects that do not fit together are reported by both nodes.
    both = ["node 0", "node 1", "make both endpoints with the same type"]
    wrong = loco.Barrier(node, "kind") if is_first else loco.AtomicVar(node, "kind", 0)
    error = tells(loco.Mismatch, ["`kind`", "barrier", "atomic_var", *both], node.wait_for_ready)
    assert error.object == "kind", error.object
    meeting.wait()
    wrong = loco.SharedRegion(node, "size", 64 if is_first else 128)
    tells(loco.Mismatch, ["`size`", "64", "128", *both], node.wait_for_ready)
    meeting.wait()
    wrong = loco.TicketLock(node, "home", here)
    tells(loco.Mismatch, ["`home`", *both], node.wait_for_ready)
    meeting.wait()
    del wrong

    # One node makes it, and one call comes too early.
    if is_first:
        lonely = loco.Barrier(node, "lonely")
        error = tells(
            loco.Timeout, ["`lonely`", "node 1", "every participant must make"], node.wait_for_ready, timeout=SHORT
        )
        assert error.awaited == [1] and isinstance(error, TimeoutError)
        del lonely
        early = loco.SharedRegion(node, "early", 64)
        tells(loco.Usage, ["`early.data`", "to node 1", "call `wait_for_ready` first"], early.put_word, 1, 0, 1)
        del early
    meeting.wait()

    barrier = loco.Barrier(node, "b")
    lock = loco.TicketLock(node, "l", 0)
    tas = loco.TasLock(node, "t", 0)
    ring = loco.RingBuffer(node, "r", 1, 64)
    store = loco.KvStore(node, "s", value_bytes_max=16, slots_per_node=1)
    region = loco.SharedRegion(node, "memory", 64)
    node.wait_for_ready()

    # Waits for what does not come.
    if not is_first:
        held = [lock.lock(), tas.lock()]
    meeting.wait()
    if is_first:
        error = tells(loco.Timeout, ["node 1 has not arrived at b", "every participant must call"], barrier.wait, SHORT)
        assert (error.object, error.awaited) == ("b", [1]), (error.object, error.awaited)
        tells(loco.Timeout, ["node 1 holds lock l", "must release its guard"], lock.lock, SHORT)
        tells(loco.Timeout, ["node 1 holds lock t", "must release its guard"], tas.lock, timeout=SHORT)
        assert tas.try_lock() is None
        reader = ring.reader()
        tells(
            loco.Timeout,
            ["ring buffer r", "node 1 has submitted no message", "a writer submits what readers receive"],
            reader.receive,
            SHORT,
        )
        tells(loco.Usage, ["`r`", "only node 1 may take the writer", "leave the call to node 1"], ring.writer)
        meeting.wait()
    else:
        meeting.wait()
        tells(loco.Usage, ["lock `l`", "this thread of node 1", "release its guard first"], lock.lock)
        elsewhere = []

        def of_another_thread():
            try:
                held[0].release()
            except loco.Usage as error:
                elsewhere.append(str(error))

        thread = threading.Thread(target=of_another_thread)
        thread.start()
        thread.join()
        assert "does not hold lock `l`" in elsewhere[0] and "the thread that took it" in elsewhere[0], elsewhere
        for guard in held:
            guard.release()
        tells(loco.Usage, ["lock `l`", "node 1 does not hold"], held[0].release)
        writer = ring.writer()
        tells(loco.Usage, ["ring buffer `r`", "100 bytes", "make it larger"], writer.submit, bytes(100))

        def fill():
            for _ in range(100):
                writer.submit(bytes(8), SHORT)

        tells(loco.Timeout, ["ring buffer r", "node 0 has not acknowledged", "each reader must receive"], fill)
    meeting.wait()

    # Values.
    tells(loco.Usage, ["store `s`", "`value_bytes_max`", "make it larger"], store.insert, b"k%d" % here, bytes(100))
    tells(TypeError, ["this is a str", "encode it"], store.get, "key")
    assert store.insert(b"mine %d" % here, b"")
    tells(
        loco.Exhausted,
        ["store `s`", f"on node {here}", "make `slots_per_node` larger"],
        store.insert,
        b"more %d" % here,
        b"",
    )
    tells(loco.Usage, ["`memory.data`", "60..68", "64 bytes", "take an offset inside"], region.put, other, 60, bytes(8))
    tells(loco.Usage, ["`memory.data`", "64..72", "64 bytes", "take an offset inside"], region.load, 64)
    tells(loco.Usage, ["`memory.data`", "offset 3", "a multiple of its size"], region.load, 3)
    tells(ValueError, ["no comparison", "=="], region.wait_until, 0, "=", 1)
    tells(ValueError, ["no policy", "recover"], loco.TasLock, node, "policy", 0, on_loss="ignore")
    tells(ValueError, ["no scope", "all_threads"], node.fence, "all")
    tells(ValueError, ["timeout=-1", "math.inf"], barrier.wait, -1)
    tells(ValueError, ["timeout=NaN"], barrier.wait, math.nan)
    meeting.wait()
tells(loco.Closed, [f"node {here} has left its job", "with loco.start() as node"], meeting.wait)
print("every message says what to do")
