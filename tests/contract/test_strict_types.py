"""The strict allow list, set by our own configuration: what is not on it is not made anew, in either tier."""

import enum
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph
from pydantic import BaseModel, SecretStr

from saver import TierConfig, TieredSaver
from saver.connect import Tiers
from tests.builders import Thread
from tests.driven import MOVES
from tests.graphs import config_of


@dataclass
class Order:
    number: int


class Kind(enum.Enum):
    ONE = "one"


class Basket(BaseModel):
    orders: list[int]


class State(BaseModel):
    order: Order | None = None
    basket: Basket | None = None
    message: AIMessage | None = None


VALUES = {"order": Order(1), "kind": Kind.ONE, "basket": Basket(orders=[1]), "inside": [Order(2)]}
ALLOWED = [(__name__, name) for name in ("Order", "Kind", "Basket")]


@pytest.fixture(params=["plain", "encrypted"])
def strict(config: TierConfig, request: pytest.FixtureRequest) -> TierConfig:
    """TIER_STRICT_TYPES=on, with and without a key."""
    key = SecretStr("0123456789abcdef") if request.param == "encrypted" else None
    return config.model_copy(update={"strict_types": True, "encryption_key": key})


@pytest.mark.parametrize("place", MOVES)
async def test_classes_are_made_anew_only_if_they_are_allowed(strict: TierConfig, tiers: Tiers, place: str) -> None:
    async with TieredSaver(strict) as saver:
        thread = Thread(saver)
        await thread.put({**VALUES, "message": AIMessage("known to LangGraph", id="m"), "list": [1]})
        await MOVES[place](tiers, thread.thread_id)
        blocked = await thread.values()
        allowing: Any = saver.with_allowlist(ALLOWED)
        allowed = await allowing.aget_tuple(thread.config())
        listed = [found async for found in allowing.alist(thread.config())]

        assert blocked is not None
        assert [type(blocked[name]) for name in VALUES] == [dict, str, dict, list]
        assert blocked["inside"] == [{"number": 2}]
        assert blocked["message"] == AIMessage("known to LangGraph", id="m")
        assert {name: allowed.checkpoint["channel_values"][name] for name in VALUES} == VALUES
        assert listed == [allowed]


@pytest.mark.parametrize("place", MOVES)
async def test_graph_in_strict_mode_has_the_types_of_its_state(
    strict: TierConfig, tiers: Tiers, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """LangGraph derives the allow list from the state's types and asks the saver for a copy with it."""
    from langgraph._internal import _serde

    monkeypatch.setattr(_serde, "STRICT_MSGPACK_ENABLED", True)  # what LANGGRAPH_STRICT_MSGPACK sets at the import
    async with TieredSaver(strict) as saver:
        graph: Any = StateGraph(State)
        graph.add_node("n", lambda _: {"order": Order(7), "basket": Basket(orders=[7])})
        compiled = graph.add_edge(START, "n").compile(checkpointer=saver)
        await compiled.ainvoke({"message": AIMessage("m", id="m")}, config_of("t"))
        await MOVES[place](tiers, "t")

        values = (await compiled.aget_state(config_of("t"))).values

    assert values == {"order": Order(7), "basket": Basket(orders=[7]), "message": AIMessage("m", id="m")}
