"""
Delta-channel history: the writes a channel is rebuilt from, back to the nearest ancestor that stores its value.

Hot is read first, then cold once from where hot ends. Of an ancestor that both know, hot wins for the row and for
special writes, cold for ordinary writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import DeltaChannelHistory

from saver.codec import Address, Codec, address_of, in_order
from saver.cold import rows_from
from saver.connect import Tiers
from saver.errors import HotTierError
from saver.hot import Request, Status
from saver.keys import ThreadKeys
from saver.load import heal
from saver.operations import Context, merged
from saver.pack import unpack_checkpoint, unpack_pairs, unpack_writes
from saver.rows import Rows, WriteRow
from saver.scripts import script
from saver.steps import Slow, Steps

PAGE = 200
MOST_ATTEMPTS = 12


def delta_history(
    context: Context, codec: Codec, config: RunnableConfig, channels: Sequence[str]
) -> Steps[dict[str, DeltaChannelHistory]]:
    """Walk the parents of a checkpoint: per channel the writes, oldest first, and the value they start from."""
    address = address_of(config)
    writes: dict[str, list[WriteRow]] = {channel: [] for channel in channels}
    seeds: dict[str, Any] = {}
    wanted = list(writes)
    ancestry = _Ancestry(context, address, wanted)
    rows = (yield from ancestry.target()) if wanted else Rows()
    passed: set[str] = set()
    while rows.checkpoints and wanted and (parent := rows.checkpoints[0].parent_id) and parent not in passed:
        passed.add(parent)
        rows = yield from ancestry.rows_of(parent, wanted)
        if not rows.checkpoints:
            break
        for write in reversed(in_order(rows.writes)):
            if write.channel in wanted:
                writes[write.channel].append(write)
        stored = codec.stored_values(rows.checkpoints[0], rows.blobs, wanted)
        seeds |= stored
        wanted = [channel for channel in wanted if channel not in stored]
    return {channel: _entry(codec, channel, found, seeds) for channel, found in writes.items()}


def _entry(codec: Codec, channel: str, found: list[WriteRow], seeds: dict[str, Any]) -> DeltaChannelHistory:
    entry = DeltaChannelHistory(writes=[codec.pending(write) for write in reversed(found)])
    if channel in seeds:
        entry["seed"] = seeds[channel]
    return entry


@dataclass(slots=True)
class _Ancestry:
    """The rows of a checkpoint and its ancestors, from whichever tier has them."""

    context: Context
    address: Address
    channels: Sequence[str]
    floor: str | None = None  # None: hot does not have the namespace
    last: str | None = None  # the oldest id hot has told of, if it has more
    hot: dict[str, Rows] = field(default_factory=dict)
    cold: dict[str, Rows] = field(default_factory=dict)

    def target(self) -> Steps[Rows]:
        head = yield from self._read_hot("")
        checkpoint_id = self.address.checkpoint_id or head
        if self.floor is None and not checkpoint_id:
            self.cold = yield Slow(_read_cold, (self.address, None, self.channels, True))
            return self.cold.get(max(self.cold, default=""), Rows())
        return (yield from self.rows_of(checkpoint_id, self.channels, is_target=True))

    def rows_of(self, checkpoint_id: str, wanted: Sequence[str], *, is_target: bool = False) -> Steps[Rows]:
        while self.last is not None and checkpoint_id < self.last:
            yield from self._read_hot(self.last)
        in_hot = self.hot.get(checkpoint_id, Rows())
        if self.floor is not None and checkpoint_id >= self.floor:
            return in_hot
        if checkpoint_id not in self.cold:
            self.cold |= yield Slow(_read_cold, (self.address, checkpoint_id, wanted, is_target))
        return merged(in_hot, self.cold.get(checkpoint_id, Rows()))

    def _read_hot(self, before: str) -> Steps[str]:
        """Read the next page of hot; returns the id of its newest checkpoint."""
        thread_id, namespace, _ = self.address
        keys = self.context.keys.thread(thread_id)
        for _ in range(MOST_ATTEMPTS):
            page = _page_read(namespace, (yield _request(keys, self.address, before, self.channels)))
            if page.status is not Status.SUSPECT:
                self.floor, self.last = page.floor, page.last
                self.hot |= page.entries
                return page.head
            yield Slow(heal, (thread_id,))
        raise HotTierError("the thread kept changing its history; try again")


async def _read_cold(
    tiers: Tiers, address: Address, start: str | None, channels: Sequence[str], is_target: bool
) -> dict[str, Rows]:
    parameters = {
        "thread_id": address.thread_id,
        "namespace": address.namespace,
        "checkpoint_id": start,
        "channels": list(channels),
        "is_target": is_target,
    }
    found = rows_from(await tiers.cold.fetch("read_history", parameters))
    chain = {row.checkpoint_id: Rows([row], found.blobs) for row in found.checkpoints}
    for write in found.writes:
        chain.setdefault(write.checkpoint_id, Rows()).writes.append(write)
    return chain


class _Page(NamedTuple):
    """What hot knows of a namespace from one id down, newest first."""

    status: Status
    floor: str | None
    head: str = ""
    last: str | None = None  # the oldest id told, if there are more
    entries: dict[str, Rows] = {}  # noqa: RUF012 - nobody changes it


def _request(keys: ThreadKeys, address: Address, before: str, channels: Sequence[str]) -> Request:
    thread_id, namespace, newest = address
    return Request(script("history"), keys, (thread_id, namespace, newest, before, PAGE, *channels))


def _page_read(namespace: str, reply: list[Any]) -> _Page:
    status = Status(reply[0])
    if status is not Status.OK:
        return _Page(status, None)
    floor, head, has_more, flat, pairs = reply[1:]
    blobs = unpack_pairs(namespace, pairs)
    entries: dict[str, Rows] = {}
    for id_, value, chunks in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        checkpoint_id = id_.decode()
        rows = entries[checkpoint_id] = Rows()
        if value:
            references, row = unpack_checkpoint(namespace, checkpoint_id, value)
            rows.checkpoints.append(row)
            rows.blobs += [blobs[name] for name in references if name in blobs]
        rows.writes += [write for chunk in chunks for write in unpack_writes(namespace, checkpoint_id, chunk)]
    last = min(entries) if has_more and entries else None
    return _Page(status, floor.decode(), head.decode(), last, entries)
