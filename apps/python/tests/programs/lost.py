"""Node 1 of three raises while it holds a lock. The others hear of it, and node 2 is given the lock."""

import loco

try:
    with loco.start(timeout=60) as node:
        lock = loco.TicketLock(node, "lock", 0, on_loss="recover")
        barrier = loco.Barrier(node, "barrier")
        survivors = loco.Barrier(node.among([0, 2]), "survivors") if node.id != 1 else None
        node.wait_for_ready()
        barrier.wait()
        if node.id == 1:
            with lock:
                raise RuntimeError("on purpose")
        try:
            barrier.wait()
            raise AssertionError("node 1 is gone")
        except loco.PeerLost as lost:
            assert lost.node == 1 and "`barrier`" in str(lost), lost
            assert isinstance(lost, ConnectionError)
        with lock:
            pass
        survivors.wait()
except loco.PeerLost as lost:
    # The end of the job needs node 1, too.
    assert lost.node == 1, lost
    print("the rest is well")
