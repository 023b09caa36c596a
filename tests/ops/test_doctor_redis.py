"""`tier doctor` on Redis: policies, persistence, memory, roles and rights."""

import json
import os
import re
import secrets
import signal
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import redis

from saver import TierConfig, TieredSaver
from saver.errors import HotTierError
from tests.fix_doctor import Doctor
from tests.fix_nodes import StartNode
from tests.fix_servers import StartServers
from tests.waiting import eventually
from worker.doctor.persistence import Persistence, loss_of
from worker.doctor.rights import COMMANDS, acl_rule
from worker.embedded import Embedded

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_policy_that_evicts_is_found(doctor: Doctor, redis_owner: redis.Redis, policy: str) -> None:
    redis_owner.config_set("maxmemory-policy", policy)

    shown = doctor.run()

    assert shown.exit_code == 1
    assert f"maxmemory-policy is {policy}" in shown.stdout
    assert "set maxmemory-policy noeviction" in shown.stdout


@pytest.mark.parametrize(
    ("save", "appendonly", "mode"),
    [
        ("", "no", Persistence.NONE),
        ("60 1", "no", Persistence.RDB),
        ("", "yes", Persistence.AOF),
        ("60 1", "yes", Persistence.BOTH),
    ],
)
def test_each_persistence_mode_is_told_with_what_it_can_lose(
    doctor: Doctor, redis_owner: redis.Redis, save: str, appendonly: str, mode: Persistence
) -> None:
    redis_owner.config_set("save", save)
    redis_owner.config_set("appendonly", appendonly)

    behind = doctor.reports(TIER_ARCHIVE_AFTER="7s")["redis"]
    through = doctor.reports(TIER_WRITE_MODE="through")["redis"]

    told = json.dumps(behind["findings"] if appendonly == "no" else behind["facts"])
    assert f"persistence: {mode.value}" in told
    assert ("last 7s (TIER_ARCHIVE_AFTER)" if appendonly == "no" else "last 2s of writes") in told
    assert "loses nothing that was acknowledged" in json.dumps(through["facts"])


@pytest.mark.parametrize(("fsync", "words"), [("always", "nothing"), ("no", "last 10s"), ("everysec", "last 2s")])
def test_what_an_append_only_file_loses_depends_on_its_fsync(fsync: str, words: str) -> None:
    config = TierConfig(redis_url="redis://hot", postgres_url="postgresql://cold/x", archive_after="10s")

    assert words in loss_of(Persistence.AOF, fsync, config)


def test_memory_that_runs_out_is_found(doctor: Doctor, redis_owner: redis.Redis) -> None:
    used = int(cast(Any, redis_owner.info("memory"))["used_memory"])

    redis_owner.config_set("maxmemory", int(used * 1.1))
    full = doctor.facts_to_mend("redis")
    redis_owner.config_set("maxmemory", 0)
    unlimited = doctor.facts_to_mend("redis")

    assert "of maxmemory" in full
    assert "maxmemory is not set" in unlimited


def test_a_replica_is_found(doctor: Doctor, redis_owner: redis.Redis) -> None:
    redis_owner.replicaof("127.0.0.1", 1)
    try:
        found = doctor.facts_to_mend("redis")
    finally:
        redis_owner.replicaof("NO", "ONE")

    assert "this Redis is a replica" in found


@pytest.mark.slow
def test_a_replica_that_falls_behind_is_found(
    doctor: Doctor, sound_servers: Embedded, redis_owner: redis.Redis, start_node: StartNode
) -> None:
    redis_owner.config_set("repl-diskless-sync-delay", 0)
    password = urlsplit(sound_servers.redis_url).password
    follows = {"replicaof": f"127.0.0.1 {sound_servers.redis_port}", "masterauth": password}
    replica = start_node(follows)
    eventually(lambda: "replicas: 1, up to date" in doctor.reports()["redis"]["facts"], within_seconds=30)

    os.kill(replica.pid, signal.SIGSTOP)

    eventually(lambda: "1 of 1 replicas are not up to date" in doctor.facts_to_mend("redis"), within_seconds=40)


def test_a_node_of_a_cluster_is_found(private_servers: StartServers) -> None:
    servers = private_servers(redis_settings={"cluster-enabled": "yes"})

    assert "a node of a cluster" in Doctor(servers).facts_to_mend("redis")


