"""
What SECURITY.md says: stored bytes are not executed (SEC-01), values are not in clear (SEC-04), secrets are not told.
"""

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import redis
from click.testing import CliRunner
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from psycopg import sql

from saver import TierConfig, TieredSaver
from saver.config import environment_for
from saver.errors import TierError
from saver.keys import Keys
from saver.pack import pack_blob
from tests.builders import Thread
from tests.ops import trap
from tests.waiting import eventually_async
from worker.cli.group import tier as group
from worker.demo.worker_process import WorkerProcess

ALLOWED = [("tests.ops.trap", "Trap")]
SECRET, PIN, LISTED = "SSN-123-TOP", 471_147_114_711, "SSN-456-LIST"
KEY = "sixteen byte key"
CONTENT_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "tier_threads", "tier_labels")


@pytest.fixture
def variables(config: TierConfig) -> dict[str, str]:
    """The environment of a worker, without any key; it archives and demotes at once."""
    return {
        "TIER_REDIS_URL": config.redis_url.get_secret_value(),
        "TIER_POSTGRES_URL": config.postgres_url.get_secret_value(),
        "TIER_KEY_PREFIX": config.key_prefix,
        "TIER_POSTGRES_SCHEMA": config.postgres_schema,
        "TIER_PARTITIONS": "4",
        "TIER_ARCHIVE_AFTER": "200ms",
        "TIER_DEMOTE_AFTER": "500ms",
    }


@pytest.fixture
def trap_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """It appears when a trap is built, in this process or in a child."""
    path = tmp_path / "sprung"
    monkeypatch.setenv(trap.VARIABLE, str(path))
    return path


@pytest.fixture
def worker(variables: dict[str, str], trap_file: Path, tmp_path: Path) -> Iterator[WorkerProcess]:
    with WorkerProcess(variables, tmp_path / "worker.log") as running:
        yield running


@pytest.fixture
def tier(variables: dict[str, str]) -> Callable[..., str]:
    """`tier` in a process of its own; what it said."""

    def run(*arguments: str, **more: str) -> str:
        command = [sys.executable, "-c", "from worker.cli import main; main()", *arguments]
        ended = subprocess.run(
            command, env=environment_for({**variables, **more}), capture_output=True, text=True, check=False
        )
        return ended.stdout + ended.stderr

    return run


# ---- stored bytes are never executed by workers


def payloads(trap_file: Path) -> dict[str, tuple[str, bytes]]:
    """Bytes that LangGraph's serializer, or a careless one, would build an object from."""
    type_, packed = JsonPlusSerializer().dumps_typed(trap.Trap(a=1))
    pickled = pickle.dumps(trap.Trap(a=1))
    trap_file.unlink()
    by_name = b'{"lc": 2, "type": "constructor", "id": ["tests", "ops", "trap", "Trap"], "kwargs": {"a": 1}}'
    return {"msgpack": (type_, packed), "json": ("json", by_name), "pickle": ("pickle", pickled)}


def place_in_hot(config: TierConfig, thread_id: str, payload: tuple[str, bytes]) -> None:
    """Put it by hand where the only blob of a thread is."""
    key = Keys(config.key_prefix, config.partitions).thread(thread_id).thread
    with redis.Redis.from_url(config.redis_url.get_secret_value()) as client:
        fields: Any = client.hkeys(key)
        [field] = [name for name in fields if name.startswith(b"b")]
        client.hset(key, field, pack_blob(*payload))


def place_in_cold(config: TierConfig, thread_id: str, payload: tuple[str, bytes]) -> None:
    query = sql.SQL("update {}.checkpoint_blobs set type = %s, blob = %s where thread_id = %s")
    with psycopg.connect(config.postgres_url.get_secret_value(), autocommit=True) as connection:
        connection.execute(query.format(sql.Identifier(config.postgres_schema)), (*payload, thread_id))


async def put_list(saver: TieredSaver, thread_id: str) -> None:
    await Thread(saver, thread_id).put({"held": [1]})


async def test_a_worker_builds_nothing_from_what_it_moves(
    saver: TieredSaver, worker: WorkerProcess, tier: Callable[..., str], config: TierConfig, trap_file: Path
) -> None:
    for name, payload in payloads(trap_file).items():
        await put_list(saver, f"hot-{name}")
        place_in_hot(config, f"hot-{name}", payload)
        await put_list(saver, f"cold-{name}")
    names = [f"{place}-{name}" for place in ("hot", "cold") for name in ("msgpack", "json", "pickle")]

    await eventually_async(lambda: all_cold(saver, names), within_seconds=30)
    for name, payload in payloads(trap_file).items():
        place_in_cold(config, f"cold-{name}", payload)
    said = [tier("promote", *names), tier("verify"), tier("show", names[0]), tier("status"), tier("demote", *names)]
    said += [tier("show", "--values", name) for name in names]
    said.append(tier("verify", "--repair"))
    said.append(tier("retain", "--now", TIER_RETAIN_FOR="1s"))
    moved = worker.metrics()

    assert "promoted 6 threads" in said[0]
    assert moved["tier_demoted_threads_total"] >= 6
    assert not was_sprung(trap_file)


