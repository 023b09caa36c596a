"""What Prometheus makes of a worker: its samples as they were scraped, under the shipped rules, in promtool."""

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.fix_worker import Worker
from tests.ops.deployed import PROMETHEUS, run_validator

STEP_SECONDS = 15
STEPS = 40
ALERT_MINUTES = 6  # the longest alert of a fault, and the scrape before it
FIRING = 'group by (alertname) (ALERTS{alertstate="firing"})'
TARGET = {"job": "tier-worker", "instance": "worker:9464"}


@dataclass(frozen=True)
class Scrape:
    """One answer of /metrics, or none."""

    moment: float
    samples: dict[tuple[str, frozenset[tuple[str, str]]], Sample]

    @classmethod
    def of(cls, worker: Worker) -> "Scrape":
        moment, text = time.time(), worker.get("/metrics")[1]
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return cls(moment, {(one.name, frozenset(one.labels.items())): one for one in samples})


def assert_fires(alerts: set[str], first: Scrape, last: Scrape, directory: Path) -> None:
    """These alerts fire, and no others, if what changed between two scrapes goes on like that for some minutes."""
    for honors_labels in (True, False):
        test = {
            "name": f"labels are {'' if honors_labels else 'not '}honored",
            "interval": f"{STEP_SECONDS}s",
            "input_series": _series(first, last, honors_labels=honors_labels),
            "promql_expr_test": [
                {
                    "expr": FIRING,
                    "eval_time": f"{ALERT_MINUTES}m",
                    "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(alerts)],
                }
            ],
        }
        shutil.copy(PROMETHEUS / "alerts.yml", directory)
        document = {"rule_files": ["alerts.yml"], "evaluation_interval": f"{STEP_SECONDS}s", "tests": [test]}
        (directory / "scraped.yml").write_text(json.dumps(document))  # JSON is YAML
        run_validator(["promtool", "test", "rules", "scraped.yml"], directory)


def _series(first: Scrape, last: Scrape, *, honors_labels: bool) -> list[dict[str, str]]:
    found = [_one("up", TARGET, f"1x{STEPS}" if last.samples else f"1 0x{STEPS}")]
    for key, sample in first.samples.items():
        labels = dict(sample.labels)
        if not honors_labels and "job" in labels:
            labels["exported_job"] = labels.pop("job")
        # In promtool, time begins with 0.
        start = sample.value - (first.moment if sample.name.endswith("_timestamp_seconds") else 0)
        values = f"{start:.3f} stale"
        if end := last.samples.get(key):
            step = (end.value - sample.value) / (last.moment - first.moment) * STEP_SECONDS
            values = f"{start:.3f}{step:+.3f}x{STEPS}"
        found.append(_one(sample.name, TARGET | labels, values))
    return found


def _one(name: str, labels: dict[str, str], values: str) -> dict[str, str]:
    told = ", ".join(f'{label}="{value}"' for label, value in labels.items())
    return {"series": f"{name}{{{told}}}", "values": values}
