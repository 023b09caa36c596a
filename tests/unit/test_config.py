"""A configuration is taken whole or refused whole, and never tells a secret."""

import base64
import logging
import os
import traceback
from collections.abc import Iterator
from datetime import UTC, time, timedelta
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from saver.config import TierConfig, unknown_variables
from saver.errors import ConfigError

REDIS = "redis://cache.example.org:6379/0"
POSTGRES = "postgresql://db.example.org/tiers"


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TIER_"):
            monkeypatch.delenv(name)


def config(**values: object) -> TierConfig:
    return TierConfig(**{"redis_url": REDIS, "postgres_url": POSTGRES} | values)


def refusal(**values: object) -> str:
    with pytest.raises(ConfigError) as caught:
        config(**values)
    return str(caught.value)


def everything_it_says(error: BaseException) -> str:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None:
        chain.append(link)
        link = link.__cause__ or link.__context__
    return "".join([*traceback.format_exception(error), *map(repr, chain), *map(str, chain)])


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIER_REDIS_URL", REDIS)
    monkeypatch.setenv("TIER_POSTGRES_URL", POSTGRES)
    monkeypatch.setenv("TIER_DEMOTE_AFTER", "6h")
    monkeypatch.setenv("TIER_RETAIN_FOR", "90d")
    monkeypatch.setenv("TIER_HOT_CHECKPOINTS", "all")
    monkeypatch.setenv("TIER_RETENTION_AT", "04:30")

    told = TierConfig.from_env()

    assert told.redis_url.get_secret_value() == REDIS
    assert told.demote_after == timedelta(hours=6)
    assert told.retain_for == timedelta(days=90)
    assert told.hot_checkpoints is None
    assert told.retention_at == time(4, 30, tzinfo=UTC)


def test_an_argument_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIER_ARCHIVE_AFTER", "7s")
    monkeypatch.setenv("TIER_PARTITIONS", "16")

    told = config(archive_after="9s")

    assert (told.archive_after, told.partitions) == (timedelta(seconds=9), 16)


def test_text_and_value_mean_the_same_in_an_argument() -> None:
    as_text = config(archive_after="5s", retain_for="off", batch_bytes="1 MiB", retention_at="01:00", strict_types="on")
    as_value = config(
        archive_after=timedelta(seconds=5),
        retain_for=None,
        batch_bytes=1 << 20,
        retention_at=time(1),
        strict_types=True,
    )

    assert as_text == as_value


def test_every_fault_is_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIER_POSTGRES_URL", POSTGRES)
    monkeypatch.setenv("TIER_DEMOTE_AFTER", "6 hours")
    monkeypatch.setenv("TIER_PARTITIONS", "1000")

    with pytest.raises(ConfigError) as caught:
        TierConfig.from_env()

    assert str(caught.value) == (
        "TIER_REDIS_URL is not set; TIER_PARTITIONS is '1000': write a whole number from 1 to 999; "
        "TIER_DEMOTE_AFTER is '6 hours': write a duration like 90s, 15m or 6h"
    )


@pytest.mark.parametrize("value", ["0", "", "-1", "0d", "-90d", "1.5", "never", "None", "OFF", " ", "off "])
@pytest.mark.parametrize("name", ["retain_for", "keep_checkpoints"])
def test_a_retention_value_that_is_zero_or_nonsense_is_refused(name: str, value: str) -> None:
    assert f"TIER_{name.upper()} is " in refusal(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key_prefix", "a{b}"),
        ("key_prefix", "a b"),
        ("postgres_schema", "a-b"),
        ("postgres_schema", "1a"),
        ("postgres_schema", "é" * 32),
        ("postgres_schema", "pg_tiers"),
        ("partitions", "0"),
        ("partitions", True),
        ("write_mode", "both"),
        ("archive_after", "off"),
        ("archive_after", 5),
        ("demote_after", "5s"),
        ("hot_checkpoints", "off"),
        ("promote_checkpoints", "0"),
        ("on_idle", "delete"),
        ("retain_waiting", "off"),
        ("retention_at", "24:00"),
        ("retention_at", "3:00"),
        ("strict_types", "maybe"),
        ("redis_pool_size", "0"),
        ("postgres_max_size", "1"),
        ("redis_timeout", "off"),
        ("postgres_timeout", "11m"),
        ("batch_threads", "2.5"),
        ("batch_bytes", "0"),
    ],
)
def test_a_wrong_value_is_refused_and_quoted(name: str, value: object) -> None:
    assert f"TIER_{name.upper()} is '{value}': write " in refusal(**{name: value})


