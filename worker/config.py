"""
WorkerConfig: what the tiers agree on, and what only a worker process needs.
"""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, field_validator

from saver.config import TierConfig, unless, whole_number

LogLevel = Literal["debug", "info", "warning", "error"]


class WorkerConfig(TierConfig):
    """
    The configuration of one worker process. It is a TierConfig, so the faults of both are in one message.
    """

    worker_jobs: Annotated[int, BeforeValidator(whole_number(1, 1000))] = 10
    metrics_port: Annotated[int | None, BeforeValidator(unless("off", whole_number(0, 65_535)))] = 9464
    metrics_host: str = "127.0.0.1"
    log_level: Annotated[
        LogLevel, BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)
    ] = "info"
    log_format: Literal["json", "console"] = "json"
    log_thread_ids: bool = False

    @classmethod
    def load(cls) -> Self:
        """The configuration of this process, from the environment, or ConfigError with every fault."""
        return cls.from_env()

    @property
    def tier(self) -> TierConfig:
        """The part that agents have too."""
        return self

    @field_validator("metrics_host")
    @classmethod
    def _is_host(cls, value: str) -> str:
        if not value or any(character.isspace() or character in "/@" for character in value):
            raise ValueError("write a host or an address like 127.0.0.1 or ::")
        return value
