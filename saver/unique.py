"""
Numbers that no process had before.

The system is asked for randomness once in a process, and once in each fork of it: asking is a system call, and a put
needs two of them.
"""

import os
from itertools import count

_BITS = 128


class _Unique:
    """A random beginning, counted on. Threads may share it."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        self.numbers = count(int.from_bytes(os.urandom(_BITS // 8)) >> 1)  # room to count on


_unique = _Unique()
os.register_at_fork(after_in_child=_unique.begin_anew)


def token() -> str:
    return f"{next(_unique.numbers):032x}"


def tag(size_bytes: int) -> bytes:
    """The last bytes of such a number: for what is told apart among few."""
    return next(_unique.numbers).to_bytes(_BITS // 8)[-size_bytes:]
