"""Metadata are merged as the stock saver merges them, and read the same in either tier."""

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig

from saver import TieredSaver
from saver.connect import Tiers
from tests.builders import Thread, checkpoint_of
from tests.driven import MOVES
from tests.stock import stock_saver

MERGED: RunnableConfig = {
    "configurable": {
        "user_id": "u\0ser",
        "turn": 3,
        "ratio": 0.25,
        "is_new": True,
        "object": object(),
        "list": [1],
        "none": None,
        "__hidden": "no",
        "langgraph_node": "no",
        "checkpoint_map": "no",
        "source": "never",
    },
    "metadata": {"tag": "from metadata", "turn": 4, "deep": {"no": 1}, "langgraph_step": 1, "__x": 1, "run_id": "r"},
    "tags": ["ignored"],
    "run_name": "ignored",
}
OWN: dict[str, Any] = {
    "source": "loop",
    "step": -1,
    "parents": {"": "1", "child:é": "2"},
    "writes": {"gone": 1},
    "note": "nul\0 gone",
    "large": 1e16,
    "zero": -0.0,
    "list": [1e300, (2, None)],
    "text": "e+16 -0.0 \\u0000",
}


@pytest.mark.parametrize("place", MOVES)
async def test_metadata_are_those_of_the_stock_saver_everywhere(
    saver: TieredSaver, tiers: Tiers, thread: Thread, place: str, postgres_url: str, schema: str
) -> None:
    config: Any = {**MERGED, "configurable": MERGED["configurable"] | thread.config()["configurable"]}
    theirs: Any = {**config, "configurable": config["configurable"] | {"thread_id": "theirs"}}
    checkpoint, stored = checkpoint_of({}, {}), dict[str, Any](OWN)

    await saver.aput(config, checkpoint, stored, {})  # type: ignore[arg-type]
    await MOVES[place](tiers, thread.thread_id)
    found = await thread.latest()
    async with stock_saver(postgres_url, schema) as stock:
        await stock.aput(theirs, checkpoint, stored, {})  # type: ignore[arg-type]
        wanted = await stock.aget_tuple({"configurable": {"thread_id": "theirs", "checkpoint_ns": ""}})

    assert found is not None
    assert wanted is not None
    assert sorted(map(repr, found.metadata.items())) == sorted(map(repr, wanted.metadata.items()))
    assert {"tag", "turn", "user_id", "run_id"} <= set(found.metadata)


async def test_nul_deep_in_metadata_is_taken_out(saver: TieredSaver, tiers: Tiers, thread: Thread) -> None:
    """The stock saver fails there."""
    await thread.put({}, metadata={"deep": {"a\0": ["b\0"]}})

    for place in ("hot", "evicted"):
        await MOVES[place](tiers, thread.thread_id)
        found = await thread.latest()
        assert found is not None
        assert found.metadata["deep"] == {"a": ["b"]}  # type: ignore[typeddict-item]


async def test_what_was_given_is_neither_changed_nor_kept(saver: TieredSaver, thread: Thread) -> None:
    values, metadata = {"x": [[1]], "m": {"k": "v"}}, dict[str, Any](OWN)
    checkpoint, config = checkpoint_of(values, {"x": "1", "m": "1"}), thread.config()
    new, writes = {"x": "1", "m": "1"}, [("x", [1])]
    given = repr((config, checkpoint, metadata, new, writes))

    stored = await saver.aput(config, checkpoint, metadata, new)  # type: ignore[arg-type]
    await saver.aput_writes(stored, writes, "task")

    assert repr((config, checkpoint, metadata, new, writes)) == given
    values["x"].append([2])  # type: ignore[attr-defined]
    metadata["parents"]["late"] = "3"
    writes[0][1].append(2)
    found = await thread.latest()
    assert found is not None
    assert found.checkpoint["channel_values"] == {"x": [[1]], "m": {"k": "v"}}
    assert found.metadata["parents"] == {"": "1", "child:é": "2"}
    assert found.pending_writes == [("task", "x", [1])]


@pytest.mark.parametrize("place", MOVES)
async def test_what_was_read_is_the_callers_own(tiers: Tiers, thread: Thread, place: str) -> None:
    await thread.put({"x": [[1]], "s": "s"})
    await thread.write(("x", [1]))
    await MOVES[place](tiers, thread.thread_id)
    first = await thread.latest()
    assert first is not None
    told = repr(first)

    first.checkpoint["channel_values"]["x"][0].append(2)
    first.checkpoint["channel_versions"].clear()
    first.metadata["step"] = 99
    first.config["configurable"]["thread_id"] = "other"
    assert first.pending_writes is not None
    first.pending_writes[0][2].append(2)

    assert repr(await thread.latest()) == told
