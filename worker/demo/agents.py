"""The agents of the demo: customers who talk, go away, and come back to threads that were archived meanwhile."""

import asyncio
from dataclasses import dataclass
from itertools import count
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from saver.config import TierConfig
from saver.tiered import TieredSaver
from worker.demo.ledger import Ledger
from worker.demo.shop import APPROVAL_FROM, Assistant, assistant, order
from worker.demo.waiting import until

CUSTOMERS = ("ada", "ben", "cleo", "dan")
APPROVERS = ("eve",)
ARTICLES = ("apples", "pears", "plums")

THINKS_SECONDS = 0.3
MOST_SECONDS_TO_GO_COLD = 30.0
MOST_SECONDS_TO_GET_HOT = 5.0
MOST_THREADS = 20


@dataclass(slots=True)
class Stage:
    """What all agents share."""

    config: TierConfig
    saver: TieredSaver
    ledger: Ledger
    over: asyncio.Event

    @property
    def graph(self) -> Assistant:
        return assistant(self.saver)

    async def think(self, seconds: float = THINKS_SECONDS) -> None:
        """Wait, but not beyond the end."""
        try:
            async with asyncio.timeout(seconds):
                await self.over.wait()
        except TimeoutError:
            return


async def customer(stage: Stage, name: str) -> None:
    """Open a thread, come back to an archived one, forget the oldest of many; again and again."""
    graph, mine, numbers = stage.graph, list[str](), count(1)
    while not stage.over.is_set():
        thread_id = f"{name}-{next(numbers)}"
        for turn in (1, 2):
            await _talk(stage, graph, thread_id, turn)
            await stage.think()
        mine.append(thread_id)
        if cold := await _first_cold(stage, mine):
            await _return(stage, graph, cold)
            mine.remove(cold)
            mine.append(cold)
        while len(mine) > MOST_THREADS:
            await _forget(stage, mine.pop(0))
    if not stage.ledger.returns:
        # So short a demo had no thread to come back to until now.
        await until(lambda: _first_cold(stage, mine), MOST_SECONDS_TO_GO_COLD)
        if cold := await _first_cold(stage, mine):
            await _return(stage, graph, cold)


async def approver(stage: Stage, name: str) -> None:
    """Leave threads that wait for a person; a saver of its own resumes each when it is archived."""
    mine = list[str]()
    for number in count(1):
        thread_id = f"{name}-{number}"
        where = _config(thread_id)
        await stage.graph.ainvoke(order(1, APPROVAL_FROM + number, ARTICLES[0]), where)
        stage.ledger.tell(f"{thread_id} waits for an approval")
        if not await until(lambda t=thread_id: _is(stage, t, "cold"), MOST_SECONDS_TO_GO_COLD):  # type: ignore[misc]
            stage.ledger.tell(f"{thread_id} did not become cold")
            return
        # Nothing of the first saver is used: all there is of this run is in Postgres.
        async with TieredSaver(stage.config) as other:
            values = await assistant(other).ainvoke(Command(resume="yes"), where)
        stage.ledger.write(thread_id, values)
        stage.ledger.compare(thread_id, await _values(stage.graph, thread_id), "the tiers after the resume")
        stage.ledger.resumed += 1
        stage.ledger.tell(f"{thread_id} was approved: resumed from Postgres")
        mine.append(thread_id)
        while len(mine) > MOST_THREADS:
            await _forget(stage, mine.pop(0))
        await stage.think()
        if stage.over.is_set():
            return


async def _talk(stage: Stage, graph: Assistant, thread_id: str, turn: int) -> None:
    article = ARTICLES[turn % len(ARTICLES)]
    stage.ledger.write(thread_id, await graph.ainvoke(order(turn, turn, article), _config(thread_id)))
    stage.ledger.compare(thread_id, await _values(graph, thread_id), "hot")


async def _return(stage: Stage, graph: Assistant, thread_id: str) -> None:
    """Read what Postgres remembers, and go on when the worker has brought the thread back."""
    stage.ledger.compare(thread_id, await _values(graph, thread_id), "cold")
    stage.ledger.returns += 1
    is_hot = await until(lambda: _is(stage, thread_id, "hot"), MOST_SECONDS_TO_GET_HOT)
    stage.ledger.compare(thread_id, await _values(graph, thread_id), "hot again")
    stage.ledger.tell(f"{thread_id} is back: read from Postgres{', then promoted' if is_hot else ''}")
    await _talk(stage, graph, thread_id, len(stage.ledger.written[thread_id]["messages"]))


async def _forget(stage: Stage, thread_id: str) -> None:
    await stage.saver.adelete_thread(thread_id)
    stage.ledger.delete(thread_id, await stage.saver.aget_tuple(_config(thread_id)))


async def _values(graph: Assistant, thread_id: str) -> dict[str, Any]:
    return dict((await graph.aget_state(_config(thread_id))).values)


async def _first_cold(stage: Stage, thread_ids: list[str]) -> str | None:
    for thread_id in thread_ids:
        if await _is(stage, thread_id, "cold"):
            return thread_id
    return None


async def _is(stage: Stage, thread_id: str, tier: str) -> bool:
    return bool(await stage.saver.tier_of(thread_id) == tier)


def _config(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}
