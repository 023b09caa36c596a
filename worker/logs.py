"""
The log of a worker: one line for each event, as JSON or for people, from structlog and the standard library alike.

What leaves the process here holds no password, no payload, no argument of a job, no row that a driver quotes, and a
thread id only as a hash that cannot be looked up.
"""

import hmac
import logging
import re
import secrets
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from datetime import date, timedelta
from enum import Enum
from pathlib import Path, PurePath
from traceback import extract_tb
from typing import Any, TextIO
from uuid import UUID

import structlog
from pydantic import SecretStr
from structlog.stdlib import ExtraAdder, ProcessorFormatter

from saver.errors import TierError
from saver.urls import masked
from worker.config import WorkerConfig

_STOP = ("signal", "complete", "failed", "retries", "ongoing")
# The lines of arq that quote arguments, results or errors of a job, with the names of the facts to keep; an argument
# without a name is dropped. Any other line of arq is logged as its template, without arguments.
ARQ_EVENTS: dict[str, tuple[str, tuple[str | None, ...]]] = {
    "%6.2fs → %s(%s)%s": ("job started", ("waited_seconds", "job", None, None)),
    "%6.2fs ← %s ● %s": ("job finished", ("seconds", "job", None)),
    "%6.2fs ! %s failed, %s: %s": ("job failed", ("seconds", "job", "reason", None)),
    "%6.2fs ! %s max retries %d exceeded": ("job given up", ("seconds", "job", "tries")),
    "%6.2fs ↻ %s retrying job in %0.2fs": ("job will be retried", ("seconds", "job", "in_seconds")),
    "%6.2fs ↻ %s cancelled, will be run again": ("job cancelled, will be run again", ("seconds", "job")),
    "%6.2fs ⊘ %s aborted": ("job aborted", ("seconds", "job")),
    "%6.2fs ⊘ %s:%s aborted before start": ("job aborted before it started", ("seconds", "job", "function")),
    "job %s already running elsewhere": ("job runs elsewhere", ("job",)),
    "multi-exec error, job %s already started elsewhere": ("job was started elsewhere", ("job",)),
    "job %s expired": ("job expired", ("job",)),
    "job %s, function %r not found": ("job has an unknown function", ("job", "function")),
    "deserializing job %s failed": ("job cannot be read", ("job",)),
    "Starting worker for %d functions: %s": ("worker starts", ("functions", "names")),
    "shutdown on %s ◆ %d jobs complete ◆ %d failed ◆ %d retries ◆ %d ongoing to cancel": ("worker stops", _STOP),
    "shutdown on %s ◆ %d jobs complete ◆ %d failed ◆ %d retries ◆ %d to be completed": ("worker stops", _STOP),
    "shutdown on %s, wait complete ◆ %d jobs complete ◆ %d failed ◆ %d retries ◆ %d ongoing to cancel": (
        "worker waited for its jobs",
        _STOP,
    ),
    "recording health: %s": ("worker health", ("health",)),
    "redis connection error %s:%s %s %s, %s retries remaining...": (
        "redis connection error",
        ("host", "port", "reason", None, "retries_left"),
    ),
}

# The one line of arq that comes with its facts filled in: of the Redis of the queue, at the start.
_FACTS = re.compile(r"redis_version=\S+( \w+=\S+)+")

_OURS = ("saver", "jobs", "worker", "arq")
_ARQ = ("arq.worker", "arq.connections", "arq.jobs", "arq.utils")
_SECRET_NAMES = frozenset({"password", "secret", "token", "key", "encryption_key", "thread_secret", "url", "dsn"})
# Errors whose message names code, files or addresses. Any other, a driver's above all, may quote a row or a key.
_TELLING_ERRORS = (TierError, OSError, TypeError, AttributeError, NameError, ImportError)
_LONGEST_TEXT = 2000
_LONGEST_LIST = 100
_DEEPEST = 5
_STACK_LINES = 30

Event = MutableMapping[str, Any]


def configure_logging(config: WorkerConfig, stream: TextIO | None = None) -> None:
    """
    Send every log line of this process through one pipeline, to standard error unless told otherwise.

    May be called again, and before or after arq's command line has set up its own handler: that one stays silent.
    """
    level = logging.getLevelNamesMapping()[config.log_level.upper()]
    out = stream or sys.stderr
    handler = logging.StreamHandler(out)
    handler.setFormatter(_formatter(config, is_terminal=out.isatty()))
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)
    for name in _OURS:
        logging.getLogger(name).setLevel(level)
    for name in _ARQ:
        logging.getLogger(name).filters = [_Redirect(handler, level)]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


