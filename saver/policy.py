"""
Policies of single threads: what an agent puts into `config["metadata"]` to have a thread treated unlike the others.

The newest checkpoint of the root namespace speaks for its thread.
"""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata, get_serializable_checkpoint_metadata

from saver.config import TierConfig

ON_IDLE = "tier_on_idle"  # archive: with TIER_ON_IDLE=expire, this thread is archived all the same


def vanishes_after_ms(config: TierConfig) -> int:
    """How long a new thread lives without access; 0 if it is archived instead."""
    return round(config.demote_after.total_seconds() * 1000) if config.on_idle == "expire" else 0


def is_archived(config: TierConfig, run: RunnableConfig, metadata: CheckpointMetadata) -> bool:
    """Whether a thread with this checkpoint is to be archived, though it was begun as one that vanishes."""
    merged: dict[str, Any] = dict(get_serializable_checkpoint_metadata(run, metadata))
    return config.on_idle == "archive" or merged.get(ON_IDLE) == "archive"
