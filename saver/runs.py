"""
Which history of Redis a run saw: what it builds on its ancestors' writes must be put into the same one.

LangGraph hands the thread id that a read returned to every later call of the run, so that id remembers what the read
saw. A run that found nothing goes on with its caller's id, and is remembered here.
"""

from contextlib import suppress

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from saver.codec import Address

MOST_RUNS = 10_000


class SeenThread(str):
    """A thread id, and the history in which its thread was read."""

    __slots__ = ("history",)
    history: str


def mark(found: CheckpointTuple, history: str) -> None:
    """Let the runs that go on from this checkpoint remember the history it was read in."""
    configurable = found.config["configurable"]
    seen = configurable["thread_id"] = SeenThread(configurable["thread_id"])
    seen.history = history


class NewRuns:
    """The history in which a namespace was found empty, by whoever asked last."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], str] = {}

    def note(self, address: Address, history: str) -> None:
        seen, key = self._seen, address[:2]
        if seen.get(key) != history:
            if len(seen) >= MOST_RUNS:
                # The oldest entry: a run that has not been heard of for ten thousand others is over, or goes unchecked.
                with suppress(StopIteration, KeyError):
                    del seen[next(iter(seen))]
            seen[key] = history

    def forget(self, address: Address) -> None:
        """The run was refused: whoever goes on with the thread begins anew."""
        self._seen.pop(address[:2], None)

    def history_of(self, config: RunnableConfig, address: Address) -> str:
        """The history that a run saw; empty if nobody knows."""
        thread_id = config["configurable"]["thread_id"]
        if isinstance(thread_id, SeenThread):
            return thread_id.history
        return self._seen.get(address[:2], "")
