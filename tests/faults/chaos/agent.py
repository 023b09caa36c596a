"""
One agent process of the chaos: `python -m tests.faults.chaos.agent NUMBER SEED NOTES`. It writes numbered values to
threads of its own and to threads that all agents write, notes each call before and after, and reads them back; some it
deletes, prunes, copies, or leaves to retention.
"""

import asyncio
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum
from pathlib import Path

import psycopg
from langgraph.checkpoint.base.id import uuid6

from saver import TierConfig, TieredSaver
from saver.errors import ColdTierError, HotTierError
from tests.builders import Thread
from tests.faults.chaos.history import RETAIN_SECONDS, Expected, Ledger, Notes, read_notes
from tests.faults.world import FAMILIES

TASKS = 3
THREADS = 6  # of each task
SHARED = 2  # of each kind
SPECIAL = "__error__"
COPIES = 3  # of a thread, by one process
REST_SECONDS = RETAIN_SECONDS + 3
FAULTS = (HotTierError, ColdTierError)  # what a fault may cost: the call says so


class Kind(Enum):
    """Whose a thread is, and what is done to it."""

    OWN = "written by one task, deleted, pruned, copied"
    SHARED = "written by all agents"
    DOOMED = "put and deleted by all agents"


def values_of(thread_id: str, number: int) -> dict[str, list[str | int]]:
    """Two channels: one changes with each checkpoint, one with every third."""
    return {"number": [number], "text": [f"{thread_id} {number // 3} " * 30]}


class Writer:
    """Writes one thread, call after call."""

    def __init__(self, saver: TieredSaver, kind: Kind, name: str, agent: "Agent") -> None:
        self.thread = Thread(saver, name)
        self.resting_until = 0.0
        self._kind = kind
        self._agent = agent
        self._text: list[str | int] = []
        self._copies = 0

    @property
    def model(self) -> Expected:
        return self._agent.ledger.threads.setdefault(self.thread.thread_id, Expected())

    async def step(self) -> None:
        roll = self._agent.chance.random()
        if self._kind is Kind.DOOMED:
            await (self._delete() if roll < 0.1 else self._put())
        elif roll < 0.45 or not self.model.least:
            await self._put()
        elif roll < 0.60:
            await self._write("write", "number", f"task-{self._agent.number}-{self.model.number + 1}")
        elif roll < 0.70:
            await self._write("special", SPECIAL, f"special-{self._agent.number}")
        elif roll < 0.94 or self._kind is Kind.SHARED:
            await self._read()
        elif roll < 0.96:
            await self._delete()
        elif roll < 0.98:
            await self._prune()
        elif roll < 0.99:
            await self._copy()
        else:
            self.resting_until = time.monotonic() + REST_SECONDS

    async def _put(self) -> None:
        number, id_ = self.model.number + 1, str(uuid6(clock_seq=-2))
        values = values_of(self.thread.thread_id, number)
        changed = ["number"] if values["text"] == self._text else ["number", "text"]
        self._text = values["text"]
        async with self._noted("put", number, id=id_):
            await self.thread.put(values, changed=changed, id_=id_)
        await self._look_into_postgres(id_)

    async def _write(self, verb: str, channel: str, task: str) -> None:
        number, id_ = self.model.number + 1, self.model.least
        async with self._noted(verb, number, id=id_, task=task):
            await self.thread.write((channel, number), task=task, checkpoint_id=id_)

    async def _delete(self) -> None:
        async with self._noted("delete", self.model.number):
            await self.thread.saver.adelete_thread(self.thread.thread_id)
        self.thread.checkpoint_id = None

    async def _prune(self) -> None:
        async with self._noted("prune", self.model.number):
            await self.thread.saver.aprune([self.thread.thread_id])

    async def _copy(self) -> None:
        if self._copies >= COPIES:
            return
        self._copies += 1
        source, number = self.thread.thread_id, self.model.number
        target = f"copy-{number}-of-{source}"
        async with self._noted("copy", number, thread=target, source=source):
            await self.thread.saver.acopy_thread(source, target)

    async def _read(self) -> None:
        self.model.pass_time(time.monotonic())
        least = self.model.least
        found = await self.thread.latest()
        id_ = found.checkpoint["id"] if found else ""
        if id_ < least:
            told = f"{id_ or None} after {least}"
            self._agent.notes.violation("head went backwards", self.thread.thread_id, told)

    async def _look_into_postgres(self, id_: str) -> None:
        """With write-through, what is acknowledged is in Postgres."""
        config = self._agent.config
        if config.write_mode != "through" or self._kind is Kind.DOOMED or self._agent.chance.random() < 0.8:
            return
        query = f"select 1 from {config.postgres_schema}.checkpoints where thread_id = %s and checkpoint_id = %s"
        with suppress(psycopg.OperationalError, TimeoutError):
            connection = await psycopg.AsyncConnection.connect(self._agent.postgres_url, connect_timeout=3)
            async with connection, asyncio.timeout(5):
                cursor = await connection.execute(query.encode(), (self.thread.thread_id, id_))
                if await cursor.fetchone() is None:
                    self._agent.notes.violation("acknowledged and not in Postgres", self.thread.thread_id, id_)

    @asynccontextmanager
    async def _noted(self, verb: str, number: int, **more: str) -> AsyncIterator[None]:
        """Notes a call before and after. One that is cut off between has no end in the notes."""
        agent = self._agent
        name = self.thread.thread_id
        what = {"do": verb, "thread": name, "origin": name, "number": number, "value": number, **more}
        note = agent.notes.begin(what)
        attempt = agent.ledger.begin(note)
        try:
            yield
        except FAULTS:
            agent.notes.failed(note)
            agent.ledger.failed(attempt)
            raise
        agent.ledger.done(attempt, agent.notes.done(note))


