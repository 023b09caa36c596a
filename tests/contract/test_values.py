"""Every value reads back with the same type and content in hot, in cold, after promotion, and by the stock saver."""

import dataclasses
import enum
import ipaddress
import math
import random
import re
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ToolCall
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt, Send
from pydantic import BaseModel, SecretStr

from saver import TierConfig, TieredSaver, hot
from saver.connect import Tiers
from tests.builders import Thread
from tests.driven import MOVES
from tests.stock import rows, stock_saver


class Color(str, enum.Enum):  # noqa: UP042 - the case itself
    RED = "red"


class Name(str):
    """A kind of text."""


class Point(NamedTuple):
    x: int
    y: list[int]


class Level(enum.IntEnum):
    LOW = 1


class Plain(enum.Enum):
    ONE = (1, 2)


class Model(BaseModel):
    name: str
    tags: list[str]


@dataclass
class Record:
    number: int
    inner: list[int]


VALUES: dict[str, Any] = {
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "minus zero": -0.0,
    "zero": 0.0,
    "one": 1.0,
    "large": 1.7976931348623157e308,
    "sixteen digits": 1e16,
    "small": 5e-324,
    "third": 1 / 3,
    "str enum": Color.RED,
    "int enum": Level.LOW,
    "enum": Plain.ONE,
    "set": {1, 2},
    "set of tuples": {(1, 2), (3, 4)},
    "tuple": (1, 2),
    "bytes": b"\x00\xff",
    "mixed keys": {1: "a", "1": "b"},
    "decimal": Decimal("1.10"),
    "aware": datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    "naive": datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - the case itself
    "uuid": UUID(int=7),
    "array": np.arange(6, dtype=np.float32).reshape(2, 3),
    "empty array": np.empty((0, 3)),
    "model": Model(name="n", tags=["t"]),
    "dataclass": Record(1, [2]),
    "largest int64": 2**63 - 1,
    "beyond int64": 2**63,
    "largest uint64": 2**64 - 1,
    "smallest int64": -(2**63),
    "true": True,
    "none": None,
    "empty text": "",
    "nul": "a\0b",
    "escaped nul": "a\\u0000b",
    "text": 'ü😀\u2028"\\',
    "half a surrogate pair": "a\ud800b",
    "half pairs inside": ["\udfff", {"k": "\ud800"}],
    "empty list": [],
    "nested": {"a": [{"b": ({"c"}, None)}]},
    "text of a subclass": Name("n"),
    "bytearray": bytearray(b"\0a"),
    "frozen set": frozenset({1}),
    "deque": deque([1, "a"], maxlen=5),
    "address": ipaddress.ip_address("::1"),
    "network": ipaddress.ip_network("10.0.0.0/8"),
    "time span": timedelta(days=-1, microseconds=5),
    "date": date(2026, 1, 2),
    "time": time(1, 2, 3, 4, UTC),
    "zone": ZoneInfo("UTC"),
    "path": Path("/a/b"),
    "pattern": re.compile("a+", re.IGNORECASE),
    "named tuple": Point(1, [2]),
    "secret": SecretStr("hidden"),
    "message": AIMessage("hello", id="m", tool_calls=[ToolCall(name="t", args={"a": 1}, id="c")]),
    "document": Document("text", metadata={"a": 1}),
    "send": Send("node", {"a": (1,)}),
    "interrupt": Interrupt("why", id="i"),
    "models in a list": [Model(name="n", tags=[]), Record(2, [])],
}


