"""LangGraph's own conformance suite, run on a saver whose threads move between its calls."""

from collections.abc import AsyncGenerator

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES
from langgraph.checkpoint.conformance.initializer import RegisteredCheckpointer
from langgraph.checkpoint.conformance.validate import validate

from saver import TierConfig, TieredSaver
from saver.connect import Tiers
from tests.driven import MOVES, Driven, Family

CAPABILITIES = sorted(capability.value for capability in ALL_CAPABILITIES)


async def failures(config: TierConfig, tiers: Tiers, capability: str, family: Family, place: str) -> list[str]:
    """The tests of one capability that fail; one that is not even detected counts."""

    async def make() -> AsyncGenerator[BaseCheckpointSaver[str], None]:
        async with TieredSaver(config) as saver:
            yield Driven(saver, tiers, family, MOVES[place])

    report = await validate(RegisteredCheckpointer("tiered", make), capabilities={capability})
    result = report.results[capability]
    return result.failures if result.detected and result.tests_passed else ["nothing ran", *result.failures]
