"""What is in a thread, for those who ask for it: the newest checkpoint of each namespace, as plain data."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple

from saver.codec import Codec
from saver.config import TierConfig
from saver.connect import Tiers
from saver.listing import Listing, Query
from saver.migrations import Migrations
from saver.operations import Context
from saver.queue import Hints
from saver.serializer import serializer_of
from saver.steps import run_async

# What a serializer makes of bytes that it cannot read, without the key above all.
UNREADABLE = (NotImplementedError, ValueError, TypeError, LookupError)


@dataclass(frozen=True, slots=True)
class Values:
    """The newest checkpoint of a namespace; `fault` says why it cannot be shown."""

    namespace: str
    checkpoint_id: str | None = None
    values: dict[str, Any] | None = None
    pending: list[tuple[str, str, Any]] | None = None
    fault: str | None = None


async def newest_values(config: TierConfig, tiers: Tiers, thread_id: str, namespaces: Iterable[str]) -> list[Values]:
    """
    Read without moving the thread or counting as an access. Raises HotTierError, ColdTierError.

    Whatever the configuration says, no class of the application is built from what is stored.
    """
    codec = Codec(serializer_of(config.model_copy(update={"strict_types": True})), Migrations())
    context = Context(config, tiers.keys, Hints(config), lambda: None)
    return [await _newest(context, codec, tiers, thread_id, namespace) for namespace in namespaces]


async def _newest(context: Context, codec: Codec, tiers: Tiers, thread_id: str, namespace: str) -> Values:
    listing = Listing(context, codec, Query(thread_id, namespace, "", "", None), 1)
    try:
        found: list[CheckpointTuple] = await run_async(listing.next_page(), tiers)
    except UNREADABLE as error:
        hint = "" if context.config.encryption_key else "; if it is encrypted, set TIER_ENCRYPTION_KEY"
        return Values(namespace, fault=f"cannot be read here ({type(error).__name__}){hint}")
    if not found:
        return Values(namespace)
    checkpoint = found[0].checkpoint
    return Values(namespace, checkpoint["id"], checkpoint["channel_values"], found[0].pending_writes)


def as_text(value: object) -> str:
    """The value as JSON for people; what would move the cursor is escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=_plain)
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


def plain(value: object) -> Any:
    """The value as what JSON can say of it."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value: object) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return f"{len(value)} bytes" if isinstance(value, bytes | bytearray) else repr(value)