def test_a_long_value_is_cut_in_the_message() -> None:
    assert (
        refusal(key_prefix="x" * 65)
        == f"TIER_KEY_PREFIX is '{'x' * 60}...': write at most 64 letters, digits and _ . : / -"
    )


@pytest.mark.parametrize(
    ("values", "variable"),
    [
        ({"archive_after": "1h"}, "TIER_DEMOTE_AFTER"),
        ({"postgres_min_size": "20"}, "TIER_POSTGRES_MAX_SIZE"),
        ({"on_idle": "expire", "write_mode": "through"}, "TIER_ON_IDLE"),
        ({"redis_url": "redis+cluster://a:1,b:2"}, "TIER_QUEUE_URL is not set"),
        ({"queue_url": "redis+cluster://a:1,b:2"}, "TIER_QUEUE_URL is a cluster"),
    ],
)
def test_values_that_contradict_each_other_are_refused(values: dict[str, object], variable: str) -> None:
    assert refusal(**values).startswith(variable)


def test_a_fault_that_follows_from_another_is_not_reported() -> None:
    assert refusal(redis_url="").split("; ") == ["TIER_REDIS_URL is empty"]


def test_an_argument_that_is_no_setting_is_refused_with_the_one_meant() -> None:
    assert refusal(redis_ur=REDIS) == "redis_ur is not a setting: did you mean redis_url?"


def test_the_queue_is_on_the_hot_tier_unless_told_otherwise() -> None:
    queue = "redis://queue.example.org"

    assert config().queue_url.get_secret_value() == REDIS
    assert config(redis_url="redis+cluster://a:1,b:2", queue_url=queue).queue_url.get_secret_value() == queue


@pytest.mark.parametrize(
    "url",
    [
        "redis://:p%40ss%2Fword@cache.example.org:6379/1?ssl_cert_reqs=none",
        "rediss://user:password@cache_1/?db=2",
        "redis://[::1]:6379",
        "unix:///run/redis.sock?db=1",
        "unix://user:password@/run/redis.sock",
        "redis+sentinel://user:password@a:26379,b:26379/main/0",
        "redis+sentinel://a/main",
        "rediss+sentinel://:p@a,b/main?ssl_ca_certs=/ca.pem&sentinel_password=x",
    ],
)
def test_a_redis_address_is_kept_as_it_was_written(url: str) -> None:
    assert config(redis_url=url).redis_url.get_secret_value() == url


@pytest.mark.parametrize(
    "url",
    [
        "postgres://user:p%40ss%2Fword@db.example.org:5432/tiers?sslmode=verify-full&sslrootcert=system",
        "postgresql://a:1,b:2/tiers?target_session_attrs=read-write",
        "postgresql://[::1]:5432/tiers",
        "postgresql:///tiers?host=/run/postgresql",
        "postgresql://%2Frun%2Fpostgresql/tiers",
        "host=db.example.org user=u password='it''s' dbname=tiers".replace("''", r"\'"),
        "service=tiers",
    ],
)
def test_a_postgres_address_is_kept_as_it_was_written(url: str) -> None:
    assert config(postgres_url=url).postgres_url.get_secret_value() == url


@pytest.mark.parametrize(
    "url", ["redis://", "redis:///0", "redis://:6379/0", "redis://user:password@/0", "redis://?db=1"]
)
def test_a_redis_address_without_a_host_does_not_mean_localhost(url: str) -> None:
    assert refusal(redis_url=url).startswith("TIER_REDIS_URL ")


@pytest.mark.parametrize("url", ["postgresql://", "postgresql:///tiers", "dbname=tiers", "postgres://user:password@/x"])
def test_a_postgres_address_without_a_host_does_not_mean_localhost(url: str) -> None:
    assert refusal(postgres_url=url) == "TIER_POSTGRES_URL names no host"