def was_sprung(trap_file: Path) -> bool:
    """Whether a trap was built; the next one is set."""
    exists = trap_file.exists()
    trap_file.unlink(missing_ok=True)
    return exists


async def all_cold(saver: TieredSaver, names: list[str]) -> bool:
    return all([await saver.tier_of(name) == "cold" for name in names])


@pytest.mark.parametrize("place", [place_in_hot, place_in_cold])
async def test_a_strict_agent_reads_raw_data_and_an_allowed_type_as_an_object(
    config: TierConfig, trap_file: Path, place: Callable[..., None]
) -> None:
    payload = payloads(trap_file)["msgpack"]
    async with TieredSaver(config.model_copy(update={"strict_types": True})) as saver:
        await put_list(saver, "read")
        if place is place_in_cold:
            await saver.demote("read")
        place(config, "read", payload)

        strict = await Thread(saver, "read").values()
        was_built = was_sprung(trap_file)
        allowed = await Thread(cast(TieredSaver, saver.with_allowlist(ALLOWED)), "read").values()

    assert strict == {"held": {"a": 1}}
    assert not was_built
    assert allowed == {"held": trap.Trap(a=1)}


async def test_strictness_holds_with_encryption_too(config: TierConfig, trap_file: Path) -> None:
    both = TierConfig(**{**config.model_dump(), "strict_types": True, "encryption_key": KEY})
    async with TieredSaver(both) as saver:
        await Thread(saver, "read").put({"held": trap.Trap(a=1)})
        was_sprung(trap_file)

        strict = await Thread(saver, "read").values()
        was_built = was_sprung(trap_file)
        allowed = await Thread(cast(TieredSaver, saver.with_allowlist(ALLOWED)), "read").values()

    assert (strict, was_built) == ({"held": {"a": 1}}, False)
    assert allowed == {"held": trap.Trap(a=1)}


async def test_whether_strictness_is_in_force_is_logged(config: TierConfig, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="saver.serializer"):
        async with TieredSaver(config.model_copy(update={"strict_types": True})):
            pass

    [record] = [record for record in caplog.records if record.msg == "serializer chosen"]
    assert record.__dict__["strict"] is True


# ---- encrypted values are in clear nowhere


@pytest.fixture
async def encrypted(config: TierConfig) -> AsyncIterator[Thread]:
    """A thread of an agent with a key."""
    async with TieredSaver(TierConfig(**{**config.model_dump(), "encryption_key": KEY})) as saver:
        thread = Thread(saver, "encrypted")
        await thread.put({"secret": SECRET, "pin": PIN, "msgs": [LISTED]})
        await thread.write(("secret", SECRET), ("pin", PIN), ("__interrupt__", [LISTED]))
        yield thread


def in_clear(dump: bytes) -> set[object]:
    return {value for value in (SECRET, PIN, LISTED) if str(value).encode() in dump}


def everything_in_redis(config: TierConfig) -> bytes:
    with redis.Redis.from_url(config.redis_url.get_secret_value()) as client:
        found: Any = [client.dump(key) or b"" for key in client.scan_iter(match=f"{config.key_prefix}*")]
        return b"\n".join(found)


def everything_in_postgres(config: TierConfig) -> bytes:
    """Every column of every row, texts as they are and bytes as they are."""
    dump = []
    with psycopg.connect(config.postgres_url.get_secret_value()) as connection:
        for table in CONTENT_TABLES:
            query = sql.SQL("select * from {}.{}")
            names = (sql.Identifier(config.postgres_schema), sql.Identifier(table))
            for row in connection.execute(query.format(*names)):
                dump += [value if isinstance(value, bytes) else str(value).encode() for value in row]
    return b"\n".join(dump)


def packed_types(config: TierConfig, thread_id: str) -> set[str]:
    """Hot packs values: so look at what they are before that."""
    query = sql.SQL(
        "select type from {0}.checkpoint_blobs where thread_id = %(id)s "
        "union select type from {0}.checkpoint_writes where thread_id = %(id)s"
    )
    with psycopg.connect(config.postgres_url.get_secret_value()) as connection:
        rows = connection.execute(query.format(sql.Identifier(config.postgres_schema)), {"id": thread_id})
        return {type_ for (type_,) in rows}


