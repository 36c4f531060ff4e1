"""Regions as arrays of NumPy, on two nodes."""

import numpy as np

import loco

with loco.start(timeout=60) as node:
    barrier = loco.Barrier(node, "barrier")
    region = loco.SharedRegion(node, "region", 64)
    node.wait_for_ready()
    words = np.frombuffer(region, dtype=np.uint64)
    assert words.flags.writeable and words.shape == (8,)
    words[:] = np.arange(8, dtype=np.uint64) + 10 * node.id
    barrier.wait()
    other = 1 - node.id
    theirs = np.frombuffer(region.get(other, 0, 64), dtype=np.uint64)
    assert (theirs == np.arange(8) + 10 * other).all(), theirs
    barrier.wait()
    region.put(other, 0, np.full(4, 1.5))
    barrier.wait()
    halves = np.asarray(region).view(np.float64)
    assert (halves[:4] == 1.5).all() and words[4] == 4 + 10 * node.id
    del region
    assert (halves[:4] == 1.5).all()
    print("views are arrays")
