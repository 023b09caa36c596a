"""LangGraph's own conformance suite, wherever the threads are between its calls, in both families."""

from typing import get_args

import pytest

from saver import TierConfig
from saver.connect import Tiers
from tests.conforming import CAPABILITIES, failures
from tests.driven import Family


@pytest.mark.parametrize("family", get_args(Family))
@pytest.mark.parametrize("place", ["hot", "evicted", "trimmed", "promoted"])
@pytest.mark.parametrize("capability", CAPABILITIES)
async def test_conforms_wherever_the_threads_are(
    config: TierConfig, tiers: Tiers, capability: str, family: Family, place: str
) -> None:
    assert await failures(config, tiers, capability, family, place) == []


@pytest.mark.parametrize("family", get_args(Family))
@pytest.mark.parametrize("capability", CAPABILITIES)
async def test_conforms_with_write_through(config: TierConfig, tiers: Tiers, capability: str, family: Family) -> None:
    through = config.model_copy(update={"write_mode": "through"})

    assert await failures(through, tiers, capability, family, "hot") == []
