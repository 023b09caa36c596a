"""What deploy/SCALING.md says is what the simulation prints, and the simulation is what the arithmetic says."""

import re

import pytest

from tests.bench import simulate
from tests.ops.deployed import DEPLOY

PLAN = (DEPLOY / "SCALING.md").read_text()


def tables(text: str) -> list[str]:
    return re.findall(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE)


def test_the_tables_are_those_of_the_simulation() -> None:
    printed = [table.strip() for table in tables(simulate.report())]

    assert len(printed) == 5
    assert [table.strip() for table in tables(PLAN) if table.strip() in printed] == printed


def test_a_simulated_day_is_as_the_arithmetic_says() -> None:
    day, _ = simulate.simulated()
    plan = simulate.planned(simulate.CONVERSATIONS)

    assert vars(day) == {name: pytest.approx(value, rel=0.1) for name, value in vars(plan).items()}


def test_workers_of_the_plan_keep_up_and_too_few_do_not() -> None:
    day, buckets = simulate.simulated()
    mean = day.steps / simulate.DAY

    assert simulate.backlog(buckets, day.steps_per_second) == (0, 0)
    assert simulate.backlog(buckets, mean * 0.9)[1] > simulate.DAY / 2
