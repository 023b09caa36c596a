"""TLS to both tiers and to the queue, with an authority of our own: certificates are checked, host names too."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from saver import TierConfig, TieredSaver, hot
from saver.carriers import AsyncHot, BlockingHot
from saver.connect import connect
from saver.demote import demote
from saver.errors import ColdTierError, HotTierError
from saver.keys import Keys
from tests.builders import Thread
from tests.faults.world import FAMILIES
from tests.fix_nodes import PostgresNode, RedisNode, StartNode, program_with_tls
from tests.fix_tls import Authority
from tests.fix_worker import StartWorker, has
from tests.waiting import eventually_async
from worker.embedded.errors import EmbeddedError
from worker.embedded.programs import find_postgres

HERE, ELSEWHERE = "127.0.0.1", "elsewhere.example"
REQUEST = hot.load(Keys("tls", 1).thread("t"), "t", "")


@pytest.fixture
def redis_of(authority: Authority, start_node: StartNode) -> Callable[[str], RedisNode]:
    """Starts a Redis that shows the certificate of a host, and speaks nothing but TLS."""
    program = program_with_tls()
    if program is None:
        pytest.skip("no Redis with TLS is installed, and the one from the wheel has none")

    def start(host: str) -> RedisNode:
        certificate, key = authority.sign(host)
        files = {"tls-cert-file": certificate, "tls-key-file": key, "tls-ca-cert-file": authority.certificate}
        return start_node({**files, "tls-auth-clients": "no"}, program=program, is_tls=True)

    return start


@pytest.fixture
def postgres_of(authority: Authority) -> Iterator[Callable[[str], PostgresNode]]:
    """Starts a Postgres that shows the certificate of a host, and lets nobody in without TLS."""
    made: list[PostgresNode] = []

    def start(host: str) -> PostgresNode:
        certificate, key = authority.sign(host)
        made.append(node := PostgresNode(postgres_with_tls()))
        node.make()
        node.start(
            ssl="on",
            ssl_cert_file=node.file("server.crt", certificate.read_text()),
            ssl_key_file=node.file("server.key", key.read_text()),
            hba_file=node.file("pg_hba.conf", "hostssl all all 127.0.0.1/32 scram-sha-256\n"),
        )
        return node

    yield start
    for node in made:
        node.remove()


def postgres_with_tls() -> Path:
    """The programs of a Postgres that was built with TLS."""
    try:
        places = [find_postgres(), *sorted(Path("/usr/lib/postgresql").glob("*/bin"))]
    except EmbeddedError:
        places = []
    for place in places:
        said = subprocess.run([place / "pg_config", "--configure"], capture_output=True, text=True, check=False)
        if "openssl" in said.stdout:
            return place
    pytest.skip("no Postgres with TLS is installed, and the one from the wheel has none")


def config_of(redis: RedisNode, postgres: PostgresNode, authority: Authority | None) -> TierConfig:
    """The addresses as a user writes them; without an authority, that of the system."""
    redis_ca = f"?ssl_ca_certs={authority.certificate}" if authority else ""
    postgres_ca = authority.certificate if authority else "system"
    return TierConfig(
        redis_url=f"rediss://:{redis.password}@{HERE}:{redis.port}/0{redis_ca}",
        postgres_url=f"{postgres.url}?sslmode=verify-full&sslrootcert={postgres_ca}",
        partitions=4,
    )


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
async def test_a_thread_moves_between_the_tiers_over_tls(
    family: type[TieredSaver],
    authority: Authority,
    redis_of: Callable[[str], RedisNode],
    postgres_of: Callable[[str], PostgresNode],
) -> None:
    config = config_of(redis_of(HERE), postgres_of(HERE), authority)

    async with family(config) as saver, connect(config) as tiers:
        thread = Thread(saver)
        first = await thread.put({"x": [1]})
        await demote(tiers, thread.thread_id)
        second = await thread.put({"x": [2]})

        assert await thread.ids() == [second, first]
        assert await tiers.hot.command("CONFIG", "GET", "port") == [b"port", b"0"]


async def test_a_worker_finds_its_queue_and_both_tiers_over_tls(
    start_worker: StartWorker,
    authority: Authority,
    redis_of: Callable[[str], RedisNode],
    postgres_of: Callable[[str], PostgresNode],
) -> None:
    config = config_of(redis_of(HERE), postgres_of(HERE), authority)
    addresses = {name: getattr(config, name).get_secret_value() for name in ("redis_url", "postgres_url")}
    names = {"key_prefix": "tier", "postgres_schema": "public"}
    worker = start_worker(**addresses, **names, archive_after="400ms").ready()

    async with TieredSaver(config) as saver:
        await Thread(saver).put({"x": [1]})

    await eventually_async(lambda: has(worker, "tier_archived_threads_total", 1), within_seconds=30)


async def test_a_redis_with_the_certificate_of_another_host_is_refused(
    authority: Authority, redis_of: Callable[[str], RedisNode]
) -> None:
    node = redis_of(ELSEWHERE)
    url = f"rediss://:{node.password}@{HERE}:{node.port}/0?ssl_ca_certs={authority.certificate}"

    await expect_refusal(url)


async def test_a_redis_with_a_certificate_of_an_unknown_authority_is_refused(
    redis_of: Callable[[str], RedisNode],
) -> None:
    node = redis_of(HERE)

    await expect_refusal(f"rediss://:{node.password}@{HERE}:{node.port}/0")


async def expect_refusal(url: str) -> None:
    """Both families refuse this address, and would take it if they were told not to look."""
    for address, is_taken in ((url, False), (f"{url}{'&' if '?' in url else '?'}ssl_cert_reqs=none", True)):
        config = TierConfig(redis_url=address, postgres_url="postgresql://nowhere/x")
        waiting, blocking = AsyncHot(config), BlockingHot(config)
        if is_taken:
            assert await waiting.call(REQUEST)
            assert blocking.call(REQUEST)
        else:
            with pytest.raises(HotTierError):
                await waiting.call(REQUEST)
            with pytest.raises(HotTierError):
                blocking.call(REQUEST)
        await waiting.close()
        blocking.close()


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_postgres_that_cannot_prove_who_it_is_is_refused(
    redis_url: str, authority: Authority, postgres_of: Callable[[str], PostgresNode], is_known: bool
) -> None:
    node = postgres_of(ELSEWHERE if is_known else HERE)
    ca = authority.certificate if is_known else "system"
    url = f"{node.url}?sslmode=verify-full&sslrootcert={ca}"
    config = TierConfig(redis_url=redis_url, postgres_url=url, key_prefix="test-tls", postgres_timeout="1s")

    with pytest.raises(ColdTierError):
        async with connect(config):
            pass
