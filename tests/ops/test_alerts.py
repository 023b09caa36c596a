"""Alerts and dashboard: they fit the metrics of the code, the runbook and each other, and promtool agrees."""

import json
import re

import pytest

from tests.ops.deployed import DEPLOY, PROMETHEUS, expressions, metric_names, rules, run_validator, used_metrics
from worker import metrics

yaml = pytest.importorskip("yaml")


def alert_names() -> set[str]:
    return {rule["alert"] for rule in rules()}


# ---- alerts


def test_there_are_few_alerts_and_each_says_what_it_means() -> None:
    assert 0 < len(rules()) <= 12
    for rule in rules():
        assert {"summary", "description", "runbook_url"} <= set(rule["annotations"])
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_each_alert_has_its_section_in_the_runbook() -> None:
    runbook = (DEPLOY / "RUNBOOK.md").read_text()
    sections = dict(re.findall(r"^## (Tier\w+)\n(.*?)(?=^## |\Z)", runbook, re.MULTILINE | re.DOTALL))

    assert set(sections) == alert_names()
    for rule in rules():
        assert rule["annotations"]["runbook_url"] == f"deploy/RUNBOOK.md#{rule['alert'].lower()}"
        for part in ("Meaning", "Impact", "Diagnosis", "Mitigation"):
            assert f"**{part}:**" in sections[rule["alert"]]


def test_each_alert_is_tested_firing_and_quiet() -> None:
    tests = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text())["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]

    assert {case["alertname"] for case in cases if case["exp_alerts"]} == alert_names()
    assert {case["alertname"] for case in cases if not case["exp_alerts"]} == alert_names()


def test_alerts_ask_for_metrics_that_exist() -> None:
    for rule in rules():
        assert used_metrics(rule["expr"]) <= metric_names()


@pytest.mark.parametrize(
    "arguments",
    [["check", "rules", "alerts.yml"], ["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]],
)
def test_promtool_agrees(arguments: list[str]) -> None:
    run_validator(["promtool", *arguments], PROMETHEUS)


# ---- dashboard


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    used = {name for expression in expressions() for name in used_metrics(expression)}

    assert used <= metric_names()


def test_the_dashboard_leaves_out_nothing_of_the_system() -> None:
    used = {name for expression in expressions() for name in used_metrics(expression)}

    assert set(metrics._SYSTEM) <= used


def test_the_dashboard_shows_hot_cold_movement_and_workers() -> None:
    panels = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())["panels"]
    [source] = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"]

    assert [panel["title"] for panel in panels if panel["type"] == "row"] == ["Hot", "Cold", "Movement", "Workers"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {target["datasource"]["uid"] for panel in panels for target in panel.get("targets", ())} == {source["uid"]}