MALFORMED_REDIS = [
    "localhost",
    "localhost:6379",
    "http://:hunter2@h",
    "REDIS://:hunter2@h",
    "redis:/:hunter2@h",
    "redis//:hunter2@h",
    "redis://:hunter2@h:port",
    "redis://:hunter2@h:0",
    "redis://:hunter2@h:65536",
    "redis://:hunter2/x@h",
    "redis://:hunter2?x@h",
    "redis://:hunter2#x@h",
    "redis://:hunter2@x@h",
    "redis://:hunter2[x@h",
    "redis://:hunter2%x@h",
    "redis://:hunter2 x@h",
    "redis://:hunter2@h/zero",
    "redis://:hunter2@h?db=zero",
    "redis://:hunter2@h\n",
    "redis://:hunter2é@h",
    "redis://:hunter2@a,b",
    "redis+cluster://:hunter2@a,b/1",
    "redis+sentinel://:hunter2@a,b",
    "unix://hunter2/redis.sock",
    "unix://",
    " redis://:hunter2@h",
]
MALFORMED_POSTGRES = [
    "db.example.org",
    "mysql://u:hunter2@h/d",
    "postgresql+psycopg://u:hunter2@h/d",
    "postgresql:/u:hunter2@h/d",
    "postgresql//u:hunter2@h/d",
    "postgresql://u:hunter2/x@h/d",
    "postgresql://u:hunter2?x@h/d",
    "postgresql://u:hunter2@x@h/d",
    "postgresql://u:hunter2 x@h/d",
    "postgresql://u:hunter2%x@h/d",
    "postgresql://u:hunter2[x@h/d",
    "postgresql://u:hunter2@h:port/d",
    "postgresql://u:hunter2@h:70000/d",
    "postgresql://u:hunter2@h/d?hunter2=x",
    "host=h password='hunter2",
    "host=h hunter2",
    "host=h pasword=hunter2",
    "host=h port=hunter2",
    "host=h password=\udcffhunter2",
]


@pytest.mark.parametrize(
    ("name", "url"),
    [("redis_url", url) for url in MALFORMED_REDIS]
    + [("queue_url", url) for url in MALFORMED_REDIS]
    + [("postgres_url", url) for url in MALFORMED_POSTGRES]
    + [("postgres_replica_url", url) for url in MALFORMED_POSTGRES],
)
def test_a_malformed_address_is_named_and_nothing_of_it_is_told(name: str, url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**{name: url})

    assert str(caught.value).startswith(f"TIER_{name.upper()} ")
    assert "hunter2" not in everything_it_says(caught.value)


junk = st.text(max_size=4) | st.text("'\"@:/?#[]%= &{}\\", max_size=4)
urls = st.builds(
    "{}{}u:hunter2{}{}h{}{}".format,
    st.sampled_from(
        ["", "redis", "rediss", "unix", "redis+sentinel", "redis+cluster", "postgres", "postgresql", "http"]
    ),
    st.sampled_from([":", "://", "//", " ", ""]),
    junk,
    st.sampled_from(["@", "", "/", "@[", "@@"]),
    st.sampled_from(["", ":", ":6379", ":x", ",b"]),
    st.sampled_from(["", "/", "/0", "/d", "?x=hunter2", "#hunter2", "/d?sslpassword=hunter2"]),
)
conninfos = st.builds(
    "host=h {0}{1}{2}hunter2{3}{2}".format,
    st.sampled_from(["password", "sslpassword", "pasword"]),
    st.sampled_from(["=", " = ", "", "=="]),
    st.sampled_from(["'", '"', ""]),
    junk,
)


