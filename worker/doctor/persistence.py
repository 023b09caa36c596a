"""What Redis keeps on disk, and what a crash of it can lose."""

from datetime import timedelta
from enum import Enum
from typing import Any

from saver.config import TierConfig
from saver.durations import format_duration
from worker.doctor.redis_client import RedisClient
from worker.doctor.report import Report

_FLUSHED_BY_KERNEL = timedelta(seconds=30)  # Linux writes dirty pages back about that often


class Persistence(Enum):
    """The four modes."""

    NONE = "none"
    RDB = "RDB"
    AOF = "AOF"
    BOTH = "RDB and AOF"


def mode_of(*, snapshots: bool, log: bool) -> Persistence:
    """The mode that has these two parts."""
    if log:
        return Persistence.BOTH if snapshots else Persistence.AOF
    return Persistence.RDB if snapshots else Persistence.NONE


def loss_of(mode: Persistence, fsync: str, config: TierConfig) -> str:
    """What a crash of Redis loses in this mode, with the write mode of this configuration."""
    if config.write_mode == "through":
        return "a crash of Redis loses nothing that was acknowledged: TIER_WRITE_MODE is through"
    wait = format_duration(config.archive_after)
    most = f"writes of the last {wait} (TIER_ARCHIVE_AFTER) and one batch, which are not in Postgres yet"
    match mode, fsync:
        case (Persistence.NONE, _):
            return f"a crash or restart of Redis loses at most the {most}"
        case (Persistence.RDB, _):
            return (
                f"a crash of Redis loses at most the {most}; of those, the last snapshot has only what came before it"
            )
        case (_, "always"):
            return "a crash of Redis loses nothing that was acknowledged: each write is on disk first"
        case (_, "no"):
            return f"a crash of the machine loses at most the last {_shorter(_FLUSHED_BY_KERNEL, config)} of writes"
        case _:
            return f"a crash of the machine loses at most the last {_shorter(timedelta(seconds=2), config)} of writes"


async def check_persistence(config: TierConfig, redis: RedisClient, report: Report) -> None:
    """Which of the four modes this server is in, and whether it works."""
    info, save = await redis.info("persistence"), await redis.setting("save")
    if info is None and save is None:
        report.cannot_see("persistence: the user may use neither INFO nor CONFIG GET")
        return
    has_log = info.get("aof_enabled") == 1 if info else await redis.setting("appendonly") == "yes"
    fsync = await redis.setting("appendfsync") if has_log else ""
    if save is None:
        report.cannot_see("snapshots and appendfsync: the user may not use CONFIG GET; the worst is assumed")
    mode = mode_of(snapshots=bool(save), log=has_log)
    loss = loss_of(mode, "no" if fsync is None else fsync, config)
    shown = f"persistence: {mode.value}" + (f", appendfsync {fsync}" if fsync else "")
    if config.write_mode == "behind" and (not has_log or fsync == "no"):
        report.find(
            shown,
            loss,
            "set appendonly yes and appendfsync everysec in redis.conf, or TIER_WRITE_MODE=through; or accept the loss",
        )
    else:
        report.note(f"{shown}; {loss}")
    _check_writes(info or {}, has_log, report)


def _check_writes(info: dict[str, Any], has_log: bool, report: Report) -> None:
    failed = [name for name in ("rdb_last_bgsave_status", "aof_last_write_status") if info.get(name, "ok") != "ok"]
    if failed:
        report.find(
            f"Redis could not write to its disk ({', '.join(failed)})",
            "it refuses writes (MISCONF), or what it has on disk grows old",
            "look into the log of Redis, and at the space on its disk",
        )
    if info.get("loading") == 1:
        report.find(
            "Redis is loading its data", "it answers nothing until it is done", "wait, then run tier doctor again"
        )
    if has_log and info.get("aof_last_bgrewrite_status", "ok") != "ok":
        report.find(
            "Redis could not rewrite its append-only file",
            "the file grows until the disk is full",
            "look into the log of Redis, and at the space on its disk",
        )


def _shorter(time: timedelta, config: TierConfig) -> str:
    """What is archived is not lost, however late Redis writes."""
    return format_duration(min(time, config.archive_after))
