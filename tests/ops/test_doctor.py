"""`tier doctor` as a whole: servers in order, what is down, configuration, clocks and libraries."""

from pathlib import Path
from typing import Any, cast

import pytest
import redis

from tests.fix_doctor import Doctor
from worker.doctor import clock
from worker.doctor.report import Report


def test_servers_in_order_leave_nothing_to_mend(doctor: Doctor, own_schema: str) -> None:
    shown = doctor.run(TIER_POSTGRES_SCHEMA=own_schema)

    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (0, "nothing to mend")
    for fact in ("Valkey 9", "noeviction", "persistence: AOF", "PostgreSQL 18", "indexes: all there", "langgraph "):
        assert fact in shown.stdout


def test_the_doctor_makes_nothing(doctor: Doctor, redis_owner: redis.Redis) -> None:
    keys_before = set(cast(Any, redis_owner.keys()))

    report = doctor.reports(TIER_POSTGRES_SCHEMA="not_there_yet", TIER_KEY_PREFIX="untouched")["postgres"]

    assert "makes what is missing" in " ".join(report["facts"])
    assert set(cast(Any, redis_owner.keys())) == keys_before


def test_writes_that_wait_while_nobody_works_are_found(doctor: Doctor, redis_owner: redis.Redis, prefix: str) -> None:
    long_ago = int(cast(Any, redis_owner.time())[0]) * 1000 - 600_000
    redis_owner.zadd(f"{prefix}:{{p003}}:dirty", {"thread": long_ago})

    alone = doctor.facts_to_mend("workers", TIER_KEY_PREFIX=prefix)
    idle = doctor.reports(TIER_KEY_PREFIX=f"{prefix}-idle")["workers"]

    assert alone == "0 workers live, and a write has waited 10m for Postgres"
    assert idle["facts"] == ["workers: 0 alive; no write has waited for long"]


def test_another_number_of_partitions_is_found(doctor: Doctor, own_schema: str) -> None:
    assert "TIER_PARTITIONS=4" in doctor.facts_to_mend("redis", TIER_PARTITIONS="8", TIER_POSTGRES_SCHEMA=own_schema)


def test_a_variable_that_does_nothing_is_found(doctor: Doctor) -> None:
    found = doctor.facts_to_mend("configuration", TIER_DEMOTE_AFER="5m")

    assert "TIER_DEMOTE_AFER is not a variable" in found


@pytest.mark.parametrize(
    ("variable", "url", "subject"),
    [
        ("TIER_REDIS_URL", "redis://:hidden@127.0.0.1:1/0", "redis"),
        ("TIER_QUEUE_URL", "redis://:hidden@127.0.0.1:1/0", "queue"),
        ("TIER_POSTGRES_URL", "postgresql://user:hidden@127.0.0.1:1/x", "postgres"),
    ],
)
def test_what_is_down_is_said_and_the_rest_is_checked(doctor: Doctor, variable: str, url: str, subject: str) -> None:
    shown = doctor.run(**{variable: url})
    reports = doctor.reports(**{variable: url})

    assert shown.exit_code == 1
    assert "does not answer" in reports[subject]["findings"][0]["fact"]
    assert all(not report["findings"] for name, report in reports.items() if name != subject)
    assert "hidden" not in shown.stdout + shown.stderr


def test_a_wrong_password_is_said_without_showing_it(doctor: Doctor) -> None:
    url = f"redis://:hidden-one@127.0.0.1:{doctor.servers.redis_port}/0"
    postgres = f"postgresql://postgres:hidden-two@127.0.0.1:{doctor.servers.postgres_port}/postgres"

    shown = doctor.run(TIER_REDIS_URL=url, TIER_POSTGRES_URL=postgres)

    assert shown.stdout.count("refuse") == 2
    assert "hidden" not in shown.stdout + shown.stderr


def test_a_wrong_configuration_is_misuse(doctor: Doctor) -> None:
    assert doctor.run(TIER_PARTITIONS="many").exit_code == 2
    assert doctor.run("--nonsense").exit_code == 2


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ({"Redis": clock.Offset(3.2, 0.1)}, "the clock of Redis is 3.2 s ahead of"),
        ({"Postgres": clock.Offset(-2.0, 0.1)}, "the clock of Postgres is 2.0 s behind"),
        ({"Redis": clock.Offset(0.9, 0.0), "Postgres": clock.Offset(-0.9, 0.0)}, "differ by 1.8 s"),
    ],
)
def test_clocks_that_differ_are_found(offsets: dict[str, clock.Offset], words: str) -> None:
    report = Report("clocks")

    clock.examine(offsets, report)

    assert words in report.findings[0].fact


def test_a_slow_answer_is_not_taken_for_a_wrong_clock() -> None:
    report = Report("clocks")

    clock.examine({"Redis": clock.Offset(1.4, 0.6)}, report)

    assert not report.findings


def test_a_library_out_of_range_is_found(doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "langgraph_checkpoint-3.0.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: langgraph-checkpoint\nVersion: 3.0.0\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert "langgraph-checkpoint is 3.0.0" in doctor.facts_to_mend("libraries")
