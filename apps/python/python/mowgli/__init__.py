"""What programs over RDMA may do, by executable memory models.

    import mowgli

    for verdict in mowgli.check(open("mine.litmus").read(), model="rdma-tso"):
        print(verdict.condition, verdict.verdict)
"""

from typing import Optional

from loco._native import Verdict, check, models


class Error(ValueError):
    """A text or a model is refused; the message has the place and the remedy."""

    #: The line of the mistake, from 1, or None.
    line: Optional[int] = None
    #: The column of the mistake, from 1, or None.
    column: Optional[int] = None


__all__ = ["Error", "Verdict", "check", "models"]
