"""
Load: bring a namespace of a thread from cold into hot, so that the next put needs Redis alone.

The load token ties the copy to what was read: whoever evicts or changes the thread meanwhile takes the token away, and
the copy is refused.
"""

from functools import partial

from saver import hot
from saver.archive import NEVER, archive
from saver.cold import Transaction, rows_from
from saver.connect import Tiers
from saver.hot import WHOLE, HotPage, Request, Status
from saver.policy import vanishes_after_ms
from saver.rows import Rows

MOST_ATTEMPTS = 5


async def promote(tiers: Tiers, thread_id: str, namespace: str = "") -> bool:
    """Make a namespace resident unless it is. Returns whether this call did it. Raises HotTierError, ColdTierError."""
    for _ in range(MOST_ATTEMPTS):
        reply = await tiers.hot.call(hot.load(tiers.keys.thread(thread_id), thread_id, namespace))
        if reply[0] == Status.OK:
            return False
        if reply[0] == Status.SUSPECT:
            await heal(tiers, thread_id)
        elif await load(tiers, thread_id, namespace, reply[1].decode()):
            return True
    return False


async def heal(tiers: Tiers, thread_id: str) -> None:
    """
    Archive and drop a copy from another history of Redis; what follows loads it again from cold.

    One that vanishes stays, unless it was archived or deleted since.
    """
    if tiers.config.on_idle == "expire" and await _adopt(tiers, thread_id):
        return
    await archive(tiers, [thread_id], wait=True)


async def _adopt(tiers: Tiers, thread_id: str) -> bool:
    where = {"thread_id": thread_id}

    async def judge(transaction: Transaction) -> bool:
        _, known = await transaction.fetch_many([("lock_exclusive", where), ("tier_position", where)])
        seen = known[0][0] if known else NEVER
        return bool(await tiers.hot.call(hot.adopt(tiers.keys.thread(thread_id), thread_id, seen)))

    return await tiers.cold.transact(judge)


async def page_of(tiers: Tiers, thread_id: str, request: Request) -> HotPage:
    """A page of the listing of one thread in hot, healed first where that is needed."""
    page = hot.page_read(await tiers.hot.call(request))
    if page.status is Status.SUSPECT:
        await heal(tiers, thread_id)
        page = hot.page_read(await tiers.hot.call(request))
    return page


async def load(tiers: Tiers, thread_id: str, namespace: str, token: str) -> bool:
    """
    Read a namespace from cold and hydrate it. False if it was refused: somebody else was first, or changed it.

    All who hold the token here share one load, also one that began: they look into hot again afterwards.
    """
    return await tiers.loads.current((thread_id, namespace, token), partial(_load, tiers, thread_id, namespace, token))


async def _load(tiers: Tiers, thread_id: str, namespace: str, token: str) -> bool:
    await tiers.pause("load: begins")
    incarnation, floor, others, rows = await _read(tiers, thread_id, namespace)
    await tiers.pause("load: read")
    is_known = len(rows) > 0 or bool(others)
    vanishes_ms = 0 if is_known else vanishes_after_ms(tiers.config)
    keys = tiers.keys.thread(thread_id)
    request = hot.hydrate(keys, thread_id, token, incarnation, namespace, floor, others, rows, vanishes_ms)
    reply = await tiers.hot.call(request)
    if reply == -1:
        await heal(tiers, thread_id)
    return bool(reply == 1)


async def _read(tiers: Tiers, thread_id: str, namespace: str) -> tuple[int, str, list[str], Rows]:
    """A new incarnation number, the floor, the other namespaces in cold, and the rows from the floor on."""
    limit = tiers.config.promote_checkpoints
    where = {"thread_id": thread_id, "namespace": namespace, "limit": limit}
    records = await tiers.cold.fetch_locked("lock_shared", "load", where)
    rows = rows_from([record for record in records if record[0] in "cbw"])
    others = [record[2] for record in records if record[0] == "n"]
    [incarnation] = [int(record[4]) for record in records if record[0] == "i"]
    is_all = limit is None or len(rows.checkpoints) < limit
    floor = WHOLE if is_all else min(row.checkpoint_id for row in rows.checkpoints)
    return incarnation, floor, others, rows
