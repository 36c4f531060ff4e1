import loco

with loco.start() as node:
    barrier = loco.Barrier(node, "barrier")
    node.wait_for_ready()
    barrier.wait()
    print(f"node {node.id}: {len(node.nodes)} nodes are here")
