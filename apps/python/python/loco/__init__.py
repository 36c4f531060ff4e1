"""Objects over network memory, shared by the nodes of a job.

    import loco

    with loco.start() as node:
        barrier = loco.Barrier(node, "barrier")
        node.wait_for_ready()
        barrier.wait()
        print(f"node {node.id}: {len(node.nodes)} nodes are here")

Start it with ``loco run -n 2 python3 hello.py``. Calls that wait let other threads of Python run. Most take a ``timeout`` in seconds,
and end when Ctrl-C is pressed; releasing a lock does not, as other nodes rely on it. Errors are exceptions of ``loco.errors``.
"""

from loco._native import (
    AtomicVar,
    Barrier,
    KvStore,
    LockGuard,
    Node,
    RingBuffer,
    RingReader,
    RingWriter,
    SharedRegion,
    TasLock,
    TicketLock,
    __version__,
    start,
)
from loco.errors import (
    BadFile,
    Closed,
    DeclaredLost,
    Error,
    Exhausted,
    Mismatch,
    Panicked,
    PeerLost,
    Poisoned,
    Refused,
    System,
    Timeout,
    Unsupported,
    Usage,
)

__all__ = [
    "AtomicVar",
    "BadFile",
    "Barrier",
    "Closed",
    "DeclaredLost",
    "Error",
    "Exhausted",
    "KvStore",
    "LockGuard",
    "Mismatch",
    "Node",
    "Panicked",
    "PeerLost",
    "Poisoned",
    "Refused",
    "RingBuffer",
    "RingReader",
    "RingWriter",
    "SharedRegion",
    "System",
    "TasLock",
    "TicketLock",
    "Timeout",
    "Unsupported",
    "Usage",
    "__version__",
    "start",
]
