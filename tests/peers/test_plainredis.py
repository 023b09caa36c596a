"""Threads that the real langgraph-checkpoint-plainredis wrote come over to us, whole or not at all."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from click.testing import CliRunner, Result
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph_checkpoint_plainredis import RedisSaver

from saver import TierConfig, TieredSaver
from saver.config import environment_for
from tests.fix_worker import variables_of
from tests.peers.scenes import WAITS, answer, at, graph_of, play, read, say
from tests.waiting import eventually
from worker.cli.group import tier

Import = Callable[..., Result]
TIER = str(Path(sys.executable).with_name("tier"))


@pytest.fixture
def there(prefix: str) -> str:
    """The prefix of the other saver's keys, on the same Redis."""
    return f"{prefix}-lg*"  # a sign that a pattern takes for something else


@pytest.fixture
def peer(redis_url: str, there: str) -> Iterator[RedisSaver]:
    saver = RedisSaver(url=redis_url, prefix=there)
    yield saver
    saver.client.close()


@pytest.fixture
def bring(config: TierConfig, redis_url: str, there: str) -> Import:
    def bring(*more: str) -> Result:
        arguments = ["import", "--from", "plainredis", "--url", redis_url, "--prefix", there, *more]
        return CliRunner(env=variables_of(config)).invoke(tier, arguments)

    return bring


def content(redis_url: str, there: str) -> dict[bytes, bytes]:
    """All that the other saver has."""
    with redis.Redis.from_url(redis_url) as client:
        keys = client.scan_iter(f"{there.rstrip('*')}[*]*", count=1000)
        return {key: client.dump(key) for key in keys}


def test_threads_are_read_as_the_other_saver_reads_them_and_go_on(
    peer: RedisSaver, bring: Import, config: TierConfig, redis_url: str, there: str
) -> None:
    play(peer)
    before = content(redis_url, there)

    imported, again = bring(), bring()

    assert imported.stdout == "imported 3 threads\n", imported.stderr
    assert again.stdout == "imported 0 threads\n3 threads were there already\n"
    assert content(redis_url, there) == before != {}
    with TieredSaver(config) as saver:
        assert read(saver) == read(peer)
        assert answer(WAITS, saver)["words"] == ["first", "told yes"]
        assert answer("nested", saver)["words"][-3:] == ["one", "two", "told yes"]
        say(saver, "talk", "more")
        assert texts(saver, "talk")[-2:] == ["more", "answer 7 ü"]


def texts(saver: TieredSaver, name: str) -> list[object]:
    messages: list[BaseMessage] = graph_of("talk", saver).get_state(at(name)).values["messages"]
    return [message.content for message in messages]


def test_thread_that_went_on_there_is_brought_up_and_one_that_went_on_here_is_left(
    peer: RedisSaver, bring: Import, config: TierConfig
) -> None:
    for name in ("there", "here", "both"):
        say(peer, name, "first")
    bring()

    with TieredSaver(config) as saver:
        for name, who in (("there", [peer]), ("here", [saver]), ("both", [peer, saver])):
            for one in who:
                say(one, name, "second there" if one is peer else "second here")
        again = bring()

        assert (again.exit_code, again.stdout) == (1, "imported 1 thread\n1 thread was there already\n")
        assert "thread both was not imported: a thread of this id is here and has other content" in again.stderr
        assert texts(saver, "there")[2] == "second there"
        assert [texts(saver, name)[2] for name in ("here", "both")] == ["second here"] * 2


def test_thread_whose_value_is_gone_is_named_and_the_others_come(
    peer: RedisSaver, bring: Import, config: TierConfig, redis_url: str, there: str
) -> None:
    play(peer)
    with redis.Redis.from_url(redis_url) as client:
        [gone, *_] = [key for key in content(redis_url, there) if b":blob:talk::messages:" in key]
        client.delete(gone)

    imported = bring()

    assert (imported.exit_code, imported.stdout) == (1, "imported 2 threads\n")
    assert "thread talk was not imported: the value of channel 'messages' is gone from there" in imported.stderr
    with TieredSaver(config) as saver:
        assert saver.get_tuple(at("talk")) is None


def test_encrypted_values_are_refused_with_the_way_to_go(
    redis_url: str, there: str, bring: Import, config: TierConfig
) -> None:
    sealed = RedisSaver(url=redis_url, prefix=there, serde=EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 32))
    say(sealed, "t", "secret words")
    sealed.client.close()

    imported = bring()

    assert (imported.exit_code, imported.stdout) == (1, "imported 0 threads\n")
    assert "thread t was not imported: it is encrypted, and this command has no key" in imported.stderr
    assert "secret words" not in imported.output


def test_import_that_was_killed_is_done_again_and_whole(
    peer: RedisSaver, bring: Import, config: TierConfig, redis_url: str, postgres_url: str, there: str
) -> None:
    names = [f"t{number}" for number in range(60)]
    for name in names:
        say(peer, name, "first")
    command = [TIER, "import", "--from", "plainredis", "--url", "-", "--prefix", there]
    process = subprocess.Popen(
        command,
        env=environment_for(variables_of(config)),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin
    process.stdin.write(redis_url.encode() + b"\n")
    process.stdin.close()
    eventually(lambda: arrived(postgres_url, config.postgres_schema) > 0, within_seconds=30)
    process.kill()
    process.wait(10)

    again = bring()

    assert again.exit_code == 0, again.stderr
    with TieredSaver(config) as saver:
        assert read(saver, names) == read(peer, names)


def arrived(postgres_url: str, schema: str) -> int:
    with psycopg.connect(postgres_url) as connection:
        [[has_table]] = connection.execute("select to_regclass(%s) is not null", (f"{schema}.checkpoints",)).fetchall()
        if not has_table:
            return 0
        query = psycopg.sql.SQL("select count(*) from {}").format(psycopg.sql.Identifier(schema, "checkpoints"))
        [[count]] = connection.execute(query).fetchall()
        return int(count)


def test_nothing_there_is_told_and_not_taken_for_success(bring: Import) -> None:
    imported = bring()

    assert imported.exit_code == 1
    assert "no thread of langgraph-checkpoint-plainredis is there" in imported.stderr


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("redis://:hunter2@127.0.0.1:1/0", "cannot be reached"),
        ("http://:hunter2@127.0.0.1/0", "the address of the other saver"),
        ("redis+cluster://:hunter2@127.0.0.1/0", "each of its primaries"),
    ],
)
def test_address_that_does_not_answer_is_an_error_without_its_password(
    config: TierConfig, url: str, fault: str
) -> None:
    command = [TIER, "import", "--from", "redis", "--url", url]
    ended = subprocess.run(
        command, env=environment_for(variables_of(config)), capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode == 1
    assert fault in ended.stderr
    assert "hunter2" not in ended.stderr


def test_plain_redis_has_no_documents_to_import(config: TierConfig, redis_url: str, prefix: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"{prefix}-other:t", "text")
    arguments = ["import", "--from", "redis", "--url", redis_url, "--prefix", f"{prefix}-other"]

    imported = CliRunner(env=variables_of(config)).invoke(tier, arguments)

    assert imported.exit_code == 1
    assert "langgraph-checkpoint-redis" in imported.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--from", "redis"],
        ["--url", "redis://h"],
        ["--prefix", "x", __file__],
        [__file__, "--from", "redis", "--url", "redis://h"],
    ],
)
def test_half_a_source_is_misuse(config: TierConfig, arguments: list[str]) -> None:
    assert CliRunner(env=variables_of(config)).invoke(tier, ["import", *arguments]).exit_code == 2
