"""
TierConfig: everything about the tiers that agents and workers must agree on, from the TIER_ variables.

The only module of the library that reads the environment.
"""

import binascii
import logging
import os
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, time, timedelta
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from saver.durations import format_duration, format_size, parse_duration, parse_size
from saver.errors import ConfigError
from saver.faults import faults, follows, nearest
from saver.urls import check_postgres_url, check_redis_url, is_cluster, shown_url

PREFIX = "TIER_"
WORKER_VARIABLES = frozenset(
    f"{PREFIX}{name}"
    for name in ("WORKER_JOBS", "METRICS_PORT", "METRICS_HOST", "LOG_LEVEL", "LOG_FORMAT", "LOG_THREAD_IDS")
)
SHORTEST_THREAD_SECRET_BYTES = 16

_LONGEST_TIMEOUT = timedelta(minutes=10)

log = logging.getLogger(__name__)
T = TypeVar("T")


def whole_number(low: int, high: int) -> Callable[[object], int]:
    """A reader of whole numbers within bounds; its ValueError says how to write one."""

    def read(value: object) -> int:
        number = int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,12}", value) else value
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            raise ValueError(f"write a whole number from {low} to {high}")
        return number

    return read


def unless(word: Literal["off", "all"], read: Callable[[object], T]) -> Callable[[object], T | None]:
    """A reader that takes `word` for None and leaves everything else to `read`."""

    def read_unless(value: object) -> T | None:
        if value is None or value == word:
            return None
        try:
            return read(value)
        except ValueError as fault:
            raise ValueError(f"{fault}, or {word}") from None

    return read_unless


