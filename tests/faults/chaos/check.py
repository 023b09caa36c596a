"""The reckoning: read everything back from both tiers and through the stock saver, and compare with the notes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from tests.faults.chaos.agent import SPECIAL, values_of
from tests.faults.chaos.history import Expected

KINDS = (
    "acknowledged and missing",
    "acknowledged and not in Postgres",
    "resurrected",
    "head went backwards",
    "incomplete checkpoint",
    "half a thread",
    "unlike the stock saver",
    "agent crashed",
)


class Reader(Protocol):
    """What both savers can do."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None: ...

    def alist(self, config: RunnableConfig | None) -> AsyncIterator[CheckpointTuple]: ...


@dataclass
class Reckoning:
    """Violations with an example of each, and what was looked at."""

    violations: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    checkpoints: int = 0
    writes: int = 0
    retained: int = 0

    def add(self, kind: str, thread_id: str, told: str) -> None:
        self.violations[kind] += 1
        self.examples.setdefault(kind, f"{thread_id}: {told}")

    async def look(self, name: str, reader: Reader, threads: dict[str, Expected]) -> dict[str, list[CheckpointTuple]]:
        """Compare all threads as one reader sees them, and return what it sees."""
        gate = asyncio.Semaphore(8)
        seen: dict[str, list[CheckpointTuple]] = {}

        async def one(thread_id: str, model: Expected) -> None:
            async with gate:
                config: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
                seen[thread_id] = [entry async for entry in reader.alist(config)]
                latest = await reader.aget_tuple(config)
            found = {entry.checkpoint["id"]: entry for entry in seen[thread_id]}
            head = latest.checkpoint["id"] if latest else ""
            if head < model.least or head != max(found, default=""):
                self.add("head went backwards", thread_id, f"{name} says {head or None}, expected {model.least}")
            self._compare_puts(name, thread_id, model, found)
            self._compare_writes(name, thread_id, model, found)

        await asyncio.gather(*(one(thread_id, model) for thread_id, model in threads.items()))
        return seen

    def compare(self, ours: dict[str, list[CheckpointTuple]], theirs: dict[str, list[CheckpointTuple]]) -> None:
        """The stock saver shows the same."""
        for thread_id, seen in ours.items():
            if seen != theirs[thread_id]:
                self.add("unlike the stock saver", thread_id, f"{len(seen)} and {len(theirs[thread_id])} checkpoints")

    def _compare_puts(self, name: str, thread_id: str, model: Expected, found: dict[str, CheckpointTuple]) -> None:
        for id_ in model.gone & set(found):
            self.add("resurrected", thread_id, f"{name} shows {id_}")
        eras: dict[int, set[bool]] = {}
        for id_, put in model.puts.items():
            entry = found.get(id_)
            if put.era is not None:
                eras.setdefault(put.era, set()).add(entry is not None)
            if entry is None:
                if put.is_required:
                    self.add("acknowledged and missing", thread_id, f"{name} lacks checkpoint {id_}")
                continue
            self.checkpoints += 1
            if entry.checkpoint["channel_values"] != values_of(put.note["origin"], put.value):
                self.add("incomplete checkpoint", thread_id, f"{name} shows {id_} without its values")
        for era, was_found in eras.items():
            self.retained += was_found == {False}
            if len(was_found) > 1:
                self.add("half a thread", thread_id, f"{name} shows some of era {era}")

    def _compare_writes(self, name: str, thread_id: str, model: Expected, found: dict[str, CheckpointTuple]) -> None:
        """Of checkpoints that are there; one that is missing is told of already."""
        for (id_, task), write in model.writes.items():
            if id_ not in found or not write.is_acknowledged:
                continue
            self.writes += 1
            if (task, "number", write.value) not in _writes(found[id_]):
                self.add("acknowledged and missing", thread_id, f"{name} lacks {task} of {id_}")
        for id_, attempts in model.specials.items():
            allowed = _allowed([(attempt.value, attempt.is_acknowledged) for attempt in attempts])
            seen = [value for task, channel, value in _writes(found.get(id_)) if channel == SPECIAL]
            if id_ in found and allowed is not None and (len(seen) != 1 or seen[0] not in allowed):
                self.add("acknowledged and missing", thread_id, f"{name} has special {seen} on {id_}, not {allowed}")


def _writes(entry: CheckpointTuple | None) -> list[Any]:
    return list(entry.pending_writes or ()) if entry else []


def _allowed(attempts: list[tuple[Any, bool]]) -> set[Any] | None:
    """
    The last acknowledged value, or one that was never acknowledged: its command may have come late. None: any or none.
    """
    acknowledged = [value for value, is_acknowledged in attempts if is_acknowledged]
    if not acknowledged:
        return None
    return {acknowledged[-1], *(value for value, is_acknowledged in attempts if not is_acknowledged)}
