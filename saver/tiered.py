"""TieredSaver: the checkpointer of both families, opened and closed; its LangGraph methods stand beside it."""

from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from langgraph.checkpoint.serde.base import SerializerProtocol

from saver.awaited import AwaitedSaver
from saver.blocking import BlockingSaver
from saver.config import TierConfig
from saver.demote import demote, tier_of
from saver.described import Json, checked, of_thread
from saver.directory import ThreadInfo, count_threads, list_threads
from saver.load import promote
from saver.run_lock import LIFETIME, PATIENCE, RunLock
from saver.steps import Slow, Steps


class TieredSaver(AwaitedSaver, BlockingSaver):
    """
    A LangGraph checkpointer with a Redis hot tier and a Postgres cold tier.

    Enter it with `async with` for the async methods or with `with` for the blocking ones; an open saver may be shared
    by any number of tasks, threads and graphs. Blocking methods also work on a saver entered with `async with`, from
    other threads. Constructing does no I/O.

    Raises ConfigError for a bad configuration; from its methods HotTierError, ColdTierError, InvalidThread, StaleRun.
    """

    @classmethod
    def from_env(cls, *, serde: SerializerProtocol | None = None) -> Self:
        """A saver configured by the TIER_ variables. Raises ConfigError listing every fault."""
        return cls(TierConfig.from_env(), serde=serde)

    # ---- open and close

    async def __aenter__(self) -> Self:
        await self._runtime.open_async()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runtime.close_async()

    def __enter__(self) -> Self:
        self._runtime.open_blocking()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runtime.close_blocking()

    def setup(self) -> Any:
        """Create or upgrade the tables. Entering does it too; safe at any time, from many processes at once."""
        return self._here(_setup())

    # ---- moves on request; each is awaited in an event loop and blocks in a saver entered with `with`

    def demote(self, thread_id: str) -> Any:
        """Archive a thread and drop it from Redis now. False if it was written meanwhile and stays hot."""
        return self._here(of_thread(demote, thread_id))

    def promote(self, thread_id: str) -> Any:
        """Bring a thread into Redis now. False if it was there."""
        return self._here(of_thread(promote, thread_id))

    def tier_of(self, thread_id: str) -> Any:
        """Where reads of a thread are answered: "hot", "cold", or None for an unknown thread."""
        return self._here(of_thread(tier_of, thread_id))

    def list_threads(self, metadata: Json | None = None, *, limit: int = 100, after: ThreadInfo | None = None) -> Any:
        """
        Threads over both tiers, last written first: a list of `ThreadInfo`. `after` is the last one of the page before.

        `metadata` filters on that of the newest checkpoint by containment, like `list`; what an agent put into
        `config["metadata"]` or `config["configurable"]` is there.
        """
        return self._here(_list_threads(metadata, limit, after))

    def count_threads(self, metadata: Json) -> Any:
        """How many threads the newest checkpoint of has this metadata, over both tiers; not by `step` or `run_id`."""
        return self._here(_count_threads(metadata))

    def run_lock(self, thread_id: str, *, wait: timedelta = PATIENCE, lifetime: timedelta = LIFETIME) -> RunLock:
        """
        Strictly ordered runs: `async with saver.run_lock(thread_id):` around a run, or `with` for blocking methods.

        Another run on the thread waits, for `wait` at most, then it raises RunLockTaken. The lock is renewed while the
        body goes on; a process that dies leaves it for `lifetime`. A run that lost it, because it was stopped for
        longer or Redis failed over, gets RunLockLost from its next put or write, and nothing is stored.
        """
        return RunLock(self._runtime, checked(thread_id), wait, lifetime)

    # ---- private

    def _here(self, steps: Steps[Any]) -> Any:
        """Run for the caller at hand: an awaitable in the event loop the saver was entered in, else the result."""
        return self._runtime.run(steps) if self._runtime.is_here else self._runtime.run_blocking(steps)


def _setup() -> Steps[None]:
    yield Slow(lambda tiers: tiers.cold.setup(), ())


def _list_threads(metadata: Json | None, limit: int, after: ThreadInfo | None) -> Steps[list[ThreadInfo]]:
    found: list[ThreadInfo] = yield Slow(list_threads, (metadata, limit, after))
    return found


def _count_threads(metadata: Json) -> Steps[int]:
    count: int = yield Slow(count_threads, (metadata,))
    return count
