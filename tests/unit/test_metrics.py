"""Metrics of the agent: what is noted is told, whoever asks and whoever does not."""

from concurrent.futures import ThreadPoolExecutor

from prometheus_client import REGISTRY

from saver.metrics import WRITES, measured
from saver.notes import TELL_AFTER_SECONDS, Notes


def test_scrape_tells_all_that_threads_noted() -> None:
    before = REGISTRY.get_sample_value("tier_writes_total", {"kind": "writes"}) or 0.0

    with ThreadPoolExecutor(8) as threads:
        for _ in range(2000):
            threads.submit(WRITES["writes"].inc)

    assert REGISTRY.get_sample_value("tier_writes_total", {"kind": "writes"}) == before + 2000


def test_call_that_fails_is_timed_too() -> None:
    labels = {"operation": "prune"}
    before = REGISTRY.get_sample_value("tier_operation_seconds_count", labels) or 0.0

    try:
        with measured("prune"):
            raise LookupError
    except LookupError:
        pass

    assert REGISTRY.get_sample_value("tier_operation_seconds_count", labels) == before + 1


def test_metric_that_nobody_scrapes_is_told_once_a_second() -> None:
    told: list[float] = []
    notes = Notes(told.append)

    notes.note(1.0, 100.0)
    notes.note(2.0, 100.0 + TELL_AFTER_SECONDS / 2)
    assert told == [1.0]
    notes.note(3.0, 100.0 + TELL_AFTER_SECONDS)

    assert told == [1.0, 2.0, 3.0]
