"""
What a single thread wishes: how long it is kept, in how many checkpoints, and whether anybody may delete it.

A run says it in `config["metadata"]`, and the newest checkpoint of the root namespace speaks for its thread. A policy
in `tier_policies` says it for one thread, or for all whose metadata contains something, like that of a tenant. The
thread itself goes first, then policies that name it, then those for metadata, then the TIER_ variables; of several of
one rank the one that keeps more. A wish that cannot be read deletes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata, get_serializable_checkpoint_metadata

from saver.config import TierConfig, unless, whole_number
from saver.durations import parse_duration

ON_IDLE = "tier_on_idle"  # archive: with TIER_ON_IDLE=expire, this thread is archived all the same
RETAIN_FOR = "tier_retain_for"  # like TIER_RETAIN_FOR, also off
KEEP_CHECKPOINTS = "tier_keep_checkpoints"  # like TIER_KEEP_CHECKPOINTS, also off
RETAIN_WAITING = "tier_retain_waiting"  # keep or expire
LEGAL_HOLD = "tier_legal_hold"  # true: nothing of the thread is deleted, whoever asks for it

T = TypeVar("T")
Wishes = Mapping[str, Any]


class Told(NamedTuple):
    """All that is said about a thread."""

    own: Wishes
    by_name: Sequence[Wishes] = ()
    by_metadata: Sequence[Wishes] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds for a thread; None keeps for ever, or everything."""

    retain_for: timedelta | None
    keep_checkpoints: int | None
    retain_waiting: Literal["keep", "expire"]
    is_held: bool

    def is_old(self, idle: timedelta) -> bool:
        """Whether a thread this long without activity is to be deleted, unless it is held."""
        return self.retain_for is not None and idle > self.retain_for


def policy_for(config: TierConfig, told: Told) -> Policy:
    """What holds for a thread. Raises ValueError for a wish that cannot be read."""
    ranks = [[told.own], told.by_name, told.by_metadata]
    wished = [wishes for rank in ranks for wishes in rank]
    retain_for = _first(ranks, RETAIN_FOR, read_age, config.retain_for)
    keep_checkpoints = _first(ranks, KEEP_CHECKPOINTS, read_number, config.keep_checkpoints)
    spares = _first(ranks, RETAIN_WAITING, _read_spares, config.retain_waiting == "keep")
    is_held = any(wishes.get(LEGAL_HOLD) not in (None, False) for wishes in wished)
    return Policy(retain_for, keep_checkpoints, "keep" if spares else "expire", is_held)


def _first(ranks: Sequence[Sequence[Wishes]], key: str, read: Callable[[object], T], default: T) -> T:
    for rank in ranks:
        found = [read(wishes[key]) for wishes in rank if key in wishes]
        if found:
            return None if None in found else max(found)  # type: ignore[return-value, type-var]
    return default


read_age = unless("off", parse_duration)
read_number = unless("off", whole_number(1, 1_000_000))


def _read_spares(value: object) -> bool:
    if value not in ("keep", "expire"):
        raise ValueError("write keep or expire")
    return value == "keep"


# ---- threads that vanish


def vanishes_after_ms(config: TierConfig) -> int:
    """How long a new thread lives without access; 0 if it is archived instead."""
    return round(config.demote_after.total_seconds() * 1000) if config.on_idle == "expire" else 0


def is_archived(config: TierConfig, run: RunnableConfig, metadata: CheckpointMetadata) -> bool:
    """Whether a thread with this checkpoint is to be archived, though it was begun as one that vanishes."""
    merged: Wishes = dict(get_serializable_checkpoint_metadata(run, metadata))
    is_held = merged.get(LEGAL_HOLD) not in (None, False)
    return config.on_idle == "archive" or merged.get(ON_IDLE) == "archive" or is_held