def _text(pattern: str, advice: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(advice)
        return value

    return AfterValidator(check)


def _secret(check: Callable[[str], object]) -> AfterValidator:
    def check_secret(value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            check(value.get_secret_value())
        return value

    return AfterValidator(check_secret)


def _read_time_of_day(value: object) -> object:
    if isinstance(value, str) and re.fullmatch("([01][0-9]|2[0-3]):[0-5][0-9]", value):
        value = time.fromisoformat(value)
    if isinstance(value, time) and value.tzinfo in (None, UTC):
        return value.replace(tzinfo=UTC)
    if value == "hourly":
        return value
    raise ValueError("write a UTC time like 03:00, or hourly")


def _aes_key(text: str) -> bytes:
    encoding, separator, rest = text.partition(":")
    try:
        if separator and encoding == "base64":
            key = b64decode(rest, validate=True)
        elif separator and encoding == "hex":
            key = bytes.fromhex(rest)
        else:
            key = text.encode()
    except (binascii.Error, ValueError):
        key = b""
    if len(key) not in (16, 24, 32):
        raise ValueError("is not an AES key: write 16, 24 or 32 bytes as text, or encoded as base64:... or hex:...")
    return key


def check_thread_secret(secret: bytes) -> None:
    """Refuse, with a ValueError that does not quote it, a secret that could be guessed."""
    if len(secret) < SHORTEST_THREAD_SECRET_BYTES:
        raise ValueError(f"is too short: write at least {SHORTEST_THREAD_SECRET_BYTES} random bytes")


def _check_schema(name: str) -> str:
    if not re.fullmatch(r"[^\W\d][\w$]*", name) or len(name.encode()) > 63:
        raise ValueError("write an identifier of at most 63 bytes: letters, digits, _ and $")
    if name.startswith("pg_") or name == "information_schema":
        raise ValueError("write another name: this one belongs to Postgres itself")
    return name


RedisUrl = Annotated[SecretStr, _secret(check_redis_url)]
PostgresUrl = Annotated[SecretStr, _secret(check_postgres_url)]
Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
PoolSize = Annotated[int, BeforeValidator(whole_number(1, 10_000))]


class TierConfig(BaseSettings):
    """
    The part of the configuration that agents and workers share. Arguments win over the environment.

    Each field is the lower-case rest of its TIER_ variable and takes what the variable takes; a duration
    is also a timedelta, and what is `off` or `all` there is None here. A wrong value raises ConfigError,
    which lists every fault at once. No secret is in a repr, a message or a traceback's message.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )

    redis_url: RedisUrl
    postgres_url: PostgresUrl
    postgres_replica_url: Annotated[SecretStr | None, _secret(check_postgres_url)] = None
    queue_url: RedisUrl = None  # type: ignore[assignment]  # a validator puts redis_url there
    key_prefix: Annotated[
        str,
        _text(r"[A-Za-z0-9_.:/-]{1,64}", "write at most 64 letters, digits and _ . : / -"),
    ] = "tier"
    postgres_schema: Annotated[str, AfterValidator(_check_schema)] = "public"
    partitions: Annotated[int, BeforeValidator(whole_number(1, 999))] = 64
    write_mode: Literal["behind", "through"] = "behind"
    archive_after: Duration = timedelta(seconds=5)
    demote_after: Duration = timedelta(minutes=30)
    hot_checkpoints: Annotated[int | None, BeforeValidator(unless("all", whole_number(1, 1_000_000)))] = 8
    promote_checkpoints: Annotated[int | None, BeforeValidator(unless("all", whole_number(1, 1_000_000)))] = 1
    on_idle: Literal["archive", "expire"] = "archive"
    retain_for: Annotated[timedelta | None, BeforeValidator(unless("off", parse_duration))] = None
    keep_checkpoints: Annotated[int | None, BeforeValidator(unless("off", whole_number(1, 1_000_000)))] = None
    retain_waiting: Literal["keep", "expire"] = "keep"
    retention_at: Annotated[time | Literal["hourly"], BeforeValidator(_read_time_of_day)] = time(3, tzinfo=UTC)
    encryption_key: Annotated[SecretStr | None, _secret(_aes_key)] = None
    strict_types: bool = False
    thread_secret: Annotated[SecretStr | None, _secret(lambda text: check_thread_secret(text.encode()))] = None
    redis_pool_size: PoolSize = 32
    postgres_min_size: Annotated[int, BeforeValidator(whole_number(0, 10_000))] = 2
    postgres_max_size: PoolSize = 10
    redis_timeout: Duration = timedelta(seconds=2)
    postgres_timeout: Duration = timedelta(seconds=10)
    batch_threads: Annotated[int, BeforeValidator(whole_number(1, 100_000))] = 200
    batch_bytes: Annotated[int, BeforeValidator(parse_size)] = 32 << 20

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            found = list(faults(error, type(self).model_fields, PREFIX))
        else:
            return
        # Outside of the handler: pydantic's error holds the values, and would travel along as the context.
        raise ConfigError("; ".join(found))

    @classmethod
    def from_env(cls) -> Self:
        """The configuration of this process. Unknown TIER_ variables are warned about."""
        warn_of_unknown_variables()
        return cls()

    @property
    def archive_wait(self) -> timedelta:
        """How long a row waits for a worker to take it; the rest of archive_after is for finding and copying it."""
        return self.archive_after / 2

    @property
    def aes_key(self) -> bytes | None:
        """The decoded encryption_key."""
        return None if self.encryption_key is None else _aes_key(self.encryption_key.get_secret_value())

    def effective(self) -> dict[str, str]:
        """Every variable with the value in force, as it is written in the environment, secrets hidden."""
        return {_variable(name): _written(name, getattr(self, name)) for name in type(self).model_fields}

    @field_validator("queue_url", mode="before")
    @classmethod
    def _queue_on_hot(cls, value: object, info: ValidationInfo) -> object:
        if value is not None:
            return value
        if "redis_url" not in info.data:
            raise follows("TIER_REDIS_URL")
        if is_cluster(info.data["redis_url"].get_secret_value()):
            raise ValueError("is not set, and arq cannot keep its queue in the cluster of TIER_REDIS_URL")
        return info.data["redis_url"]

    @field_validator("queue_url")
    @classmethod
    def _queue_on_one_redis(cls, value: SecretStr) -> SecretStr:
        if is_cluster(value.get_secret_value()):
            raise ValueError("is a cluster, and arq cannot keep its queue in one: write the address of a single Redis")
        return value

    @field_validator("demote_after")
    @classmethod
    def _archive_first(cls, value: timedelta, info: ValidationInfo) -> timedelta:
        archive_after = info.data.get("archive_after")
        if archive_after is not None and value <= archive_after:
            raise ValueError(f"write more than TIER_ARCHIVE_AFTER, which is {format_duration(archive_after)}")
        return value

    @field_validator("on_idle")
    @classmethod
    def _expire_without_postgres(cls, value: str, info: ValidationInfo) -> str:
        if value == "expire" and info.data.get("write_mode") == "through":
            raise ValueError("write archive, or set TIER_WRITE_MODE to behind: with through each write is in Postgres")
        return value

    @field_validator("postgres_max_size")
    @classmethod
    def _room_for_min_size(cls, value: int, info: ValidationInfo) -> int:
        min_size = info.data.get("postgres_min_size")
        if min_size is not None and value < min_size:
            raise ValueError(f"write at least TIER_POSTGRES_MIN_SIZE, which is {min_size}")
        return value

    @field_validator("redis_timeout", "postgres_timeout")
    @classmethod
    def _every_call_ends(cls, value: timedelta) -> timedelta:
        if value > _LONGEST_TIMEOUT:
            raise ValueError(f"write at most {format_duration(_LONGEST_TIMEOUT)}")
        return value


def thread_secret_from_env() -> SecretStr | None:
    """TIER_THREAD_SECRET alone, for a process that makes thread ids and knows neither tier."""
    secret = os.environ.get(f"{PREFIX}THREAD_SECRET")
    return None if secret is None else SecretStr(secret)


def environment_for(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process: that of this one, with these TIER_ variables and no others."""
    others = {name: value for name, value in os.environ.items() if not name.upper().startswith(PREFIX)}
    return {**others, **variables}


def unknown_variables() -> dict[str, str | None]:
    """The TIER_ variables that mean nothing, each with the known one that it may be a slip of."""
    known = {_variable(name) for name in TierConfig.model_fields} | WORKER_VARIABLES
    unknown = sorted(name for name in os.environ if name.upper().startswith(PREFIX) and name.upper() not in known)
    return {name: nearest(name.upper(), known) for name in unknown}


def warn_of_unknown_variables() -> None:
    """Log one warning that names them all; their values are not told."""
    if unknown := unknown_variables():
        names = [f"{name} (did you mean {meant}?)" if meant else name for name, meant in unknown.items()]
        log.warning("unknown variables are ignored: %s", ", ".join(names), extra={"variables": list(unknown)})


def _written(name: str, value: object) -> str:
    match value:
        case SecretStr() if name.endswith("_url"):
            return shown_url(value.get_secret_value())
        case SecretStr():
            return "***"
        case None if name in ("encryption_key", "thread_secret", "postgres_replica_url"):
            return "none"
        case None:
            return "all" if name in ("hot_checkpoints", "promote_checkpoints") else "off"
        case int() if name == "batch_bytes":
            return format_size(value)
        case _:
            return _written_value(value)


def _written_value(value: object) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case timedelta():
            return format_duration(value)
        case time():
            return f"{value:%H:%M}"
        case _:
            return str(value)


def _variable(name: str) -> str:
    return f"{PREFIX}{name.upper()}"
