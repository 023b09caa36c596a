"""What is shipped in deploy/, and what the code has of it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

import saver.metrics
from worker import metrics

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
# The validators that are wheels stand beside the interpreter, which need not be on the path.
PROGRAMS = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def rules() -> list[dict[str, Any]]:
    """The alerts, as Prometheus reads them."""
    yaml = pytest.importorskip("yaml")
    [group] = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def alerts_on(metric: str) -> set[str]:
    """The alerts that ask for a metric."""
    return {rule["alert"] for rule in rules() if re.search(rf"\b{metric}\b", rule["expr"])}


def expressions() -> list[str]:
    """Every query of the dashboard."""
    dashboard = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def metric_names() -> set[str]:
    """Every series that an agent or a worker can have, with the endings that Prometheus adds."""
    return _names({"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "info": ["_info"]})


def family_names() -> set[str]:
    """Our metrics by the names that people know."""
    return {name for name in _names({"counter": ["_total"], "info": ["_info"]}) if name.startswith("tier_")}


def _names(endings: Mapping[str, list[str]]) -> set[str]:
    assert saver.metrics.READS  # the agent's metrics are registered
    metrics.SYSTEM.values = dict.fromkeys(metrics._SYSTEM, 0.0)
    return {family.name + ending for family in REGISTRY.collect() for ending in endings.get(family.type, [""])}


def used_metrics(text: str) -> set[str]:
    return set(re.findall(r"\btier_[a-z_]+\b", text))


def run_validator(command: list[str], directory: Path) -> None:
    """Run somebody else's check, or skip when it is not installed."""
    program = shutil.which(command[0], path=PROGRAMS)
    if program is None:
        pytest.skip(f"{command[0]} is not installed")
    ended = subprocess.run([program, *command[1:]], cwd=directory, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
