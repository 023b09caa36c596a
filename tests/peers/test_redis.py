"""
Threads of langgraph-checkpoint-redis come over to us.

Its server does not start on every system: `make test-peers` runs it and that saver, in an environment of their own. The
usual tests read what release 0.5.2 wrote there once: `make test-peers RECORD=1` writes that file anew.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
from click.testing import CliRunner

from jobs.peer_redis import thread_of
from jobs.transfer import Brought, bring_in
from saver import InvalidThread, TierConfig, TieredSaver
from saver.connect import Tiers, connect
from saver.foreign import Unreadable
from tests.bench.contestants import CONTESTANTS
from tests.bench.modules import redis_with_modules
from tests.bench.peers import PROJECT, Absent, environment
from tests.fix_worker import variables_of
from tests.peers.scenes import THREADS, WAITS, answer, at, newest, read, say
from worker.cli.group import tier

RECORDED = Path(__file__).with_name("langgraph-checkpoint-redis-0.5.2.json")


class Told(NamedTuple):
    """What that saver wrote and read."""

    url: str
    read: dict[str, list[Any]]
    newest: dict[str, Any]
    documents: list[dict[str, Any]]
    lists: bool  # the shallow saver answers for the newest checkpoint only


def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


def documents_of(thread_id: str) -> list[dict[str, Any]]:
    return [document for document in recorded()["documents"] if document["thread_id"] == thread_id]


def is_as_told(here: dict[str, list[Any]], there: dict[str, list[Any]]) -> bool:
    """Whether all is here; that saver does not read all writes of its own."""
    return {name: [row[:-1] for row in rows] for name, rows in here.items()} == {
        name: [row[:-1] for row in rows] for name, rows in there.items()
    } and all(
        write in ours[-1]
        for name, rows in there.items()
        for ours, theirs in zip(here[name], rows, strict=True)
        for write in theirs[-1]
    )


# ---- what was recorded


async def bring_recorded(tiers: Tiers) -> None:
    for name in THREADS:
        thread = thread_of(name, documents_of(name))
        assert thread
        assert await bring_in(tiers, thread) is Brought.ADDED


def go_on(saver: TieredSaver) -> None:
    assert answer(WAITS, saver)["words"] == ["first", "told yes"]
    assert answer("nested", saver)["words"][-3:] == ["one", "two", "told yes"]
    say(saver, "talk", "more")
    found = saver.get_tuple(at("talk"))
    assert found
    said = [message.content for message in found.checkpoint["channel_values"]["messages"]]
    assert said[-2:] == ["more", "answer 7 ü"]


async def test_recorded_threads_are_read_as_the_other_saver_read_them_and_go_on(config: TierConfig) -> None:
    async with connect(config) as tiers:
        await bring_recorded(tiers)

    with TieredSaver(config) as saver:
        here = read(saver)
        assert is_as_told(here, recorded()["read"])
        assert any(write[1] == "__interrupt__" for row in here[WAITS] for write in row[-1])
        go_on(saver)


async def test_recorded_thread_comes_in_twice_and_stays_as_it_is(tiers: Tiers) -> None:
    await bring_recorded(tiers)
    thread = thread_of("talk", documents_of("talk"))
    assert thread

    assert await bring_in(tiers, thread) is Brought.THERE


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"checkpoint": {"id": "1"}}, "0.1 or newer"),
        ({"checkpoint": {"channel_values": {}, "id": "1"}}, "not of a format"),
        ({"checkpoint_ns": None, "metadata": "no json"}, "damaged"),
    ],
)
def test_document_that_is_not_understood_is_refused(change: dict[str, Any], fault: str) -> None:
    [document, *_] = [document for document in documents_of("talk") if "checkpoint" in document]

    with pytest.raises(Unreadable, match=fault):
        thread_of("talk", [document | change])


def test_value_that_is_encrypted_is_refused() -> None:
    [document, *_] = [document for document in documents_of("talk") if "checkpoint" not in document]

    with pytest.raises(Unreadable, match="encrypted"):
        thread_of("talk", [document | {"type": "msgpack+aes"}])


def test_thread_that_postgres_could_not_take_is_refused() -> None:
    [document, *_] = [document for document in documents_of("talk") if "checkpoint" in document]

    with pytest.raises(InvalidThread):
        thread_of("talk", [document | {"checkpoint": document["checkpoint"] | {"id": "a\0b"}}])


# ---- the saver itself


@pytest.fixture(params=["RedisSaver", "ShallowRedisSaver"])
def told(request: pytest.FixtureRequest) -> Iterator[Told]:
    if "TEST_PEERS" not in os.environ:
        pytest.skip("make test-peers installs langgraph-checkpoint-redis and runs this")
    try:
        python = environment("redis", CONTESTANTS["redis"].requirements)
        with redis_with_modules("redis") as url:
            command = [str(python), "-m", "tests.peers", url, request.param]
            wrote = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=True)
            if os.environ.get("TEST_PEERS") == "record" and request.param == "RedisSaver":
                RECORDED.write_text(wrote.stdout)
            yield Told(url, lists=request.param == "RedisSaver", **json.loads(wrote.stdout))
    except Absent as reason:
        pytest.skip(str(reason))


def test_threads_are_read_as_the_real_saver_reads_them_and_go_on(told: Told, config: TierConfig) -> None:
    arguments = ["import", "--from", "redis", "--url", told.url]
    with redis.Redis.from_url(told.url) as client:
        before = {key: client.dump(key) for key in client.keys()}  # noqa: SIM118 - a Redis is no dict

        imported, again = (CliRunner(env=variables_of(config)).invoke(tier, arguments) for _ in range(2))

        assert {key: client.dump(key) for key in client.keys()} == before != {}  # noqa: SIM118
    assert imported.stdout == "imported 3 threads\n", imported.stderr
    assert again.stdout == "imported 0 threads\n3 threads were there already\n"
    with TieredSaver(config) as saver:
        assert newest(saver) == told.newest
        if told.lists:
            assert is_as_told(read(saver), told.read)
        go_on(saver)