# ---- rights in Redis


def with_user(servers: Embedded, redis_owner: redis.Redis, rule: str) -> str:
    """The address of Redis for a new user with these rights."""
    name, password = f"user-{secrets.token_hex(4)}", secrets.token_hex(8)
    redis_owner.execute_command("ACL", "SETUSER", name, "on", f">{password}", *rule.split())  # type: ignore[no-untyped-call]
    return f"redis://{name}:{password}@127.0.0.1:{servers.redis_port}/0"


def test_the_shipped_rule_is_the_one_that_is_checked() -> None:
    [_, user] = (ROOT / "deploy" / "redis.acl").read_text().splitlines()

    assert user == f"user tier on >CHANGE-ME {acl_rule('tier')}"


def test_the_shipped_rule_covers_every_command_of_the_scripts() -> None:
    scripts = (ROOT / "saver" / "lua").glob("*.lua")

    used = {name.lower() for path in scripts for name in re.findall(r"redis\.call\('(\w+)'", path.read_text())}

    assert used <= set(COMMANDS)


def test_an_agent_works_with_the_shipped_rule(
    doctor: Doctor, sound_servers: Embedded, redis_owner: redis.Redis, own_schema: str
) -> None:
    url = with_user(sound_servers, redis_owner, acl_rule("tier"))
    config = TierConfig(
        redis_url=url,
        postgres_url=sound_servers.postgres_url,
        postgres_schema=own_schema,
        key_prefix="tier",
        partitions=4,
    )
    checkpoint: Any = {"v": 4, "id": "1", "ts": "", "channel_values": {}, "channel_versions": {}, "versions_seen": {}}

    with TieredSaver(config) as saver:
        saver.put({"configurable": {"thread_id": "a", "checkpoint_ns": ""}}, checkpoint, {}, {})
        saver.demote("a")
        saver.promote("a")
        tier_then = saver.tier_of("a")
        saver.delete_thread("a")

    assert tier_then == "hot"
    report = doctor.reports(TIER_REDIS_URL=url)["redis"]
    assert report["findings"] == []
    assert "CONFIG GET" in " ".join(report["unseen"])


def test_an_agent_without_a_right_of_a_script_says_so(
    sound_servers: Embedded, redis_owner: redis.Redis, own_schema: str
) -> None:
    url = with_user(sound_servers, redis_owner, f"{acl_rule('tier')} -hset")
    config = TierConfig(
        redis_url=url, postgres_url=sound_servers.postgres_url, postgres_schema=own_schema, partitions=4
    )

    with TieredSaver(config) as saver, pytest.raises(HotTierError, match="lacks a right"):
        saver.promote("a")


def test_without_info_what_can_be_seen_is_checked(
    doctor: Doctor, sound_servers: Embedded, redis_owner: redis.Redis
) -> None:
    url = with_user(sound_servers, redis_owner, f"{acl_rule('tier')} -info +config|get +hello")
    redis_owner.config_set("maxmemory-policy", "allkeys-lru")
    redis_owner.config_set("appendonly", "no")

    report = doctor.reports(TIER_REDIS_URL=url)["redis"]

    found = "\n".join(finding["fact"] for finding in report["findings"])
    assert "maxmemory-policy is allkeys-lru" in found
    assert "persistence: none" in found
    assert "may not use info" in found
    assert "version: Valkey 9" in " ".join(report["facts"])
    assert "how full it is" in " ".join(report["unseen"])


def test_missing_rights_are_named(doctor: Doctor, sound_servers: Embedded, redis_owner: redis.Redis) -> None:
    url = with_user(sound_servers, redis_owner, f"{acl_rule('tier')} -info -hset -zadd")

    report = doctor.reports(TIER_REDIS_URL=url)["redis"]

    [finding] = report["findings"]
    assert "may not use hset, info, zadd" in finding["fact"]
    assert acl_rule("tier") in finding["next_step"]
    assert "INFO" in " ".join(report["unseen"])


def test_keys_out_of_reach_are_named(doctor: Doctor, sound_servers: Embedded, redis_owner: redis.Redis) -> None:
    url = with_user(sound_servers, redis_owner, acl_rule("another"))

    found = doctor.facts_to_mend("redis", TIER_REDIS_URL=url)

    assert "may not use the keys tier:* and arq:*" in found
