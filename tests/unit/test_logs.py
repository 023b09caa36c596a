"""A log line names its event, carries its facts as fields, and tells no secret, payload or thread id."""

import asyncio
import inspect
import io
import json
import logging
import logging.config
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import arq.connections
import arq.worker
import psycopg
import pytest
import structlog
from arq.logs import default_log_config
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from saver.errors import ColdTierError
from worker.config import WorkerConfig
from worker.logs import ARQ_EVENTS, configure_logging

SECRET = "a secret of many bytes"
LOGGERS = ("saver", "jobs", "worker", "arq", "arq.worker", "arq.connections", "arq.jobs", "arq.utils")


class Log:
    """The log of this process, read line by line."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def configure(self, **values: object) -> None:
        told: dict[str, Any] = {"redis_url": "redis://cache", "postgres_url": "postgresql://db/tiers"}
        configure_logging(WorkerConfig(**told | values), self.stream)

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def event(self) -> dict[str, Any]:
        (event,) = self.events
        return event


@pytest.fixture
def log() -> Iterator[Log]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    # Out of reach of the pipeline, which closes what it replaces.
    root.handlers = []
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    log = Log()
    log.configure()
    yield log
    root.handlers = handlers
    root.setLevel(level)
    for name in LOGGERS:
        logging.getLogger(name).setLevel(levels[name])
        logging.getLogger(name).filters = []
        logging.getLogger(name).handlers = []
    structlog.reset_defaults()


def test_an_extra_field_of_the_standard_library_is_a_field(log: Log) -> None:
    logging.getLogger("jobs.archive").info("thread archived", extra={"rows": 3, "age": timedelta(seconds=90)})

    event = log.event
    assert list(event)[:4] == ["event", "level", "timestamp", "logger"]
    assert datetime.fromisoformat(event.pop("timestamp")).tzinfo == UTC
    assert event == {"event": "thread archived", "level": "info", "logger": "jobs.archive", "rows": 3, "age": 90.0}


def test_structlog_and_the_standard_library_write_the_same_line(log: Log) -> None:
    logging.getLogger("worker.x").warning("queue grows", extra={"jobs": 3})
    structlog.get_logger("worker.x").warning("queue grows", jobs=3)

    first, second = ({**event, "timestamp": None} for event in log.events)
    assert first == second


def test_the_level_holds_for_our_loggers_and_others_are_heard_from_warning_on(log: Log) -> None:
    log.configure(log_level="DEBUG")

    logging.getLogger("saver.queue").debug("heard")
    logging.getLogger("asyncio").info("not heard")
    logging.getLogger("asyncio").warning("heard too")

    assert [event["event"] for event in log.events] == ["heard", "heard too"]


def test_the_console_format_is_for_people(log: Log) -> None:
    log.configure(log_format="console")

    logging.getLogger("jobs").info("thread archived", extra={"rows": 3})

    assert "thread archived" in log.text
    assert "rows=3" in log.text


@given(password=st.text("abc:/?#[]@!$&'()*+,;=%\"\\ é", min_size=1).map(lambda text: f"hunter2{text}hunter2"))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_password_of_an_address_is_masked_wherever_it_stands(log: Log, password: str) -> None:
    log.stream = io.StringIO()
    log.configure()
    url = f"redis://user:{quote(password, safe='')}@cache:6379/0"

    logging.getLogger("saver").error(
        "no answer from %s",
        url,
        extra={"told": f"see {url}", "nested": {"urls": [url]}, "conninfo": "password='hunter2'"},
    )

    assert "hunter2" not in log.text
    assert "redis://***@cache:6379/0" in log.text


def test_a_field_that_is_named_like_a_secret_or_holds_bytes_is_not_shown(log: Log) -> None:
    logging.getLogger("saver").info("x", extra={"password": "hunter2", "row": b"hunter2", "state": object()})

    assert (log.event["password"], log.event["row"], log.event["state"]) == ("***", "7 bytes", "<object>")


def test_a_thread_id_is_a_hash_at_any_depth(log: Log) -> None:
    logging.getLogger("jobs").info(
        "threads archived",
        extra={"thread_id": "alice-1", "thread_ids": ["alice-1"], "batch": [{"thread_id": "alice-1"}]},
    )

    event = log.event
    assert "alice" not in log.text
    assert len(event["thread"]) == 16
    assert event["threads"] == [event["thread"]]
    assert event["batch"] == [{"thread": event["thread"]}]


def test_a_thread_has_the_same_hash_in_all_workers_that_share_a_secret(log: Log) -> None:
    for _ in range(2):
        log.configure(thread_secret=SECRET)
        logging.getLogger("jobs").info("x", extra={"thread_id": "alice-1"})
    for _ in range(2):
        log.configure()
        logging.getLogger("jobs").info("x", extra={"thread_id": "alice-1"})

    shared, again, own, other = (event["thread"] for event in log.events)
    assert shared == again
    assert len({shared, own, other}) == 3


def test_a_thread_id_is_shown_to_those_who_ask_for_it(log: Log) -> None:
    log.configure(log_thread_ids="on")

    logging.getLogger("jobs").info("x", extra={"thread_id": "alice-1"})

    assert log.event["thread_id"] == "alice-1"


def test_an_error_tells_its_causes_and_not_the_row_that_a_driver_quotes(log: Log) -> None:
    try:
        try:
            raise psycopg.errors.UniqueViolation("Key (thread_id)=(alice-1) already exists")
        except psycopg.Error as error:
            raise ColdTierError("Postgres refused the rows of one thread") from error
    except ColdTierError:
        logging.getLogger("jobs").exception("archive failed")

    event = log.event
    assert event["error"] == "ColdTierError: Postgres refused the rows of one thread <- UniqueViolation (23505)"
    assert any(line.startswith("unit/test_logs.py:") for line in event["stack"])
    assert "alice" not in log.text


def test_an_error_in_a_task_group_is_told(log: Log) -> None:
    group = ExceptionGroup("several", [OSError("no route to host"), ValueError("hunter2")])

    structlog.get_logger("worker").error("stopped", exc_info=group)

    assert log.event["error"] == "ExceptionGroup <- OSError: no route to host"
    assert "hunter2" not in log.text


async def test_a_task_that_nobody_awaited_does_not_tell_its_error(log: Log) -> None:
    loop = asyncio.get_running_loop()

    loop.call_exception_handler({"message": "Task exception was never retrieved", "exception": ValueError("hunter2")})

    assert log.event["event"] == "Task exception was never retrieved"
    assert "hunter2" not in log.text


def test_a_job_of_arq_is_told_without_its_arguments_result_and_error(log: Log) -> None:
    arq_log = logging.getLogger("arq.worker")

    arq_log.info("%6.2fs → %s(%s)%s", 0.5, "7:archive", "'hunter2', thread_id='hunter2'", " try=2")
    arq_log.info("%6.2fs ← %s ● %s", 0.25, "7:archive", "'hunter2'")
    try:
        raise ValueError("hunter2")
    except ValueError as error:
        arq_log.exception(
            "%6.2fs ! %s failed, %s: %s", 0.1, "7:archive", "ValueError", error, extra={"extra": "hunter2"}
        )

    started, finished, failed = log.events
    assert (started["event"], started["job"], started["waited_seconds"]) == ("job started", "7:archive", 0.5)
    assert (finished["event"], finished["job"], finished["seconds"]) == ("job finished", "7:archive", 0.25)
    assert (failed["event"], failed["reason"], failed["error"]) == ("job failed", "ValueError", "ValueError")
    assert "hunter2" not in log.text


async def test_what_arq_says_of_its_redis_is_an_event_with_facts(log: Log, redis_url: str) -> None:
    redis = await arq.create_pool(arq.connections.RedisSettings.from_dsn(redis_url))
    await arq.connections.log_redis_info(redis, logging.getLogger("arq.worker").info)
    await redis.aclose(close_connection_pool=True)

    assert log.event["event"] == "queue is reached"
    assert {"redis_version", "mem_usage", "clients_connected", "db_keys"} <= set(log.event)


def test_a_line_of_arq_that_we_do_not_know_is_told_without_arguments(log: Log) -> None:
    logging.getLogger("arq.worker").warning("something new about %s", "hunter2")

    assert log.event["event"] == "something new about %s"
    assert "hunter2" not in log.text


@pytest.mark.parametrize("template", ARQ_EVENTS)
def test_each_line_of_arq_that_we_rewrite_is_still_in_arq(template: str) -> None:
    source = inspect.getsource(arq.worker) + inspect.getsource(arq.connections)

    assert f"'{template}'" in source


def test_the_command_line_of_arq_does_not_bring_a_second_line(log: Log, capfd: pytest.CaptureFixture[str]) -> None:
    logging.config.dictConfig(default_log_config(verbose=False))

    logging.getLogger("arq.worker").info("Starting worker for %d functions: %s", 1, "archive")
    logging.getLogger("arq.connections").warning("redis connection successful")

    assert [event["event"] for event in log.events] == ["worker starts", "redis connection successful"]
    assert capfd.readouterr().err == ""
