"""The hot tier: version, kind, memory, role, persistence and rights of the Redis that is asked."""

import re
from typing import Any

from saver.config import TierConfig
from saver.keys import Keys
from saver.urls import is_cluster
from worker.doctor.persistence import check_persistence
from worker.doctor.redis_client import RedisClient
from worker.doctor.report import Report
from worker.doctor.rights import check_rights

OLDEST = (6, 2)
FULLEST = 0.8  # of maxmemory
SLOWEST_REPLICA_SECONDS = 10


async def examine(config: TierConfig, redis: RedisClient, report: Report, *, is_queue: bool = False) -> None:
    """Look at one server. The queue of arq may evict nothing either; what it loses is only hints."""
    if (server := await redis.info("server")) is None:
        report.cannot_see("how full it is, and its replicas: the user may not use INFO; agents and workers need it too")
        server = await redis.greeting()
    if server:
        _check_version(server, report)
        _check_cluster(config, server, report)
    else:
        report.cannot_see("version and role: the user may use neither INFO nor HELLO")
    await _check_memory(redis, report)
    _check_role(await redis.info("replication") or server or {}, report)
    if not is_queue:
        await check_persistence(config, redis, report)
        await _check_partitions(config, redis, report)
    await check_rights(config, redis, report)


async def _check_partitions(config: TierConfig, redis: RedisClient, report: Report) -> None:
    known = await redis.ask("HGET", Keys(config.key_prefix, config.partitions).settings, "partitions")
    if known is not None and int(known) != config.partitions:
        report.find(
            f"this Redis was first used with TIER_PARTITIONS={int(known)}, and here it is {config.partitions}",
            "a process with another number refuses to start: it would look for threads under other keys",
            f"set TIER_PARTITIONS={int(known)}, or choose another TIER_KEY_PREFIX",
        )


def _check_version(server: dict[str, Any], report: Report) -> None:
    is_valkey = "valkey_version" in server
    version = str(server.get("valkey_version") or server.get("redis_version") or "?")
    kind = "Valkey" if is_valkey else "Redis"
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST:
        report.find(
            f"{kind} {version} is older than 6.2",
            "the scripts of the hot tier fail on it",
            "upgrade to Redis 6.2 or newer, or to Valkey",
        )
    else:
        report.note(f"version: {kind} {version}")


def _check_cluster(config: TierConfig, server: dict[str, Any], report: Report) -> None:
    is_node = "cluster" in (server.get("redis_mode"), server.get("server_mode"))
    if is_node and not is_cluster(config.redis_url.get_secret_value()):
        report.find(
            "this Redis is a node of a cluster",
            "keys that live on another node are refused (MOVED), so most threads cannot be used",
            "write redis+cluster:// instead of redis://, and a Redis of its own in TIER_QUEUE_URL",
        )


async def _check_memory(redis: RedisClient, report: Report) -> None:
    memory = await redis.info("memory") or {}
    _check_policy(await redis.setting("maxmemory-policy") or memory.get("maxmemory_policy"), report)
    known = memory.get("maxmemory", await redis.setting("maxmemory"))
    if known is None:
        report.cannot_see("maxmemory: this server tells it neither in INFO nor in CONFIG GET")
    else:
        _check_room(int(known), memory.get("used_memory"), report)


def _check_policy(policy: str | None, report: Report) -> None:
    if policy is None:
        report.cannot_see("maxmemory-policy: this server tells it neither in INFO nor in CONFIG GET")
    elif policy != "noeviction":
        report.find(
            f"maxmemory-policy is {policy}",
            "when memory is full, Redis throws threads away that are not in Postgres yet, without a word",
            "set maxmemory-policy noeviction in redis.conf",
        )
    else:
        report.note("maxmemory-policy: noeviction")


def _check_room(most: int, used: int | None, report: Report) -> None:
    if most == 0:
        report.find(
            "maxmemory is not set",
            "Redis grows until the system kills it, and then everything that is not archived is lost at once",
            "set maxmemory to about three quarters of what the machine or container has",
        )
    elif used is None:
        report.note(f"memory: at most {most >> 20} MiB")
    elif used > FULLEST * most:
        report.find(
            f"Redis has filled {used / most:.0%} of maxmemory ({most >> 20} MiB)",
            "when it is full, every write of an agent fails",
            "raise maxmemory, or lower TIER_DEMOTE_AFTER or TIER_HOT_CHECKPOINTS",
        )
    else:
        report.note(f"memory: {used / most:.0%} of {most >> 20} MiB")


def _check_role(replication: dict[str, Any], report: Report) -> None:
    if replication.get("role") == "slave":
        report.find(
            "this Redis is a replica",
            "it is read-only: every write of an agent fails",
            "point TIER_REDIS_URL at the primary",
        )
        return
    if "connected_slaves" not in replication:
        return
    replicas = [value for name, value in replication.items() if re.fullmatch(r"slave\d+", name)]
    late = [one for one in replicas if one.get("state") != "online" or int(one.get("lag", 0)) > SLOWEST_REPLICA_SECONDS]
    if late:
        report.find(
            f"{len(late)} of {len(replicas)} replicas are not up to date",
            "a failover to one of them loses what it has not got; what is archived comes back from Postgres",
            "look at the network between them and at the log of the replica",
        )
    elif replicas:
        report.note(f"replicas: {len(replicas)}, up to date")
    else:
        report.note("replicas: none; while this server is away, agents cannot write")
