"""The benchmarks run: tiny counts, no peers to install, and no time is asserted."""

import pytest

from tests.bench.__main__ import run


@pytest.mark.slow
def test_a_short_run_names_every_contestant_and_fills_every_cell() -> None:
    report = run(["tiered", "floor", "memory"], ["4 KB"], rounds=1, part=0.02)
    assert "Absent" not in report
    assert all(title in report for title in ("langgraph-checkpoint-tiered", "floor", "InMemorySaver"))
    lines = [line for line in report.splitlines() if line.startswith("| **langgraph-checkpoint-tiered**")]
    assert "| - |" not in lines[0]
