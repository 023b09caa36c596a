"""The status page beside /metrics: what `tier status` shows, for a browser. It only reads, and holds no thread id."""

import time
from collections.abc import Iterable
from html import escape

from prometheus_client import REGISTRY

from worker.metrics import JOBS

KIND = "text/html; charset=utf-8"
REFRESH_SECONDS = 10

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin-bottom: 1.5rem; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { text-align: right; padding: .25rem .5rem; border-top: 1px solid #8884; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
.bad { color: #c62828; font-weight: 600; }
"""
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))

Cell = str | tuple[str, bool]  # a text, or a text and whether it is bad


def drawn() -> bytes:
    """The page, from the metrics as they were read last."""
    values = _values()
    now = time.time()
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tiers</title>'
        '<meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}"><style>{_STYLE}</style></head><body><h1>Tiers</h1>'
        + _table("Threads", ("tier", "threads", "answers"), _tiers(values))
        + _table("Waiting", ("for", "threads", "longest"), _waiting(values))
        + _table("Jobs", ("job", "last success", "failures of this worker"), _jobs(values, now))
        + f"<p>{_count(values, 'tier_workers')} workers alive, this one is version {escape(_version())}. "
        "Numbers are of all workers unless it says otherwise. "
        '<a href="/metrics">All metrics</a></p></body></html>\n'
    ).encode()


def _values() -> dict[str, float]:
    """Every sample of ours by name, and by name and labels where it has some; sums over the other labels of a job."""
    found: dict[str, float] = {}
    for family in REGISTRY.collect():
        for sample in family.samples:
            first = next((sample.labels[label] for label in ("job", "tier") if label in sample.labels), "")
            key = f"{sample.name} {first}".rstrip()
            found[key] = found.get(key, 0.0) + sample.value
    return found


def _tiers(values: dict[str, float]) -> Iterable[tuple[Cell, ...]]:
    for tier in ("hot", "cold"):
        is_up = values.get(f"tier_up {tier}") == 1
        yield tier, _count(values, f"tier_{tier}_threads"), ("yes" if is_up else "no", not is_up)


def _waiting(values: dict[str, float]) -> Iterable[tuple[Cell, ...]]:
    oldest = values.get("tier_oldest_dirty_seconds", 0.0)
    yield "Postgres", _count(values, "tier_dirty_threads"), _duration(oldest) if oldest else "-"
    yield "leaving Redis", _count(values, "tier_idle_due_threads"), "-"
    yield "coming into Redis", _count(values, "tier_wanted_threads"), "-"
    aside = "tier_quarantined_threads"
    yield "a person: set aside", (_count(values, aside), values.get(aside, 0) > 0), "-"


def _jobs(values: dict[str, float], now: float) -> Iterable[tuple[Cell, ...]]:
    for job in JOBS:
        moment = values.get(f"tier_last_success_timestamp_seconds {job}")
        failures = values.get(f"tier_job_failures_total {job}", 0.0)
        yield job, _since(moment, now), (f"{failures:.0f}", failures > 0)


def _since(moment: float | None, now: float) -> str:
    if moment is None:
        return "-"
    return f"{_duration(now - moment)} ago" if moment else "never"


def _count(values: dict[str, float], name: str) -> str:
    return f"{values[name]:,.0f}" if name in values else "?"


def _duration(seconds: float) -> str:
    unit, length = next((pair for pair in _UNITS if seconds >= 2 * pair[1]), _UNITS[-1])
    return f"{max(seconds, 0) / length:.0f} {unit}"


def _version() -> str:
    samples = (sample for family in REGISTRY.collect() for sample in family.samples)
    return next((sample.labels["version"] for sample in samples if sample.name == "tier_build_info"), "unknown")


def _table(title: str, heads: Iterable[str], rows: Iterable[tuple[Cell, ...]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><tr>{head}</tr>{body}</table>"


def _cell(cell: Cell) -> str:
    text, is_bad = (cell, False) if isinstance(cell, str) else cell
    return f'<td class="bad">{escape(text)}</td>' if is_bad else f"<td>{escape(text)}</td>"
