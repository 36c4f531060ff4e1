"""Every object, on three nodes."""

import math
import threading

import loco

HOME = 0
ROUNDS = 100

with loco.start(timeout=60) as node:
    barrier = loco.Barrier(node, "barrier")
    counter = loco.AtomicVar(node, "counter", HOME)
    ring = loco.RingBuffer(node, "ring", HOME, 4096)
    store = loco.KvStore(node, "store", value_bytes_max=16, slots_per_node=8)
    copied = loco.KvStore(node, "copied", slots_per_node=8, copies=2, spare_homes=1, copies_per_second=100)
    ticket = loco.TicketLock(node, "ticket", HOME)
    tas = loco.TasLock(node, "tas", HOME, on_loss="recover")
    region = loco.SharedRegion(node, "region", 64)
    pair = loco.Barrier(node.among([0, 1]), "pair") if node.id in (0, 1) else None
    node.wait_for_ready()
    assert node.nodes == [0, 1, 2], node.nodes

    # An atomic variable, from two threads of each node.
    def count():
        for _ in range(ROUNDS):
            counter.fetch_add(1)

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    barrier.wait()
    assert counter.read() == 2 * ROUNDS * len(node.nodes), counter.read()
    barrier.wait()
    if node.id == HOME:
        assert counter.compare_swap(0, 1) == 2 * ROUNDS * len(node.nodes)
        counter.write(2**64 - 1)
        assert counter.swap(7) == 2**64 - 1
    barrier.wait(timeout=math.inf)
    assert (counter.read(), counter.home) == (7, HOME)

    # A store that keeps each value on two nodes.
    if node.id == HOME:
        assert copied.insert(b"key", b"value")
    barrier.wait()
    assert copied.get(b"key") == b"value"
    # Nobody is lost.
    copied.wait_until_whole(timeout=10)
    barrier.wait()

    # A ring buffer.
    if node.id == HOME:
        writer = ring.writer()
        for number in range(ROUNDS):
            writer.submit(b"%d" % number)
        writer.submit(memoryview(bytearray(b"last")))
        writer.wait_until_read()
        del writer
        assert ring.writer().try_submit(b"again")
    else:
        reader = ring.reader()
        assert [reader.receive() for _ in range(ROUNDS)] == [b"%d" % number for number in range(ROUNDS)]
        assert reader.receive() == b"last"
        assert reader.receive(timeout=60) == b"again"
        assert reader.try_receive() is None
        reader.leave()

    # A key-value store.
    key = b"node %d" % node.id
    assert store.insert(key, b"one") and not store.insert(key, b"two")
    assert store.update(key, b"three") and not store.update(b"nobody", b"x")
    barrier.wait()
    assert all(store[b"node %d" % other] == b"three" for other in node.nodes)
    assert b"nobody" not in store and store.get(b"nobody") is None
    assert sorted(store.keys()) == [b"node %d" % other for other in node.nodes]
    try:
        store[b"nobody"]
        raise AssertionError("no KeyError")
    except KeyError as error:
        assert error.args == (b"nobody",)
    barrier.wait()
    if node.id == HOME:
        assert store.delete(b"node 1") and not store.delete(b"node 1")

    # Locks: a counter in a region of node 0, which both threads of all nodes increment by a read and a write.
    for lock in (ticket, tas):

        def add(lock=lock):
            for _ in range(ROUNDS):
                with lock as guard:
                    assert not guard.recovered
                    region.put_word(HOME, 0, region.get_word(HOME, 0) + 1)

        threads = [threading.Thread(target=add) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # The next lock protects the same word.
        barrier.wait()
    assert region.get_word(HOME, 0) == 4 * ROUNDS * len(node.nodes), region.get_word(HOME, 0)
    barrier.wait()
    if node.id == 1:
        guard = tas.try_lock()
        guard.release("all_threads")
        with ticket.lock(timeout=60):
            pass

    # A region: this node's bytes as a buffer, and the others' by operations.
    bytes_here = memoryview(region)
    assert (len(bytes_here), len(region), bytes_here.readonly, bytes_here.format) == (64, 64, False, "B")
    words = bytes_here.cast("Q")
    words[1] = 100 + node.id
    barrier.wait()
    for other in node.nodes:
        assert region.get_word(other, 8) == 100 + other
        assert int.from_bytes(region.get(other, 8, 8), "little") == 100 + other
    barrier.wait()
    after = (node.id + 1) % len(node.nodes)
    region.put(after, 16, b"hello, %d" % after)
    region.put(after, 32, bytearray(range(16)))
    assert region.fetch_add(after, 24, 5) == 0
    assert region.compare_swap(after, 24, 5, 6) == 5
    node.fence()
    region.put_word(after, 48, 9)
    assert region.wait_until(48, "==", 9) == 9 and region.load(48) == 9
    assert bytes(bytes_here[16:24]) == b"hello, %d" % node.id, bytes(bytes_here[16:24])
    assert bytes(bytes_here[32:48]) == bytes(range(16))
    assert words[3] == 6
    region.store(56, 1)
    assert words[7] == 1
    # A view keeps the region.
    del region
    assert words[7] == 1
    if pair is not None:
        pair.wait()
    barrier.wait()
    print(f"node {node.id}: all is as it should be")
assert words[7] == 1
node.close()
try:
    barrier.wait()
    raise AssertionError("the node has left")
except loco.Closed as error:
    assert f"node {node.id} has left its job" in str(error), error