@given(redis=urls, postgres=urls | conninfos, key=junk.map(lambda text: f"hunter2{text}"))
@example(redis="redis://u:hunter2@h", postgres="postgresql://u:hunter2@h/d", key="hunter2" + "x" * 9)
@example(redis="redis://u:hunter2@h", postgres="host=h password=hunter2", key="hunter2" + "x" * 9)
def test_no_secret_is_in_anything_that_is_shown(redis: str, postgres: str, key: str) -> None:
    values = {
        "redis_url": redis,
        "queue_url": redis,
        "postgres_url": postgres,
        "encryption_key": key,
        "thread_secret": key,
    }
    try:
        told = TierConfig(**values)
    except ConfigError as error:
        shown = everything_it_says(error)
    else:
        shown = f"{told!r} {told} {told.effective()} {told.model_dump()} {told.model_dump_json()}"
    assert "hunter2" not in shown


def test_an_address_in_the_wrong_variable_is_masked() -> None:
    told = refusal(
        key_prefix="redis://user:hunter2@cache", demote_after="password=hunter2", write_mode="a://b:hunter2@c"
    )

    assert "TIER_KEY_PREFIX" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "key", ["k" * 16, "k" * 24, "é" * 16, "hex:" + "ab" * 32, "base64:" + base64.b64encode(bytes(24)).decode()]
)
def test_an_aes_key_is_taken_as_text_or_encoded(key: str) -> None:
    told = config(encryption_key=key)

    assert told.aes_key is not None
    assert len(told.aes_key) in (16, 24, 32)


@pytest.mark.parametrize("key", ["", "k" * 15, "hex:" + "ab" * 15, "hex:zz", "base64:!", "base64:" + "k" * 16])
def test_what_is_not_an_aes_key_is_refused(key: str) -> None:
    assert refusal(encryption_key=key).startswith("TIER_ENCRYPTION_KEY is ")


def test_a_short_thread_secret_is_refused() -> None:
    assert refusal(thread_secret="x" * 15) == "TIER_THREAD_SECRET is too short: write at least 16 random bytes"


def test_the_effective_configuration_is_shown_as_it_would_be_written() -> None:
    password = quote("p@ss", safe="")
    shown = config(
        redis_url=f"redis://user:{password}@cache:6379/3?ssl_cert_reqs=none",
        postgres_url=f"host=db port=5433 password={password} dbname=tiers",
        archive_after="1500ms",
        retention_at="hourly",
        hot_checkpoints="all",
        encryption_key="k" * 16,
    ).effective()

    assert shown["TIER_REDIS_URL"] == "redis://***@cache:6379/3"
    assert shown["TIER_POSTGRES_URL"] == "host=db port=5433 dbname=tiers"
    assert shown["TIER_ARCHIVE_AFTER"] == "1500ms"
    assert shown["TIER_RETENTION_AT"] == "hourly"
    assert shown["TIER_HOT_CHECKPOINTS"] == "all"
    assert shown["TIER_RETAIN_FOR"] == "off"
    assert shown["TIER_BATCH_BYTES"] == "32 MiB"
    assert shown["TIER_ENCRYPTION_KEY"] == "***"


def test_the_effective_configuration_can_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told = config(demote_after="77m", keep_checkpoints=3, strict_types=True, retention_at="hourly", batch_bytes=1000)
    for name, value in told.effective().items():
        if value != "none":
            monkeypatch.setenv(name, value)

    assert TierConfig.from_env() == told


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "saver.config"):
        yield caplog


def test_an_unknown_variable_is_one_warning_with_the_one_meant(
    monkeypatch: pytest.MonkeyPatch, warnings: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TIER_REDIS_URL", REDIS)
    monkeypatch.setenv("TIER_POSTGRES_URL", POSTGRES)
    monkeypatch.setenv("TIER_DEMOTE_AFTR", "hunter2")
    monkeypatch.setenv("TIER_COLOUR", "hunter2")
    monkeypatch.setenv("TIER_LOG_THREAD_IDS", "on")

    TierConfig.from_env()

    assert unknown_variables() == {"TIER_COLOUR": None, "TIER_DEMOTE_AFTR": "TIER_DEMOTE_AFTER"}
    assert [record.getMessage() for record in warnings.records] == [
        "unknown variables are ignored: TIER_COLOUR, TIER_DEMOTE_AFTR (did you mean TIER_DEMOTE_AFTER?)"
    ]


def test_a_configuration_does_not_change() -> None:
    told = config()

    with pytest.raises(ValueError, match="frozen"):
        told.partitions = 1  # type: ignore[misc]