class Scrubber:
    """Takes out of an event what must not leave the process, at any depth of it."""

    def __init__(self, *, show_thread_ids: bool, secret: SecretStr | None) -> None:
        self._show_thread_ids = show_thread_ids
        self._key = secret.get_secret_value().encode() if secret else secrets.token_bytes(32)

    def __call__(self, _logger: object, _method: str, event: Event) -> Event:
        return self._fields(event, 0)

    def thread(self, thread_id: object) -> str:
        """What stands in the log for this thread: the same in all workers that share TIER_THREAD_SECRET."""
        return hmac.digest(self._key, b"tier log 1" + str(thread_id).encode("utf-8", "surrogatepass"), "sha256")[
            :8
        ].hex()

    def _fields(self, fields: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        return dict(self._field(str(name), value, depth) for name, value in fields.items())

    def _field(self, name: str, value: object, depth: int) -> tuple[str, Any]:
        if name == "thread_id" and not self._show_thread_ids:
            return "thread", self.thread(value)
        if name == "thread_ids" and not self._show_thread_ids and isinstance(value, list | tuple | set | frozenset):
            return "threads", [self.thread(thread_id) for thread_id in list(value)[:_LONGEST_LIST]]
        if name in _SECRET_NAMES:
            return name, "***"
        return name, self._value(value, depth + 1)

    def _value(self, value: object, depth: int) -> Any:
        match value:
            case None | bool() | int():
                return value
            case float():
                return value if abs(value) < float("inf") else str(value)
            case timedelta():
                return value.total_seconds()
            case date():
                return value.isoformat()
            case bytes() | bytearray() | memoryview():
                return f"{len(value)} bytes"
            case BaseException():
                return told(value)
            case Mapping() if depth < _DEEPEST:
                return self._fields(value, depth)
            case list() | tuple() | set() | frozenset() if depth < _DEEPEST:
                return [self._value(item, depth + 1) for item in list(value)[:_LONGEST_LIST]]
            case str() | Enum() | UUID() | PurePath():
                text = masked(str(value))
                return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."
            case _:
                return f"<{type(value).__name__}>"


def told(error: BaseException) -> str:
    """The type of an error, with its message if that cannot quote a row, else with the code that a driver gives."""
    name = type(error).__name__
    if isinstance(error, _TELLING_ERRORS):
        return masked(f"{name}: {error}".removesuffix(": "))
    code = getattr(error, "sqlstate", None)
    return f"{name} ({code})" if code else name


class _Redirect(logging.Filter):
    """
    Hands a record to our handler and to no other.

    arq's command line puts its own handler on its loggers after our module was imported. It leaves filters alone.
    """

    def __init__(self, handler: logging.Handler, level: int) -> None:
        super().__init__()
        self._handler = handler
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= self._level:
            self._handler.handle(record)
        return False


def _formatter(config: WorkerConfig, *, is_terminal: bool) -> logging.Formatter:
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if config.log_format == "console":
        renderer = structlog.dev.ConsoleRenderer(colors=is_terminal)
    return ProcessorFormatter(
        foreign_pre_chain=[
            ExtraAdder(),
            _name_event,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
        ],
        pass_foreign_args=True,
        processors=[
            ProcessorFormatter.remove_processors_meta,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _tell_error,
            Scrubber(show_thread_ids=config.log_thread_ids, secret=config.thread_secret),
            _event_first,
            renderer,
        ],
    )


def _name_event(_logger: object, _method: str, event: Event) -> Event:
    """
    The name of the event alone, and the facts of arq as fields, without the arguments, results and errors of jobs.

    What follows the first line of a message is no name: asyncio writes the repr of an error there.
    """
    arguments, record = event.pop("positional_args"), event["_record"]
    event["event"] = str(event["event"]).partition("\n")[0]
    if record.name in _ARQ:
        event["event"], names = ARQ_EVENTS.get(record.msg, (record.msg, ()))
        event.pop("extra", None)
        if _FACTS.fullmatch(record.msg):
            event["event"] = "queue is reached"
            event.update(pair.split("=") for pair in record.msg.split())
        event.update((name, value) for name, value in zip(names, arguments, strict=False) if name)
    return event


def _tell_error(_logger: object, _method: str, event: Event) -> Event:
    """The error and its causes by name, and where they were raised; never the text of a traceback."""
    error = event.pop("exc_info", None)
    if isinstance(error, tuple):
        error = error[1]
    elif error and not isinstance(error, BaseException):
        error = sys.exc_info()[1]
    if error:
        chain = list(_causes(error))
        event["error"] = " <- ".join(told(link) for link in chain)
        event["stack"] = [line for link in reversed(chain) for line in _stack(link)][-_STACK_LINES:]
    return event


def _causes(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(_DEEPEST):
        if link is None:
            return
        yield link
        if isinstance(link, BaseExceptionGroup):
            link = link.exceptions[0]
        else:
            link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _stack(error: BaseException) -> Iterator[str]:
    for frame in extract_tb(error.__traceback__):
        path = Path(frame.filename)
        yield f"{path.parent.name}/{path.name}:{frame.lineno} {frame.name}"


def _event_first(_logger: object, _method: str, event: Event) -> Event:
    first = {name: event[name] for name in ("event", "level", "timestamp", "logger") if name in event}
    return first | {name: value for name, value in event.items() if name not in first}
