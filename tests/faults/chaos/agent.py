"""
One agent process of the chaos: `python -m tests.faults.chaos.agent NUMBER SEED NOTES`. It writes numbered values to
threads that are its own, notes each call before and after, reads them back, and sometimes deletes a thread.
"""

import asyncio
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path

from langgraph.checkpoint.base.id import uuid6

from saver import TierConfig, TieredSaver
from saver.errors import ColdTierError, HotTierError
from tests.builders import Thread
from tests.faults.chaos.history import Expected, Notes, expected
from tests.faults.world import BlockingFamily

TASKS = 4
THREADS = 6  # of each task
SPECIAL = "__error__"
FAULTS = (HotTierError, ColdTierError)  # what a fault may cost: the call says so


def values_of(thread_id: str, number: int) -> dict[str, list[str | int]]:
    """Two channels: one changes with each checkpoint, one with every third."""
    return {"number": [number], "text": [f"{thread_id} {number // 3} " * 30]}


class Writer:
    """Writes one thread, call after call."""

    def __init__(
        self, saver: TieredSaver, thread_id: str, model: Expected, notes: Notes, chance: random.Random
    ) -> None:
        self.thread = Thread(saver, thread_id)
        self.model = model
        self._notes = notes
        self._chance = chance
        self._text: list[str | int] = []

    async def step(self) -> None:
        roll = self._chance.random()
        if roll < 0.01:
            await self._delete()
        elif roll < 0.45 or not self.model.head:
            await self._put()
        elif roll < 0.60:
            await self._write("write", "number", f"task-{self.model.number + 1}")
        elif roll < 0.70:
            await self._write("special", SPECIAL, "special")
        else:
            await self._read()

    async def _put(self) -> None:
        number, id_ = self.model.number + 1, str(uuid6(clock_seq=-2))
        values = values_of(self.thread.thread_id, number)
        changed = ["number"] if values["text"] == self._text else ["number", "text"]
        self._text = values["text"]
        attempt = self._begin("put", number, id_=id_)
        await self.thread.put(values, changed=changed, id_=id_)
        self._done(attempt)

    async def _write(self, verb: str, channel: str, task: str) -> None:
        number, id_ = self.model.number + 1, self.model.head
        attempt = self._begin(verb, number, id_=id_, task=task, value=number)
        await self.thread.write((channel, number), task=task, checkpoint_id=id_)
        self._done(attempt)

    async def _delete(self) -> None:
        attempt = self._begin("delete", self.model.number)
        await self.thread.saver.adelete_thread(self.thread.thread_id)
        self._done(attempt)
        self.model.deleted()
        self.thread.checkpoint_id = None

    async def _read(self) -> None:
        least = self.model.head
        found = await self.thread.latest()
        id_ = found.checkpoint["id"] if found else ""
        if id_ < least:
            self._notes.violation("head went backwards", self.thread.thread_id, f"{id_ or None} after {least}")

    def _begin(self, verb: str, number: int, *, id_: str = "", task: str = "", value: int | None = None) -> int:
        at = self._notes.begin(verb, self.thread.thread_id, number, id_=id_, task=task, value=value or number)
        note = {"do": verb, "number": number, "id": id_, "task": task, "value": value or number}
        self._attempt = self.model.begin(note)
        return at

    def _done(self, at: int) -> None:
        self._attempt.is_acknowledged = True
        self._notes.done(at)


async def write_on(writers: list[Writer], stop: asyncio.Event, chance: random.Random) -> None:
    """Some threads often, others seldom, so that those go cold in between."""
    while not stop.is_set():
        writer = chance.choice(writers[: chance.randint(1, len(writers))])
        try:
            await writer.step()
        except FAULTS:
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 0.05)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), chance.uniform(0, 0.05))


async def main(number: int, seed: int, path: Path) -> None:
    models = expected([path])
    notes, chance, stop = Notes(path), random.Random(seed), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    family = BlockingFamily if number % 2 else TieredSaver
    while not stop.is_set():
        try:
            async with family(TierConfig.from_env()) as saver, asyncio.TaskGroup() as group:
                for task in range(TASKS):
                    names = [f"agent-{number}-{task}-{one}" for one in range(THREADS)]
                    writers = [Writer(saver, n, models.setdefault(n, Expected()), notes, chance) for n in names]
                    group.create_task(write_on(writers, stop, chance))
        except FAULTS:  # while it was opened; there is nobody to tell
            continue


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