class Agent:
    """What the writers of a process share."""

    def __init__(self, number: int, seed: int, path: Path, postgres_url: str) -> None:
        self.number = number
        self.postgres_url = postgres_url
        self.config = TierConfig.from_env()
        self.ledger: Ledger = read_notes([path])
        self.notes = Notes(path)
        self.chance = random.Random(seed)
        self.stop = asyncio.Event()

    async def run(self) -> None:
        """Open a saver and write, until it is told to stop."""
        family = list(FAMILIES.values())[self.number % 2]
        while not self.stop.is_set():
            try:
                async with family(self.config) as saver, asyncio.TaskGroup() as group:
                    for task in range(TASKS):
                        group.create_task(self._write_on(self._writers(saver, task)))
            except FAULTS:  # while it was opened; there is nobody to tell
                continue

    def _writers(self, saver: TieredSaver, task: int) -> list[Writer]:
        own = [Writer(saver, Kind.OWN, f"agent-{self.number}-{task}-{one}", self) for one in range(THREADS)]
        if task:
            return own
        shared = [Writer(saver, Kind.SHARED, f"shared-{one}", self) for one in range(SHARED)]
        return [*shared, *(Writer(saver, Kind.DOOMED, f"doomed-{one}", self) for one in range(SHARED)), *own]

    async def _write_on(self, writers: list[Writer]) -> None:
        """Some threads often, others seldom, so that those go cold in between."""
        while not self.stop.is_set():
            writer = self.chance.choice(writers[: self.chance.randint(1, len(writers))])
            if writer.resting_until < time.monotonic():
                try:
                    await writer.step()
                except FAULTS:
                    await self._rest(0.05)
            await self._rest(self.chance.uniform(0, 0.05))

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), seconds)


async def main(number: int, seed: int, path: Path, postgres_url: str) -> None:
    agent = Agent(number, seed, path, postgres_url)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, agent.stop.set)
    await agent.run()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]))
