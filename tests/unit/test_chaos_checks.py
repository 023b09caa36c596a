"""The reckoning of the chaos run finds what it is there to find."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from tests.builders import checkpoint_of
from tests.faults.chaos.agent import SPECIAL, values_of
from tests.faults.chaos.check import Reckoning
from tests.faults.chaos.history import RETAIN_SECONDS, Notes, read_notes, violations_in

THREAD = "thread"
Seen = dict[str, list[tuple[str, str, Any]]]  # pending writes by checkpoint


class Shown:
    """A reader that shows what a test wants it to."""

    def __init__(self, seen: Seen, values: dict[str, Any]) -> None:
        self._tuples = [
            CheckpointTuple({}, checkpoint_of(values[id_], {}, id_), {}, None, writes)
            for id_, writes in sorted(seen.items(), reverse=True)
        ]

    async def alist(self, config: RunnableConfig | None) -> AsyncIterator[CheckpointTuple]:
        for found in self._tuples:
            yield found

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._tuples[0] if self._tuples else None


class Told:
    """Notes of calls that all ended at once, whatever the clock says."""

    def __init__(self, folder: Path, name: str = "notes") -> None:
        self.path = folder / name
        self.path.touch()
        self.notes = Notes(self.path)

    def call(self, verb: str, id_: str = "", value: int = 1, *, end: str = "done", task: str = "") -> None:
        note = self.begin(verb, id_, value, task=task)
        getattr(self.notes, end)(note)

    def begin(self, verb: str, id_: str = "", value: int = 1, *, task: str = "") -> dict[str, Any]:
        what = {"do": verb, "thread": THREAD, "origin": THREAD, "number": value, "value": value}
        return self.notes.begin({**what, "id": id_, "task": task})


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


async def found_in(told: Told | list[Told], seen: Seen, *, seconds_later: float = 0.0, **values: Any) -> list[str]:
    """The kinds of what is wrong."""
    threads = read_notes([one.path for one in (told if isinstance(told, list) else [told])]).threads
    for thread in threads.values():
        thread.pass_time(time.monotonic() + seconds_later)
    reckoning = Reckoning()
    shown = Shown(seen, {id_: values.get(f"of_{id_}", values_of(THREAD, 1)) for id_ in seen})
    await reckoning.look("a reader", shown, threads)
    return list(reckoning.violations)


async def test_all_that_was_acknowledged_is_fine(told: Told) -> None:
    told.call("put", "1")
    told.call("write", "1", task="task")
    told.call("special", "1", 7)

    assert await found_in(told, {"1": [("task", "number", 1), ("s", SPECIAL, 7)]}) == []


async def test_missing_checkpoint_is_found(told: Told) -> None:
    told.call("put", "1")
    told.call("put", "2")

    assert await found_in(told, {"2": []}) == ["acknowledged and missing"]


async def test_missing_head_is_found(told: Told) -> None:
    told.call("put", "1")
    told.call("put", "2")

    assert await found_in(told, {"1": []}) == ["head went backwards", "acknowledged and missing"]


@pytest.mark.parametrize("kind", ["write", "special"])
async def test_missing_write_is_found(told: Told, kind: str) -> None:
    told.call("put", "1")
    told.call(kind, "1", task="task")

    assert await found_in(told, {"1": []}) == ["acknowledged and missing"]


async def test_older_special_write_is_found(told: Told) -> None:
    told.call("put", "1")
    told.call("special", "1", 1)
    told.call("special", "1", 2)

    assert await found_in(told, {"1": [("s", SPECIAL, 1)]}) == ["acknowledged and missing"]
    assert await found_in(told, {"1": [("s", SPECIAL, 2)]}) == []


async def test_checkpoint_without_its_values_is_found(told: Told) -> None:
    told.call("put", "1")

    assert await found_in(told, {"1": []}, of_1={"number": [1]}) == ["incomplete checkpoint"]


@pytest.mark.parametrize("verb", ["delete", "prune"])
async def test_what_comes_back_is_found(told: Told, verb: str) -> None:
    told.call("put", "1")
    told.call("put", "2")
    told.call(verb)
    told.call("put", "3")

    assert await found_in(told, {"1": [], "3": []}) == ["resurrected"]
    assert await found_in(told, {"3": []}) == []


async def test_prune_must_leave_the_newest(told: Told) -> None:
    told.call("put", "1")
    told.call("put", "2")
    told.call("prune")

    assert await found_in(told, {}) == ["head went backwards"]
    assert await found_in(told, {"2": []}) == []


@pytest.mark.parametrize("end", ["done", "failed"])
@pytest.mark.parametrize("seen", [{}, {"1": []}])
async def test_call_that_nobody_acknowledged_may_have_been_done_or_not(told: Told, end: str, seen: Seen) -> None:
    if end == "done":
        told.call("put", "1")
        told.call("delete", end="failed")
    else:
        told.call("put", "1", end="failed")

    assert await found_in(told, seen) == []


@pytest.mark.parametrize("seen", [{"2": []}, {"1": [], "2": []}])
async def test_put_while_another_agent_deletes_may_be_there_or_not(told: Told, tmp_path: Path, seen: Seen) -> None:
    other = Told(tmp_path, "other")
    note = other.begin("delete")
    told.call("put", "1")
    other.notes.done(note)
    told.call("put", "2")

    assert await found_in([told, other], seen) == []
    assert await found_in([told, other], {"1": []}) == ["head went backwards", "acknowledged and missing"]


async def test_delete_of_a_process_that_died_is_over_when_it_starts_again(told: Told, tmp_path: Path) -> None:
    other = Told(tmp_path, "other")
    other.begin("delete")
    told.call("put", "1")
    Told(tmp_path, "other")
    told.call("put", "2")

    assert await found_in([told, other], {"2": []}) == []
    assert await found_in([told, other], {"1": []}) == ["head went backwards", "acknowledged and missing"]


async def test_retention_takes_all_or_nothing(told: Told) -> None:
    told.call("put", "1")
    told.call("put", "2")

    assert await found_in(told, {}, seconds_later=RETAIN_SECONDS) == []
    assert await found_in(told, {"1": [], "2": []}, seconds_later=RETAIN_SECONDS) == []
    assert await found_in(told, {"2": []}, seconds_later=RETAIN_SECONDS) == ["half a thread"]


async def test_what_an_agent_saw_is_told(told: Told) -> None:
    told.notes.violation("head went backwards", THREAD, "1 after 2")

    assert violations_in([told.path]) == [("head went backwards", THREAD, "1 after 2")]


async def test_what_the_stock_saver_shows_differently_is_found() -> None:
    ours, theirs = (Shown({"1": writes}, {"1": {}})._tuples for writes in ([], [("t", "x", 1)]))
    reckoning = Reckoning()

    reckoning.compare({THREAD: ours}, {THREAD: theirs})

    assert list(reckoning.violations) == ["unlike the stock saver"]
