"""Whatever is called in whatever order, and wherever the threads are meanwhile, answers are those of InMemorySaver."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args
from uuid import uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, _DeltaSnapshot
from langgraph.checkpoint.serde.types import TASKS as SENDS

from saver import TierConfig, TieredSaver, hot
from saver.archive import archive
from saver.connect import Tiers, connect
from saver.demote import demote
from saver.directory import list_threads
from saver.load import promote
from tests.builders import checkpoint_of
from tests.driven import Driven, Family
from tests.properties.conftest import least_operations
from tests.properties.oracle import Oracle, ids, shown

TOLD_EVERY = 5000  # operations

THREADS = st.sampled_from(["a", "b"])
NAMESPACES = st.sampled_from(["", "child"])
NUMBERS = st.integers(0, 30)  # checkpoint ids, so that they come out of order and come again
VALUES = st.sampled_from(
    [None, True, 7, 1.5, -0.0, "text", "nul\0", b"bytes", [1, "a"], {"k": [2]}, 2**63, float("nan")]
)
CHANNELS = st.sampled_from(["x", "y"])
TASKS = st.sampled_from(["task-1", "task-2"])
WRITTEN = st.sampled_from(["x", "d", SENDS, ERROR, INTERRUPT, RESUME])
WRITES = st.lists(st.tuples(WRITTEN, VALUES), min_size=1, max_size=3)
LIMITS = st.none() | st.integers(0, 4)
RUNS = st.sampled_from(["run-1", "run-2"])
DELTA = "d"  # a delta channel: most of its checkpoints do not store it
DELTAS = st.sampled_from(["none", "written", "snapshot"])


@dataclass
class Progress:
    """How many operations were done, told now and then."""

    tell: Callable[[str], None]
    operations: int = 0
    _start: float = field(default_factory=time.monotonic)

    def count(self) -> None:
        self.operations += 1
        if self.operations % TOLD_EVERY == 0:
            self.tell(f"{self.operations} operations, {(time.monotonic() - self._start) / 60:.1f} minutes")


class Conversation(RuleBasedStateMachine):
    """One saver and the oracle, told the same; the moves are told to the saver alone."""

    runner: asyncio.Runner
    saver: Driven
    tiers: Tiers
    progress: Progress

    @initialize()
    def begin(self) -> None:
        self.oracle = Oracle(serde=self.saver.serde)
        self.example = uuid4().hex
        self.states: dict[tuple[str, str, str], tuple[dict[str, Any], dict[str, Any]]] = {}
        self.metadata: dict[tuple[str, str, str], dict[str, Any]] = {}

    # ---- what agents do

    @rule(
        thread=THREADS,
        namespace=NAMESPACES,
        number=NUMBERS,
        parent=NUMBERS,
        changes=st.dictionaries(CHANNELS, VALUES),
        delta=DELTAS,
        run=RUNS,
        is_old=st.sampled_from([False, False, True]),
    )
    def put(
        self,
        thread: str,
        namespace: str,
        number: int,
        parent: int,
        changes: dict[str, Any],
        delta: str,
        run: str,
        is_old: bool,
    ) -> None:
        place = (self.thread(thread), namespace, f"{number:04}")
        older = [id_ for id_ in self.known(*place[:2]) if id_ < place[2]]
        parent_id = older[parent % len(older)] if older else None
        if place in self.states:
            values, versions = self.states[place]
            new: dict[str, Any] = {}
        else:
            base_values, base_versions = self.states.get((*place[:2], parent_id or ""), ({}, {}))
            changed = {**changes, **({DELTA: _DeltaSnapshot([number])} if delta == "snapshot" else {})}
            names = [*changes, *([DELTA] if delta != "none" else [])]
            new = {name: self.saver.get_next_version(base_versions.get(name), None) for name in names}
            values = {name: value for name, value in base_values.items() if name != DELTA} | changed
            versions = base_versions | new
        self.states[place] = values, versions
        metadata: dict[str, Any] = {"source": "loop", "step": number, "run_id": self.run_id(run)}
        if DELTA in versions and DELTA not in values:
            metadata["counters_since_delta_snapshot"] = {DELTA: [1, 1]}
        config = self.config(place[0], namespace, parent_id)
        checkpoint = checkpoint_of(values, versions, place[2])
        if is_old and versions:
            checkpoint["v"] = 3  # a format that keeps its sends with its parent
        arguments = (config, checkpoint, metadata, new)
        self.oracle.put(*arguments)  # type: ignore[arg-type]
        self.run(self.saver.aput(*arguments))  # type: ignore[arg-type]

    @rule(
        thread=THREADS,
        namespace=NAMESPACES,
        number=NUMBERS,
        task=TASKS,
        path=st.sampled_from(["", "~1"]),
        writes=WRITES,
    )
    def put_writes(
        self, thread: str, namespace: str, number: int, task: str, path: str, writes: list[tuple[str, Any]]
    ) -> None:
        config = self.config(self.thread(thread), namespace, f"{number:04}")
        self.oracle.put_writes(config, writes, task, path)
        self.run(self.saver.aput_writes(config, writes, task, path))

    @rule(
        thread=THREADS,
        namespace=NAMESPACES,
        changes=st.dictionaries(CHANNELS, VALUES),
        delta=DELTAS,
        run=RUNS,
        task=TASKS,
        writes=WRITES,
    )
    def turn(
        self,
        thread: str,
        namespace: str,
        changes: dict[str, Any],
        delta: str,
        run: str,
        task: str,
        writes: list[tuple[str, Any]],
    ) -> None:
        """What a graph does most: a checkpoint on the newest one, then the writes of a task."""
        known = self.known(self.thread(thread), namespace)
        number = int(known[-1]) + 1 if known else 0
        self.put(thread, namespace, number, -1, changes, delta, run, False)
        self.put_writes(thread, namespace, number, task, "~1", writes)

    @rule(thread=THREADS)
    def delete_thread(self, thread: str) -> None:
        self.oracle.delete_thread(self.thread(thread))
        self.run(self.saver.adelete_thread(self.thread(thread)))
        self.forget_lost()

    @rule(run=RUNS)
    def delete_for_runs(self, run: str) -> None:
        self.oracle.delete_for_runs([self.run_id(run)])
        self.run(self.saver.adelete_for_runs([self.run_id(run)]))
        self.forget_lost()

    @rule(thread=THREADS, strategy=st.sampled_from(["keep_latest", "keep_latest", "delete"]))
    def prune(self, thread: str, strategy: str) -> None:
        self.oracle.prune([self.thread(thread)], strategy=strategy)
        self.run(self.saver.aprune([self.thread(thread)], strategy=strategy))
        self.forget_lost()

    @rule(source=THREADS, is_target_empty=st.booleans())
    def copy_thread(self, source: str, is_target_empty: bool) -> None:
        target = self.thread("b" if source == "a" else "a")
        if is_target_empty:
            self.oracle.delete_thread(target)
            self.run(self.saver.adelete_thread(target))
        self.oracle.copy_thread(self.thread(source), target)
        self.run(self.saver.acopy_thread(self.thread(source), target))
        self.forget_lost()
        for (thread, namespace, id_), state in list(self.states.items()):
            if thread == self.thread(source):
                self.states[target, namespace, id_] = state

    # ---- what agents see

    @rule(thread=THREADS, namespace=NAMESPACES, number=st.none() | NUMBERS)
    def get_tuple(self, thread: str, namespace: str, number: int | None) -> None:
        config = self.config(self.thread(thread), namespace, None if number is None else f"{number:04}")
        assert shown(self.run(self.saver.aget_tuple(config))) == shown(self.oracle.get_tuple(config))

    @rule(
        thread=THREADS,
        namespace=st.none() | NAMESPACES,
        before=st.none() | NUMBERS,
        limit=LIMITS,
        step=st.none() | NUMBERS,
        number=st.none() | st.none() | NUMBERS,
    )
    def list_some(
        self,
        thread: str,
        namespace: str | None,
        before: int | None,
        limit: int | None,
        step: int | None,
        number: int | None,
    ) -> None:
        config: RunnableConfig = {"configurable": {"thread_id": self.thread(thread)}}
        if namespace is not None:
            config["configurable"]["checkpoint_ns"] = namespace
        if number is not None:
            config["configurable"]["checkpoint_id"] = f"{number:04}"
        options: dict[str, Any] = {
            "before": None if before is None else {"configurable": {"checkpoint_id": f"{before:04}"}},
            "filter": None if step is None else {"step": step},
        }
        wanted = sorted(self.oracle.list(config, **options), key=order, reverse=True)[:limit]
        found = self.run(listed(self.saver, config, limit=limit, **options))
        assert [shown(one) for one in found] == [shown(one) for one in wanted]

    @rule(run=RUNS, limit=LIMITS)
    def list_all(self, run: str, limit: int | None) -> None:
        only: dict[str, Any] = {"filter": {"run_id": self.run_id(run)}}
        wanted = sorted(self.oracle.list(None, **only), key=order, reverse=True)[:limit]
        found = self.run(listed(self.saver, None, limit=limit, **only))
        assert [shown(one) for one in found] == [shown(one) for one in wanted]

    @rule(thread=THREADS, namespace=NAMESPACES, number=st.none() | NUMBERS)
    def get_history(self, thread: str, namespace: str, number: int | None) -> None:
        config = self.config(self.thread(thread), namespace, None if number is None else f"{number:04}")
        wanted = self.oracle.get_delta_channel_history(config=config, channels=[DELTA, "x"])
        found = self.run(self.saver.aget_delta_channel_history(config=config, channels=[DELTA, "x"]))
        assert repr(found) == repr(wanted)

    @rule(run=RUNS)
    def find_threads(self, run: str) -> None:
        wanted = {}
        for name in map(self.thread, ("a", "b")):
            head = self.oracle.get_tuple(self.config(name, "", None))
            if head is not None and head.metadata["run_id"] == self.run_id(run):
                wanted[name] = len(list(self.oracle.list({"configurable": {"thread_id": name}})))
        found = self.run(list_threads(self.tiers, {"run_id": self.run_id(run)}, 10))
        assert {one.thread_id: one.checkpoints for one in found} == wanted

    @invariant()
    def newest_is_the_same(self) -> None:
        if hasattr(self, "oracle"):
            self.progress.count()
            config = self.config(self.thread("a"), "", None)
            assert shown(self.run(self.saver.aget_tuple(config))) == shown(self.oracle.get_tuple(config))

    # ---- what workers do

    @rule(thread=THREADS)
    def archive(self, thread: str) -> None:
        self.run(archive(self.tiers, [self.thread(thread)], wait=True))

    @rule(thread=THREADS)
    def evict(self, thread: str) -> None:
        assert self.run(demote(self.tiers, self.thread(thread)))

    @rule(thread=THREADS, namespace=NAMESPACES)
    def promote(self, thread: str, namespace: str) -> None:
        self.run(promote(self.tiers, self.thread(thread), namespace))

    @rule(thread=THREADS, keep=st.integers(1, 3))
    def trim(self, thread: str, keep: int) -> None:
        name = self.thread(thread)
        self.run(self.tiers.hot.call(hot.trim(self.tiers.keys.thread(name), name, keep)))

    # ---- private

    def teardown(self) -> None:
        if hasattr(self, "oracle"):
            for name in ("a", "b"):
                self.run(self.saver.adelete_thread(self.thread(name)))

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def thread(self, name: str) -> str:
        return f"{self.example}-{name}"

    def run_id(self, name: str) -> str:
        return f"{self.example}-{name}"

    def known(self, thread_id: str, namespace: str) -> list[str]:
        return sorted(id_ for thread, space, id_ in self.states if (thread, space) == (thread_id, namespace))

    def config(self, thread_id: str, namespace: str, checkpoint_id: str | None) -> RunnableConfig:
        configurable = {"thread_id": thread_id, "checkpoint_ns": namespace}
        return {"configurable": configurable | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}

    def forget_lost(self) -> None:
        storage = self.oracle.storage
        self.states = {
            place: state
            for place, state in self.states.items()
            if place[0] in storage and place[2] in storage[place[0]][place[1]]
        }


def order(found: CheckpointTuple) -> tuple[str, ...]:
    """The order of a listing: by id first."""
    thread_id, namespace, checkpoint_id = ids(found.config)
    return checkpoint_id, thread_id, namespace


async def listed(saver: Driven, config: RunnableConfig | None, **options: Any) -> list[CheckpointTuple]:
    return [found async for found in saver.alist(config, **options)]


@pytest.mark.timeout(6 * 3600)  # for the nightly profile; the other ends in seconds
@pytest.mark.parametrize("family", get_args(Family))
def test_answers_are_those_of_the_memory_saver(
    patient: TierConfig, family: Family, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    async def connected() -> Tiers:
        return await tiers.__aenter__()

    def tell(text: str) -> None:
        reporter: Any = request.config.pluginmanager.get_plugin("terminalreporter")
        with capsys.disabled():
            reporter.write_line(f"{family}: {text}")

    progress = Progress(tell)
    tiers, saver = connect(patient), TieredSaver(patient)
    with asyncio.Runner() as runner:
        opened = runner.run(connected())
        runner.run(saver.__aenter__())
        try:
            bound = {"runner": runner, "tiers": opened, "saver": Driven(saver, opened, family), "progress": progress}
            while progress.operations < least_operations():
                run_state_machine_as_test(type("Bound", (Conversation,), bound))
        finally:
            runner.run(saver.__aexit__(None, None, None))
            runner.run(tiers.__aexit__(None, None, None))
