"""The movers carry values of classes that they cannot import, byte for byte."""

import asyncio
import logging
import os
import sys
from pathlib import Path

import pytest

from saver import TierConfig, hot
from saver.connect import Tiers
from saver.rows import BlobRow
from tests.driven import MOVES
from tests.stock import rows

CLASSES = """
import enum
from dataclasses import dataclass

from pydantic import BaseModel


class Kind(enum.Enum):
    ONE = "one"


class Order(BaseModel):
    items: list[str]


@dataclass
class Line:
    price: int


VALUES = {"line": Line(3), "order": Order(items=["a"]), "kind": Kind.ONE, "lines": [Line(1), Line(2)]}
"""

AGENT = """
import asyncio, sys
import appmod
from saver import TieredSaver
from tests.builders import Thread


async def main(action):
    async with TieredSaver.from_env() as saver:
        thread = Thread(saver, "thread-1")
        if action == "put":
            await thread.put(appmod.VALUES)
        found = await thread.values()
        assert found == appmod.VALUES, found
        assert [type(found[name]) for name in found] == [type(appmod.VALUES[name]) for name in found]


asyncio.run(main(sys.argv[1]))
"""


async def agent(config: TierConfig, folder: Path, action: str) -> None:
    """Run the agent in a process that has the classes."""
    environment = {
        "TIER_REDIS_URL": config.redis_url.get_secret_value(),
        "TIER_POSTGRES_URL": config.postgres_url.get_secret_value(),
        "TIER_KEY_PREFIX": config.key_prefix,
        "TIER_POSTGRES_SCHEMA": config.postgres_schema,
        "TIER_PARTITIONS": str(config.partitions),
        "PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parents[2])]),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", AGENT, action, env={**os.environ, **environment}
    )
    async with asyncio.timeout(60):
        assert await process.wait() == 0


async def blobs_in_hot(tiers: Tiers) -> list[BlobRow]:
    request = hot.list_page(tiers.keys.thread("thread-1"), "thread-1", "", "", "", 9)
    [entry] = hot.page_read(await tiers.hot.call(request)).entries
    return sorted(entry.blobs)


async def test_values_of_classes_unknown_to_the_movers_are_untouched(
    config: TierConfig, tiers: Tiers, tmp_path: Path, schema: str, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SER-03."""
    (tmp_path / "appmod.py").write_text(CLASSES)
    await agent(config, tmp_path, "put")

    before = await blobs_in_hot(tiers)
    with caplog.at_level(logging.WARNING):
        await MOVES["promoted"](tiers, "thread-1")
    after = await blobs_in_hot(tiers)

    in_cold = [BlobRow(*row[1:]) for row in rows(postgres_url, schema, "thread-1")["checkpoint_blobs"]]
    assert before == after == sorted(in_cold)
    assert len(before) == 4
    assert not caplog.records
    await agent(config, tmp_path, "read")
