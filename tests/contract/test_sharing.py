"""One saver for many: copies, tasks and threads share it, and a call that is cancelled harms none of them."""

import asyncio
import random

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from saver import TierConfig, TieredSaver
from saver.connect import Tiers
from tests.builders import Thread
from tests.driven import MOVES


class Money:
    """A class that no allow list has."""


async def test_copy_with_a_wider_allow_list_shares_the_connections(config: TierConfig, thread: Thread) -> None:
    await thread.put({"x": [1]})
    strict = TieredSaver(config, serde=JsonPlusSerializer(allowed_msgpack_modules=None))

    async with strict:
        wider = strict.with_allowlist([(Money.__module__, "Money")])

        assert wider is not strict
        found = await wider.aget_tuple(thread.config())
        assert found is not None
        assert found.checkpoint["channel_values"] == {"x": [1]}
    assert wider.config is strict.config  # type: ignore[attr-defined]


async def test_cancelled_calls_cross_no_answers(saver: TieredSaver, tiers: Tiers) -> None:
    """CON-05, without the proxies: hot and archived threads, calls cancelled at any moment."""
    threads = [Thread(saver, f"thread-{number}") for number in range(40)]
    for thread in threads:
        await thread.put({"mark": [thread.thread_id]})
    for thread in threads[::2]:
        await MOVES["evicted"](tiers, thread.thread_id)
    order = random.Random(7)

    calls = [asyncio.ensure_future(call) for t in threads for call in (t.latest(), t.write(("x", 1)), t.latest())]
    for call in order.sample(calls, len(calls) // 2):
        await asyncio.wait({call}, timeout=0.001)
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    for thread in threads:
        assert await thread.values() == {"mark": [thread.thread_id]}
        assert len(await thread.ids()) == 1
    async with asyncio.timeout(10):
        await asyncio.gather(*(tiers.cold.fetch("answers", {}) for _ in range(20)))


async def test_calls_of_one_turn_share_few_writes(tiers: Tiers) -> None:
    async def reads_of_the_server() -> int:
        stats = (await tiers.hot.command("INFO", "stats")).decode()
        return int(stats.split("total_reads_processed:")[1].split()[0])

    await asyncio.gather(*(tiers.hot.command("PING") for _ in range(4)))
    before = await reads_of_the_server()
    await asyncio.gather(*(tiers.hot.command("PING") for _ in range(200)))

    assert await reads_of_the_server() - before < 50
