"""Node 1 of three ends with a lock. With the policy "poison" the others are told what may be half done."""

import os

import loco

try:
    with loco.start(timeout=60) as node:
        lock = loco.TicketLock(node, "lock", 0)
        barrier = loco.Barrier(node, "barrier")
        survivors = loco.Barrier(node.among([0, 2]), "survivors") if node.id != 1 else None
        node.wait_for_ready()
        if node.id == 1:
            lock.lock()
            barrier.wait()
            os._exit(0)
        barrier.wait()
        try:
            lock.lock()
            raise AssertionError("node 1 had it")
        except loco.Poisoned as error:
            assert "node 1 was lost while it held lock `lock`" in str(error), error
            assert 'on_loss="recover"' in str(error), error
        survivors.wait()
except loco.PeerLost as lost:
    assert lost.node == 1, lost
    print("the rest is well")
