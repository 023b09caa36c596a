"""
What this process stored last in each channel, so that a put can make the value before it small.

The newest value stays whole in Redis: who reads it needs no other. The one before becomes a patch of it, if Redis still
holds the very bytes that this process packed; a tag in front of them says so. Whatever is forgotten or wrong here costs
memory in Redis and never a value.
"""

import os
from threading import Lock
from typing import NamedTuple
from weakref import WeakSet

from saver import unique
from saver.pack import TAG_BYTES, blob_body, pack_blob, pack_body, pack_patch
from saver.patch import patch_of

PATCH_FROM_BYTES = 512
PATCH_TO_BYTES = 4 << 20
MOST_BYTES = 32 << 20  # of all values remembered
MOST_PATCHES = 31  # in a row: an old value takes that many steps to be read

NOTHING = b""


class _Last(NamedTuple):
    name: str
    tag: bytes
    body: bytes
    patches: int  # that lead to this value


class Recent:
    """The last values of channels, the least recent forgotten first. Any number of threads may use it."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self.begin_anew()
        _in_use.add(self)

    def begin_anew(self) -> None:
        """In a process that was forked: another thread of the parent may have held the lock, half way through."""
        self._size_bytes = 0
        self._last: dict[tuple[str, ...], _Last] = {}
        self._lock = Lock()

    def pack(self, place: tuple[str, ...], name: str, type_: str, data: bytes) -> tuple[bytes, bytes]:
        """A blob as Redis takes it, and what its put does to the one before it (`lua/state.lua`, supersede)."""
        if "+" in type_ or not PATCH_FROM_BYTES <= len(data) <= PATCH_TO_BYTES:
            return pack_blob(type_, data), NOTHING
        body, tag = blob_body(type_, data), unique.tag(TAG_BYTES)
        last, order, patches = self._last.get(place), NOTHING, 0
        if last is not None and last.name != name and last.patches < MOST_PATCHES:
            patch = patch_of(last.body, body)
            if patch is not None:
                order = pack_patch(last.name, last.tag, name, len(last.body), patch)
                patches = last.patches + 1
        self._remember(place, _Last(name, tag, body, patches))
        return pack_body(body, tag), order

    def _remember(self, place: tuple[str, ...], last: _Last) -> None:
        with self._lock:
            known = self._last.pop(place, None)
            self._last[place] = last
            self._size_bytes += len(last.body) - (len(known.body) if known else 0)
            while self._size_bytes > self._most_bytes:
                self._size_bytes -= len(self._last.pop(next(iter(self._last))).body)


_in_use: WeakSet[Recent] = WeakSet()


def _begin_anew() -> None:
    for recent in list(_in_use):
        recent.begin_anew()


os.register_at_fork(after_in_child=_begin_anew)
