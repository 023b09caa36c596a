"""How long hypothesis searches: a glance by default, all night with HYPOTHESIS_PROFILE=nightly."""

import os
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings

from saver import TierConfig

_PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
_PATIENT = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=_PHASES, print_blob=True)

settings.register_profile("glance", _PATIENT, max_examples=15, stateful_step_count=25)
settings.register_profile("nightly", _PATIENT, max_examples=1000, stateful_step_count=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "glance"))


@pytest.fixture
def patient(config: TierConfig) -> TierConfig:
    """Limits that a busy machine does not reach in a night: what is searched for is no matter of time."""
    limits = {"redis_timeout": timedelta(seconds=30), "postgres_timeout": timedelta(seconds=60)}
    return config.model_copy(update=limits)


def least_operations() -> int:
    """Calls that one run makes of a state machine: 100,000 a night, a few hundred at a glance."""
    chosen = settings()
    return chosen.max_examples * chosen.stateful_step_count
