"""
What each call of LangGraph does, told once for both families (see `steps.py`).

Hot is always asked before cold: whatever is missing in hot by then was committed in cold before it left.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple

from saver import hot, policy
from saver.archive import archive
from saver.codec import Address, Codec, address_of
from saver.cold import rows_from
from saver.config import TierConfig
from saver.connect import Tiers
from saver.errors import ColdTierError, HotTierError
from saver.forks import confirm_parent, stale
from saver.hot import HotCheckpoint, Status, Stored
from saver.keys import Keys
from saver.load import heal, load
from saver.metrics import READS, WRITES
from saver.queue import Hints
from saver.rows import Rows, WriteRow
from saver.run_lock import fence_of, lost
from saver.runs import NewRuns, mark
from saver.steps import Slow, Steps

MOST_ATTEMPTS = 12
OLD_FORMAT = 4  # checkpoints of a lower `v` keep their pending sends with their parent


@dataclass(slots=True)
class Context:
    """What operations need beside the tiers."""

    config: TierConfig
    keys: Keys
    hints: Hints
    first_version: Callable[[], Any]
    new_runs: NewRuns = field(default_factory=NewRuns)

    @property
    def is_through(self) -> bool:
        return self.config.write_mode == "through"


# ---- put


def put(
    context: Context,
    codec: Codec,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> Steps[RunnableConfig]:
    """Store a checkpoint: one round trip when its thread is resident."""
    encoded = codec.encode_checkpoint(config, checkpoint, metadata, new_versions)
    address = encoded.address
    keys = context.keys.thread(address.thread_id)
    fence = fence_of(context.keys, address.thread_id)
    confirmed = ""
    for _ in range(MOST_ATTEMPTS):
        run_history = context.new_runs.history_of(config, address) if encoded.is_delta else ""
        reply = hot.stored((yield hot.put(keys, encoded, run_history, confirmed, fence)))
        if reply.status is Status.OK:
            WRITES["checkpoint"].inc()
            if reply.vanishes and policy.is_archived(context.config, config, metadata):
                yield hot.keep(keys, address.thread_id)
            if (rest := _acknowledge(context, address.thread_id, reply)) is not None:
                yield rest
            return address.config
        if reply.status is Status.NEED:
            whole = codec.encode_checkpoint(config, checkpoint, metadata, None)
            # The snapshots that cold gave are not among its own values.
            encoded = whole._replace(blobs=whole.blobs | {name: blob for name, blob in encoded.blobs.items() if blob})
        elif reply.status is Status.PART:
            confirmed = yield from confirm_parent(encoded, reply)
        elif reply.status is Status.STALE:
            context.new_runs.forget(address)
            raise stale()
        else:
            yield from _make_resident(address, reply)
    raise _restless(address)


def put_writes(
    context: Context,
    codec: Codec,
    config: RunnableConfig,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    task_path: str,
) -> Steps[None]:
    """Store the writes of one task: one round trip when its thread is resident."""
    address = address_of(config)
    value = codec.encode_writes(address, writes, task_id, task_path)
    keys = context.keys.thread(address.thread_id)
    fence = fence_of(context.keys, address.thread_id)
    for _ in range(MOST_ATTEMPTS):
        # A request of its own for each attempt: a load token that was taken away must not come back.
        request = hot.put_writes(keys, address.thread_id, address.namespace, address.checkpoint_id, value, fence)
        reply = hot.stored((yield request))
        if reply.status is Status.OK:
            WRITES["writes"].inc()
            if (rest := _acknowledge(context, address.thread_id, reply)) is not None:
                yield rest
            return
        yield from _make_resident(address, reply)
    raise _restless(address)


def _make_resident(address: Address, reply: Stored) -> Steps[None]:
    if reply.status is Status.MISS:
        yield Slow(load, (address.thread_id, address.namespace, reply.token))
    elif reply.status is Status.LOCKED:
        raise lost()
    else:
        yield Slow(heal, (address.thread_id,))


def _restless(address: Address) -> HotTierError:
    return HotTierError(f"namespace {address.namespace!r} kept leaving Redis while it was written; try again")


def _acknowledge(context: Context, thread_id: str, reply: Stored) -> Slow | None:
    """What is left to do before a put can be acknowledged, if anything is."""
    if context.is_through:
        return Slow(_await_archive, (thread_id, reply.incarnation, reply.position))
    if reply.is_first_of_partition:
        context.hints.archive(context.keys.partition(thread_id))
    return None


async def _await_archive(tiers: Tiers, thread_id: str, incarnation: int, position: int) -> None:
    """Write-through: in Postgres when the tier row says so. An empty log alone proves nothing."""
    is_nothing_left = False
    for _ in range(MOST_ATTEMPTS):
        records = await tiers.cold.fetch("tier_position", {"thread_id": thread_id})
        if records and records[0][0] == incarnation and records[0][1] >= position:
            return
        if is_nothing_left:
            break
        done = await archive(tiers, [thread_id], wait=True)
        is_nothing_left = done.threads == 0
    raise ColdTierError("Redis lost this write before it was in Postgres; read the thread and repeat the run")


# ---- get


def get_tuple(context: Context, codec: Codec, config: RunnableConfig) -> Steps[CheckpointTuple | None]:
    """Read a checkpoint: hot alone where it holds everything, otherwise cold, merged with what hot has."""
    address = address_of(config)
    found = yield from _read_hot(context, address)
    if found.is_whole:
        READS["hot", "hit" if found.rows.checkpoints else "none"].inc()
        rows = found.rows
    else:
        rows = merged(found.rows, (yield Slow(_read_cold, (address,))))
        READS["cold", "hit" if rows.checkpoints else "none"].inc()
        if rows.checkpoints:
            context.hints.promote()
    if not rows.checkpoints:
        context.new_runs.note(address, found.history)
        return None
    result = yield from decoded(context, codec, address.thread_id, rows)
    mark(result, found.history)
    return result


@dataclass(slots=True)
class _Hot:
    is_whole: bool
    rows: Rows
    history: str


def _read_hot(context: Context, address: Address) -> Steps[_Hot]:
    keys = context.keys.thread(address.thread_id)
    for _ in range(MOST_ATTEMPTS):
        reply = yield hot.read(keys, address.thread_id, address.namespace, address.checkpoint_id)
        status, checkpoint = hot.checkpoint_read(address.namespace, reply)
        if status is not Status.SUSPECT:
            return _Hot(status is Status.OK, as_rows(checkpoint) if checkpoint else Rows(), reply[-1].decode())
        yield Slow(heal, (address.thread_id,))
    raise _restless(address)


async def _read_cold(tiers: Tiers, address: Address) -> Rows:
    await tiers.pause("get: hot read")
    if address.checkpoint_id:
        rows = await tiers.cold.read_one(*address)
    else:
        rows = await tiers.cold.read_newest(address.thread_id, address.namespace)
    await tiers.pause("get: cold read")
    return rows


def as_rows(checkpoint: HotCheckpoint) -> Rows:
    return Rows([checkpoint.row] if checkpoint.row else [], checkpoint.blobs, checkpoint.writes)


def merged(hot_rows: Rows, cold_rows: Rows) -> Rows:
    """One checkpoint from both tiers: hot wins for its row and for special writes, cold for ordinary writes."""
    own = hot_rows if hot_rows.checkpoints else cold_rows
    # The decoder keeps the first of ordinary writes and the last of special ones.
    return Rows(own.checkpoints, own.blobs, [*cold_rows.writes, *hot_rows.writes])


def decoded(context: Context, codec: Codec, thread_id: str, rows: Rows) -> Steps[CheckpointTuple]:
    """The tuple of one checkpoint; one of an old format gets its pending sends from its parent."""
    row = rows.checkpoints[0]
    result = codec.decode(thread_id, row, rows.blobs, rows.writes)
    if row.parent_id and result.checkpoint.get("v", OLD_FORMAT) < OLD_FORMAT:
        parent = Address(thread_id, row.namespace, row.parent_id)
        sends = yield from _writes_of(context, parent)
        codec.add_pending_sends(result, sends, context.first_version())
    return result


def _writes_of(context: Context, address: Address) -> Steps[list[WriteRow]]:
    found = yield from _read_hot(context, address)
    if found.is_whole:
        return found.rows.writes
    records = yield Slow(_read_cold_writes, (address,))
    return [*records, *found.rows.writes]


async def _read_cold_writes(tiers: Tiers, address: Address) -> list[WriteRow]:
    where = {
        "thread_id": address.thread_id,
        "namespace": address.namespace,
        "checkpoint_id": address.checkpoint_id,
    }
    return rows_from(await tiers.cold.fetch("read_writes", where)).writes
