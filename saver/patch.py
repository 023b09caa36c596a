"""
An older value of a channel, told by the newer one: what both have is kept once.

A list of messages grows at its end or loses its oldest, so the older value is mostly a stretch of the newer one,
perhaps behind the same beginning. Finding that takes a fraction of the time that compressing the value does.
"""

from typing import NamedTuple

ANCHOR_BYTES = 160  # the end of a message, with its id
_FIRST_STEP = 64  # beginnings in common are short, or all
_GRAIN = 24  # a few bytes kept twice cost less than finding where exactly the difference begins
_LEAST_GAIN = 2  # a patch that keeps more than half of the value is not worth a second look-up


class Patch(NamedTuple):
    """The older value is `newer[:head] + own + newer[start:stop]`."""

    head: int
    own: bytes
    start: int
    stop: int


def patch_of(old: bytes, new: bytes) -> Patch | None:
    """What makes `old` of `new`; None if they have too little in common."""
    found = new.rfind(old[-ANCHOR_BYTES:])
    stop = found + min(ANCHOR_BYTES, len(old)) if found >= 0 else 0
    tail = _common_end(old, new[:stop])
    rest = len(old) - tail
    head = _common_start(old[:rest], new)
    if (rest - head) * _LEAST_GAIN > len(old):
        return None
    return Patch(head, old[head:rest], stop - tail, stop)


def patched(new: bytes, patch: Patch) -> bytes:
    """The older value."""
    return new[: patch.head] + patch.own + new[patch.start : patch.stop]


def _common_start(one: bytes, other: bytes) -> int:
    """How many bytes are the same, by halves: comparing stretches is quicker than any loop over bytes."""
    low, high = 0, min(len(one), len(other))
    step = min(_FIRST_STEP, high)
    while high - low > _GRAIN:
        middle = low + step
        if other.startswith(one[low:middle], low):
            low = middle
            step = high - low
        else:
            high = middle - 1
            step = (high - low + 1) // 2
    return low


def _common_end(one: bytes, other: bytes) -> int:
    """The same from the end. All is tried first, then all but a little: a list tells its length at its beginning."""
    ends, offs = len(one), len(other)
    low, high, spared = 0, min(ends, offs), 0
    while high - low > _GRAIN:
        middle = max(high - spared, (low + high + 1) // 2)
        if one.endswith(other[offs - middle : offs - low], 0, ends - low):
            low = middle
        else:
            high = middle - 1
            spared = max(_FIRST_STEP, spared * 8)
    return low
