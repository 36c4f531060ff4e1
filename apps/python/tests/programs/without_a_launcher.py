"""A program that is in no job is told how to start, and can be a job of its own."""

import loco

try:
    loco.start()
    raise AssertionError("it has met itself")
except loco.Usage as error:
    assert "loco run -n 3 python3" in str(error) and "loco.start(alone=True)" in str(error), error

with loco.start(alone=True) as node:
    counter = loco.AtomicVar(node, "counter", node.id)
    node.wait_for_ready()
    counter.fetch_add(3)
    print(node.nodes, counter.read())