async def test_a_worker_without_the_key_moves_values_that_are_in_clear_nowhere(
    encrypted: Thread, config: TierConfig, worker: WorkerProcess, tier: Callable[..., str]
) -> None:
    hot = everything_in_redis(config)
    await eventually_async(lambda: all_cold(encrypted.saver, ["encrypted"]), within_seconds=30)
    cold = everything_in_postgres(config)
    promoted = tier("promote", "encrypted")
    hot_again = everything_in_redis(config)

    assert (in_clear(hot), in_clear(cold), in_clear(hot_again)) == (set(), set(), set())
    assert {type_.partition("+")[2] for type_ in packed_types(config, "encrypted")} == {"aes"}
    assert "promoted 1 thread" in promoted
    assert await encrypted.values() == {"secret": SECRET, "pin": PIN, "msgs": [LISTED]}
    found = await encrypted.latest()
    assert found
    assert {value for _, channel, value in found.pending_writes or () if channel != "__interrupt__"} == {SECRET, PIN}


async def test_the_search_would_find_a_value_in_clear(saver: TieredSaver, config: TierConfig) -> None:
    await Thread(saver, "plain").put({"secret": SECRET, "pin": PIN})
    await saver.demote("plain")

    assert in_clear(everything_in_postgres(config)) == {SECRET, PIN}


async def test_a_value_that_was_changed_is_refused(encrypted: Thread, config: TierConfig) -> None:
    await encrypted.saver.demote("encrypted")
    place_in_cold(config, "encrypted", ("msgpack+aes", os.urandom(64)))

    with pytest.raises(ValueError, match="MAC check failed"):
        await encrypted.values()


async def test_a_value_replaced_by_an_unencrypted_one_is_read_as_it_is(encrypted: Thread, config: TierConfig) -> None:
    await encrypted.saver.demote("encrypted")
    place_in_cold(config, "encrypted", JsonPlusSerializer().dumps_typed("replaced"))

    values = await encrypted.values()

    assert set((values or {}).values()) == {"replaced"}


# ---- secrets are told by no error


FAULTS = {
    "wrong password": ("redis://user:{0}@{redis}/0", "postgresql://postgres:{0}@{postgres}/postgres"),
    "nothing listens": ("redis://user:{0}@127.0.0.1:1/0", "postgresql://user:{0}@127.0.0.1:1/x"),
    "unknown host": ("redis://user:{0}@no.such.host.invalid/0", "postgresql://user:{0}@no.such.host.invalid/x"),
    "no TLS there": ("rediss://user:{0}@{redis}/0", "postgresql://postgres:{0}@{postgres}/postgres?sslmode=require"),
    "malformed": ("redis://user:{0}@host:port/0", "postgresql://user:{0}@host:port/x"),
}
HIDDEN = "hidden-p4ss"


@pytest.fixture(params=[(fault, tier) for fault in FAULTS for tier in (0, 1)], ids=str)
def addresses(request: pytest.FixtureRequest, redis_url: str, postgres_url: str) -> dict[str, str]:
    """Both addresses, one of them faulty and with a password to look for."""
    fault, tier = request.param
    good = {"redis_url": redis_url, "postgres_url": postgres_url}
    hosts = {name.partition("_")[0]: url.rpartition("@")[2].partition("/")[0] for name, url in good.items()}
    name = ("redis_url", "postgres_url")[tier]
    return {**good, name: FAULTS[fault][tier].format(HIDDEN, **hosts)}


def test_no_error_tells_a_password(addresses: dict[str, str], prefix: str, schema: str) -> None:
    quick = {"redis_timeout": "1s", "postgres_timeout": "2s", "key_prefix": prefix, "postgres_schema": schema}

    with pytest.raises(TierError) as caught, TieredSaver(TierConfig(**addresses, **quick)):
        pass

    whole = "".join(traceback.format_exception(caught.value))
    assert HIDDEN not in whole
    assert str(caught.value)


@pytest.mark.parametrize(
    "addresses", [(fault, tier) for fault in ("wrong password", "malformed") for tier in (0, 1)], indirect=True, ids=str
)
def test_no_command_and_no_worker_tells_a_password(addresses: dict[str, str], variables: dict[str, str]) -> None:
    faulty = {f"TIER_{name.upper()}": url for name, url in addresses.items()}
    faulty |= {"TIER_REDIS_TIMEOUT": "1s", "TIER_POSTGRES_TIMEOUT": "2s"}

    runner = CliRunner(env={**variables, **faulty})
    said = [runner.invoke(group, [name]).output for name in ("status", "doctor", "config")]
    command = [sys.executable, "-m", "arq", "worker.Settings"]
    ended = subprocess.run(
        command, env=environment_for({**variables, **faulty}), capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode != 0
    assert HIDDEN not in "".join(said) + ended.stdout + ended.stderr
