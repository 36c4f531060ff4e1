"""The exceptions of loco. Each message names the object, the node and the remedy."""

from typing import List, Optional


class Error(Exception):
    """Any failure of a call."""

    #: The full name of the object that the error is about, or of what was waited for.
    object: Optional[str] = None
    #: The lost node, if a node is lost.
    node: Optional[int] = None
    #: The nodes that were waited for, as far as they are known.
    awaited: List[int] = []


class PeerLost(Error, ConnectionError):
    """A node that was needed is lost: ``node`` is its number."""


class Timeout(Error, TimeoutError):
    """The time of a call is over. The call may be made again; ``awaited`` are the nodes that were waited for."""


class Mismatch(Error):
    """Nodes disagree about an object: its type, sizes or participants."""


class Usage(Error, ValueError):
    """The call does not fit the object, the node or the parameters."""


class DeclaredLost(Error):
    """The other nodes count this node as lost and go on without it: end the process."""


class Exhausted(Error):
    """Memory, slots or another resource ran out."""


class Unsupported(Error):
    """The network or the device cannot do this."""


class System(Error):
    """The operating system or the device refused."""


class Refused(Error):
    """A node refused another one's connection."""


class Poisoned(Error):
    """What an object protects or holds may be incomplete, because a node was lost while it changed it."""


class BadFile(Error):
    """A file is damaged, or not what the call takes it for."""


class Closed(Error):
    """This node has left its job."""


class Panicked(Error):
    """A part of the program panicked."""