def shape(value: Any) -> Any:
    """Type and content, so that NaN equals itself, and 1, 1.0 and True differ."""
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return "dict", [(shape(key), shape(item)) for key, item in sorted(value.items(), key=repr)]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(repr, value))
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shape(item) for item in value]
    if dataclasses.is_dataclass(value):
        return type(value), shape({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    return type(value), repr(value)


async def by_stock(postgres_url: str, schema: str, serde: SerializerProtocol | None, thread: Thread) -> dict[str, Any]:
    async with stock_saver(postgres_url, schema, serde) as stock:
        found = await stock.aget_tuple(thread.config())
    assert found is not None
    return found.checkpoint["channel_values"]


async def everywhere(
    saver: TieredSaver, tiers: Tiers, postgres_url: str, schema: str, values: dict[str, Any]
) -> list[dict[str, Any]]:
    """The values as read from hot, from cold, after promotion, trimmed, and by the stock saver."""
    thread = Thread(saver)
    await thread.put(values)
    found = [await thread.values()]
    for place in ("evicted", "promoted", "trimmed"):
        await MOVES[place](tiers, thread.thread_id)
        found.append(await thread.values())
    found.append(await by_stock(postgres_url, schema, saver.serde, thread))
    return [one or {} for one in found]


def in_memory(values: dict[str, Any], serde: SerializerProtocol) -> dict[str, Any]:
    """What InMemorySaver makes of them, its losses included."""
    memory, versions = InMemorySaver(serde=serde), dict.fromkeys(values, "1")
    config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    checkpoint: Any = {"v": 4, "id": "1", "channel_values": values, "channel_versions": versions}
    found = memory.get_tuple(memory.put(config, checkpoint, {}, dict(versions)))
    assert found is not None
    return found.checkpoint["channel_values"]


@asynccontextmanager
async def saver_with(config: TierConfig, serde: SerializerProtocol | None) -> AsyncIterator[TieredSaver]:
    async with TieredSaver(config, serde=serde) as saver:
        yield saver


@pytest.mark.parametrize(
    "serde",
    [JsonPlusSerializer(), EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")],
    ids=["plain", "encrypted"],
)
async def test_every_value_reads_the_same_before_and_after_every_move(
    config: TierConfig, tiers: Tiers, postgres_url: str, schema: str, serde: SerializerProtocol
) -> None:
    """SER-02."""
    async with saver_with(config, serde) as saver:
        found = await everywhere(saver, tiers, postgres_url, schema, VALUES)

    expected = {name: shape(value) for name, value in in_memory(VALUES, serde).items()}
    for values in found:
        assert {name: shape(value) for name, value in values.items()} == expected


async def test_pickled_values_read_the_same_after_every_move(
    config: TierConfig, tiers: Tiers, postgres_url: str, schema: str
) -> None:
    """With the pickle fallback the serializer takes what msgpack does not."""
    serde, values = JsonPlusSerializer(pickle_fallback=True), {"slice": slice(1, 2), "huge": [2**70]}
    async with saver_with(config, serde) as saver:
        found = await everywhere(saver, tiers, postgres_url, schema, values)

    for one in found:
        assert one == values


async def test_values_of_megabytes_read_the_same_everywhere(
    saver: TieredSaver, tiers: Tiers, postgres_url: str, schema: str
) -> None:
    noise = random.Random(1).randbytes(2_500_000)
    values = {"noise": noise, "text": "ü" * 1_000_000, "inline": "a" * 1_500_000, "list": [noise[:500_000].hex()] * 2}

    found = await everywhere(saver, tiers, postgres_url, schema, values)

    assert all(one == values for one in found)


@pytest.mark.parametrize("value", [2**70, -(2**200)])
async def test_integer_of_any_size_stands_in_the_checkpoint(
    saver: TieredSaver, tiers: Tiers, postgres_url: str, schema: str, value: int
) -> None:
    found = await everywhere(saver, tiers, postgres_url, schema, {"x": value})

    assert found == [{"x": value}] * 5


async def test_encrypted_values_are_nowhere_in_clear(
    config: TierConfig, tiers: Tiers, postgres_url: str, schema: str
) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    secrets = {"secret": "SSN-123-TOP", "pin": 471147114711, "msgs": ["SSN-456-LIST"]}
    async with saver_with(config, serde) as saver:
        thread = Thread(saver)
        await thread.put(secrets)
        request = hot.list_page(tiers.keys.thread(thread.thread_id), thread.thread_id, None, "", "", 9)
        in_hot = repr(hot.page_read(await tiers.hot.call(request)))
        await saver.demote(thread.thread_id)

    in_cold = repr(rows(postgres_url, schema, thread.thread_id))
    for marker in ("SSN-123-TOP", "471147114711", "SSN-456-LIST"):
        assert marker not in in_hot
        assert marker not in in_cold
