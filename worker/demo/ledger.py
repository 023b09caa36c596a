"""What the agents of the demo wrote, against which everything that is read back is compared."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from worker.demo.shop import remembered

_EVENTS_KEPT = 8


@dataclass(slots=True)
class Ledger:
    """Values by thread, and counts of what happened."""

    written: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: deque[str] = field(default_factory=lambda: deque(maxlen=_EVENTS_KEPT))
    different: list[str] = field(default_factory=list)
    threads: int = 0
    turns: int = 0
    returns: int = 0
    resumed: int = 0
    deleted: int = 0
    compared: int = 0
    compared_by_stock: int = 0
    started: float = field(default_factory=time.monotonic)

    def write(self, thread_id: str, values: Mapping[str, Any]) -> None:
        """A turn ended with these values: those of the turns before must be their beginning."""
        now, before = remembered(values), self.written.get(thread_id)
        if before is None:
            self.threads += 1
        elif now["messages"][: len(before["messages"])] != before["messages"]:
            self._differs(thread_id, "a turn began without what was said before")
        self.written[thread_id] = now
        self.turns += 1

    def compare(self, thread_id: str, values: Mapping[str, Any], where: str) -> None:
        """These values were read back."""
        self.compared += 1
        if remembered(values) != self.written.get(thread_id):
            self._differs(thread_id, f"read from {where} it is not what was written")

    def delete(self, thread_id: str, found: object) -> None:
        """The thread was deleted, and this was found afterwards."""
        del self.written[thread_id]
        self.deleted += 1
        if found is not None:
            self._differs(thread_id, "it was deleted and is still there")

    def tell(self, event: str) -> None:
        """Remember an event for the people who watch."""
        self.events.append(f"{self.seconds:5.1f} s  {event}")

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started

    def _differs(self, thread_id: str, fact: str) -> None:
        self.different.append(f"thread {thread_id}: {fact}")
        self.tell(f"DIFFERENT: {self.different[-1]}")
