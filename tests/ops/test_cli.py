"""The command `tier`, against real servers."""

import asyncio
import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from operator import add
from pathlib import Path
from typing import Annotated, TypedDict

import psycopg
import pytest
import redis
from click.testing import CliRunner, Result
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from psycopg import sql
from pydantic import SecretStr

from jobs.quarantine import set_aside
from saver import ColdTierError, HotTierError, TierConfig, TieredSaver
from saver.connect import connect
from tests.fix_servers import StartServers
from worker.cli.group import COMMANDS, tier

Run = Callable[..., Result]
CONTENT = "what nobody may see"
TIER = str(Path(sys.executable).with_name("tier"))


class State(TypedDict):
    words: Annotated[list[str], add]


def speak(saver: BaseCheckpointSaver[str], thread_id: str, *words: str) -> None:
    """One turn for each word."""
    builder = StateGraph(State)
    builder.add_node("echo", lambda state: {"words": [state["words"][-1].upper()]})
    builder.add_edge(START, "echo")
    builder.add_edge("echo", END)
    graph = builder.compile(checkpointer=saver)
    for word in words:
        graph.invoke({"words": [word]}, {"configurable": {"thread_id": thread_id}})


@pytest.fixture
def environment(redis_url: str, postgres_url: str, prefix: str, schema: str) -> dict[str, str]:
    return {
        "TIER_REDIS_URL": redis_url,
        "TIER_POSTGRES_URL": postgres_url,
        "TIER_KEY_PREFIX": prefix,
        "TIER_POSTGRES_SCHEMA": schema,
        "TIER_PARTITIONS": "4",
    }


@pytest.fixture
def config(environment: dict[str, str]) -> TierConfig:
    return TierConfig(**{name.removeprefix("TIER_").lower(): value for name, value in environment.items()})


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """`tier` with some arguments, and other variables by name."""

    def run(*arguments: str, **variables: str) -> Result:
        return CliRunner(env={**environment, **variables}).invoke(tier, arguments, catch_exceptions=False)

    return run


def test_help_names_every_command_in_its_own_words(run: Run) -> None:
    shown = run("--help")

    assert shown.exit_code == 0
    for name, summary in COMMANDS.items():
        assert name in shown.stdout
        assert summary in run(name, "--help").stdout.replace("\n  ", " ")


def test_help_does_not_import_the_library() -> None:
    code = "import sys\nfrom worker.cli import main\ntry:\n  main()\nfinally:\n  print('langgraph' in sys.modules)"

    shown = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False)

    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, "False")


def test_without_click_the_message_names_the_extra() -> None:
    code = "import sys\nsys.modules['click'] = None\nfrom worker.cli import main\nmain()"

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert shown.returncode == 2
    assert "pip install 'langgraph-checkpoint-tiered[worker]'" in shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize(("words", "offered"), [("tier st", "status"), ("tier retain --d", "--dry-run")])
def test_a_shell_is_told_how_to_complete(run: Run, words: str, offered: str) -> None:
    variables = {"_TIER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}

    told = subprocess.run([TIER], env=os.environ | variables, capture_output=True, text=True, check=False)

    assert told.stdout == f"plain,{offered}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["show"], ["status", "--nonsense"], ["promote"]])
def test_misuse_is_exit_code_2(run: Run, arguments: list[str]) -> None:
    shown = run(*arguments)

    assert (shown.exit_code, shown.stdout) == (2, "")


def test_a_wrong_configuration_is_one_report_on_standard_error(run: Run) -> None:
    shown = run("config", TIER_RETAIN_FOR="0", TIER_REDIS_URL="redis://user:hidden@")

    assert (shown.exit_code, shown.stdout) == (2, "")
    assert "TIER_RETAIN_FOR" in shown.stderr
    assert "TIER_REDIS_URL" in shown.stderr
    assert "hidden" not in shown.stderr


def test_config_shows_what_is_in_force_without_secrets(run: Run) -> None:
    shown = run("config", "--json", TIER_THREAD_SECRET="a secret that nobody reads", TIER_DEMOTE_AFTER="90s")

    found = json.loads(shown.stdout)
    assert (found["TIER_DEMOTE_AFTER"], found["TIER_METRICS_PORT"], found["TIER_THREAD_SECRET"]) == (
        "90s",
        "9464",
        "***",
    )
    assert found["TIER_KEY_PREFIX"] in run("config").stdout


def test_show_tells_sizes_and_dirty_rows_and_no_content(run: Run, config: TierConfig) -> None:
    with TieredSaver(config) as saver:
        speak(saver, "shown", CONTENT)
    hot = json.loads(run("show", "shown", "--json").stdout)

    with TieredSaver(config) as saver:
        saver.demote("shown")
    cold = json.loads(run("show", "shown", "--json").stdout)

    assert hot["cold"] is None
    assert hot["hot"]["dirty_rows"] > 0
    assert cold["hot"] is None
    assert cold["cold"]["spaces"][0]["checkpoints"] == hot["hot"]["spaces"][0]["checkpoints"] == 3
    assert CONTENT not in run("show", "shown").stdout


@pytest.mark.parametrize("tier_then", ["hot", "cold"])
def test_show_tells_content_to_those_who_ask_and_moves_nothing(
    run: Run, config: TierConfig, redis_url: str, prefix: str, tier_then: str
) -> None:
    with TieredSaver(config) as saver:
        speak(saver, "shown", CONTENT, "\x1b[2J")
        if tier_then == "cold":
            saver.demote("shown")
    with redis.Redis.from_url(redis_url) as client:
        keys_before = set(client.scan_iter(match=f"{prefix}*"))

        shown = run("show", "shown", "--values")
        as_json = json.loads(run("show", "shown", "--values", "--json").stdout)

        assert set(client.scan_iter(match=f"{prefix}*")) == keys_before
    assert shown.exit_code == 0
    assert CONTENT in shown.stdout
    assert "\x1b" not in shown.stdout
    assert as_json["values"][0]["values"]["words"][:2] == [CONTENT, CONTENT.upper()]


def test_show_builds_no_class_and_needs_the_key_for_values(run: Run, config: TierConfig) -> None:
    key = "a key of 32 bytes in plain text!"
    with TieredSaver(config.model_copy(update={"encryption_key": SecretStr(key)})) as saver:
        speak(saver, "locked", CONTENT)

    without = run("show", "locked", "--values")
    with_key = run("show", "locked", "--values", TIER_ENCRYPTION_KEY=key)

    assert without.exit_code == 0
    assert "set TIER_ENCRYPTION_KEY" in without.stdout
    assert CONTENT not in without.stdout
    assert CONTENT in with_key.stdout


def test_show_of_a_thread_that_nobody_has_is_exit_code_1(run: Run, config: TierConfig) -> None:
    with TieredSaver(config):
        shown = run("show", "nobody\x1b[2J")

    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "\\x1b" in shown.stderr


def test_promote_and_delete_do_what_they_say(run: Run, config: TierConfig) -> None:
    with TieredSaver(config) as saver:
        speak(saver, "moved", "a")
        saver.demote("moved")

        promoted = run("promote", "moved", "unknown")
        tier_then = saver.tier_of("moved")
        deleted = run("delete", "moved")

        assert (promoted.exit_code, promoted.stdout) == (1, "promoted 1 thread\n")
        assert "unknown" in promoted.stderr
        assert tier_then == "hot"
        assert (deleted.exit_code, deleted.stdout) == (0, "deleted 1 thread\n")
        assert saver.tier_of("moved") is None


@pytest.mark.parametrize("down", ["TIER_REDIS_URL", "TIER_POSTGRES_URL"])
def test_show_works_with_one_tier_down_and_says_so(run: Run, config: TierConfig, down: str) -> None:
    with TieredSaver(config) as saver:
        speak(saver, "both", "a")
        saver.demote("both")
        saver.promote("both")

    scheme = "redis" if down == "TIER_REDIS_URL" else "postgresql"
    shown = run("show", "both", "--json", TIER_POSTGRES_TIMEOUT="1s", **{down: f"{scheme}://127.0.0.1:1/0"})

    found = json.loads(shown.stdout)
    assert shown.exit_code == 1
    assert "does not answer" in shown.stderr
    assert [tier for tier in ("hot", "cold") if found[tier]] == [("cold" if scheme == "redis" else "hot")]


def test_status_counts_threads_and_what_waits(run: Run, config: TierConfig) -> None:
    with TieredSaver(config) as saver:
        for thread_id in ("one", "two", "three"):
            speak(saver, thread_id, "a")
        saver.demote("one")

    shown = json.loads(run("status", "--json").stdout)

    hot = shown["hot"]
    assert shown["last_sweep_seconds"] is None
    assert (hot["threads"], hot["dirty_threads"], hot["quarantined_threads"]) == (2, 2, 0)
    assert hot["oldest_dirty_seconds"] > 0
    assert shown["cold"]["threads"] == 1
    assert shown["workers"] == 0
    told = run("status")
    assert told.exit_code == 0
    assert "none alive" in told.stdout


def test_status_changes_nothing_on_servers_that_nobody_used(run: Run, redis_url: str, prefix: str) -> None:
    shown = run("status")

    assert shown.exit_code == 1
    assert "no tables of ours" in shown.stderr
    with redis.Redis.from_url(redis_url) as client:
        assert list(client.scan_iter(match=f"{prefix}*")) == []


def test_another_number_of_partitions_is_refused(run: Run, config: TierConfig) -> None:
    with TieredSaver(config):
        shown = run("status", TIER_PARTITIONS="5")

    assert shown.exit_code == 2
    assert "TIER_PARTITIONS=4" in shown.stderr


def test_demote_by_name_by_age_and_all(run: Run, config: TierConfig) -> None:
    with TieredSaver(config) as saver:
        for thread_id in ("named", "idle", "used"):
            speak(saver, thread_id, "a")

        by_name = run("demote", "named")
        none_is_that_old = run("demote", "--idle", "1h")
        rest = run("demote", "--all")

        assert (by_name.exit_code, by_name.stdout) == (0, "demoted 1 thread\n")
        assert none_is_that_old.stdout == "demoted 0 threads\n"
        assert (rest.exit_code, rest.stdout) == (0, "demoted 2 threads\n")
        assert {saver.tier_of(thread_id) for thread_id in ("named", "idle", "used")} == {"cold"}


@pytest.mark.parametrize("arguments", [[], ["one", "--all"], ["--idle", "1 hour"], ["--idle", "0"]])
def test_demote_wants_one_way_to_choose(run: Run, arguments: list[str]) -> None:
    assert run("demote", *arguments).exit_code == 2


def test_verify_finds_what_only_one_tier_has_and_repairs_it(
    run: Run, config: TierConfig, postgres_url: str, schema: str
) -> None:
    with TieredSaver(config) as saver:
        for thread_id in ("good", "torn", "dirty"):
            speak(saver, thread_id, "a", "b")
        for thread_id in ("good", "torn"):
            saver.demote(thread_id)
            saver.promote(thread_id)
    before = run("verify")
    with psycopg.connect(postgres_url) as connection:
        delete = sql.SQL("delete from {}.checkpoint_blobs where thread_id = 'torn' and channel = 'words'")
        connection.execute(delete.format(sql.Identifier(schema)))

    after = run("verify")
    as_json = json.loads(run("verify", "torn", "--json").stdout)
    repaired = run("verify", "--repair")

    assert before.exit_code == 0
    assert before.stdout.endswith("0 differ\n")
    assert after.exit_code == 1
    assert "thread torn: blob words" in after.stdout
    assert "thread good" not in after.stdout
    assert as_json["differences"][0]["key"][0] == "words"
    assert repaired.exit_code == 0
    assert repaired.stdout.endswith("1 repaired\n0 differ\n")
    assert run("verify").exit_code == 0


def test_retain_says_what_would_go_and_then_does_it(
    run: Run, config: TierConfig, postgres_url: str, schema: str
) -> None:
    with TieredSaver(config) as saver:
        for thread_id in ("old", "young"):
            speak(saver, thread_id, "a")
            saver.demote(thread_id)
    with psycopg.connect(postgres_url) as connection:
        age = sql.SQL("update {}.tier_threads set last_activity = now() - interval '2 days' where thread_id = 'old'")
        connection.execute(age.format(sql.Identifier(schema)))
        stamp = sql.SQL("update {}.checkpoints set checkpoint = jsonb_set(checkpoint, '{{ts}}', to_jsonb(%s::text))")
        connection.execute(stamp.format(sql.Identifier(schema)), ("2020-01-01T00:00:00+00:00",))

    previewed = run("retain", "--dry-run", TIER_RETAIN_FOR="1d")
    kept = run("show", "old").exit_code
    done = run("retain", "--now", TIER_RETAIN_FOR="1d")

    assert previewed.stdout.startswith("1 thread would be deleted")
    assert kept == 0
    assert done.stdout == "deleted 1 thread\n"
    assert (run("show", "old").exit_code, run("show", "young").exit_code) == (1, 0)


def test_retain_without_a_policy_keeps_everything(run: Run) -> None:
    assert run("retain", "--now").stdout == "deleted 0 threads\n"
    assert run("retain").exit_code == 2


def test_long_threads_are_shortened(run: Run, config: TierConfig) -> None:
    with TieredSaver(config) as saver:
        speak(saver, "long", "a", "b", "c")
        saver.demote("long")

    previewed = run("retain", "--dry-run", TIER_KEEP_CHECKPOINTS="2")
    done = run("retain", "--now", TIER_KEEP_CHECKPOINTS="2")
    again = run("retain", "--now", TIER_KEEP_CHECKPOINTS="2")

    assert previewed.stdout.splitlines()[1:] == ["1 thread would be shortened by 7 checkpoints"]
    assert done.stdout.splitlines() == ["deleted 0 threads", "shortened 1 thread by 7 checkpoints"]
    assert again.stdout == "deleted 0 threads\n"


def test_policies_are_set_listed_and_removed(run: Run) -> None:
    done = [
        run("policy", "set", "acme", "--where", "tenant=acme", "--where", "level=3", "--retain-for", "30d"),
        run("policy", "set", "case 7", "--thread", "t7", "--hold"),
    ]

    listed = json.loads(run("policy", "list", "--json").stdout)
    shown = run("policy", "list").stdout
    removed = run("policy", "remove", "acme"), run("policy", "remove", "acme")

    assert [one.exit_code for one in done] == [0, 0]
    assert listed == [
        {
            "name": "acme",
            "thread_id": None,
            "metadata": {"tenant": "acme", "level": 3},
            "wishes": {"tier_retain_for": "30d"},
        },
        {"name": "case 7", "thread_id": "t7", "metadata": None, "wishes": {"tier_legal_hold": True}},
    ]
    assert "level=3 tenant=acme" in shown
    assert [one.exit_code for one in removed] == [0, 1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--retain-for", "30d"],
        ["--thread", "t", "--where", "tenant=acme", "--retain-for", "30d"],
        ["--where", "tenant", "--retain-for", "30d"],
        ["--thread", "t"],
        ["--thread", "t", "--retain-for", "0"],
        ["--thread", "t", "--keep-checkpoints", "none"],
    ],
)
def test_policy_that_says_nothing_clear_is_misuse(run: Run, arguments: list[str]) -> None:
    run("policy", "set", "p", "--thread", "t", "--hold")

    assert run("policy", "set", "p", *arguments).exit_code == 2
    assert [one["wishes"] for one in json.loads(run("policy", "list", "--json").stdout)] == [{"tier_legal_hold": True}]


def test_held_thread_is_not_deleted_by_name(run: Run, config: TierConfig) -> None:
    with TieredSaver(config) as saver:
        speak(saver, "evidence", "a")
    run("policy", "set", "case 7", "--thread", "evidence", "--hold")

    refused = run("delete", "evidence")
    run("policy", "remove", "case 7")

    assert refused.exit_code == 1
    assert "legal hold" in refused.stderr
    assert run("delete", "evidence").exit_code == 0


def test_threads_go_out_to_a_file_and_come_in_elsewhere(run: Run, config: TierConfig, tmp_path: Path) -> None:
    file = tmp_path / "threads"
    with TieredSaver(config) as saver:
        for name in ("cold", "hot", "other"):
            speak(saver, name, name)
        saver.demote("cold")

    exported = run("export", str(file), "cold", "hot", "nobody")
    deleted = run("delete", "cold", "hot")
    imported, again = run("import", str(file)), run("import", str(file))

    assert (exported.exit_code, exported.stdout) == (1, "exported 2 threads\n")
    assert "no tier has a thread nobody" in exported.stderr
    assert file.stat().st_mode & 0o077 == 0
    assert deleted.exit_code == 0
    assert imported.stdout == "imported 2 threads\n"
    assert again.stdout == "imported 0 threads\n2 threads were there already\n"
    with TieredSaver(config) as saver:
        assert words_of(saver, "hot") == ["hot", "HOT"]


def words_of(saver: TieredSaver, thread_id: str) -> object:
    found = saver.get_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
    return found and found.checkpoint["channel_values"]["words"]


def test_export_that_was_cut_off_goes_on(run: Run, config: TierConfig, tmp_path: Path) -> None:
    file = tmp_path / "threads"
    with TieredSaver(config) as saver:
        for number in range(5):
            speak(saver, f"t{number}", "a")
            if number % 2:
                saver.demote(f"t{number}")
    run("export", str(file), "--all")
    file.write_bytes(file.read_bytes()[:-100])

    cut = run("import", str(file))
    refused = run("export", str(file), "--all")
    resumed = run("export", str(file), "--all", "--resume")
    whole = run("import", str(file))

    assert (cut.exit_code, "cut off" in cut.stderr) == (1, True)
    assert refused.exit_code == 2
    assert resumed.stdout == "exported 1 thread\n"
    assert whole.stdout == "imported 0 threads\n5 threads were there already\n"


def test_threads_of_a_user_are_exported(run: Run, config: TierConfig, tmp_path: Path) -> None:
    file = tmp_path / "threads"
    with TieredSaver(config) as saver:
        for name, user in (("cold", "ann"), ("hot", "ann"), ("other", "bob")):
            builder = StateGraph(State).add_node("n", lambda _: {"words": ["a"]}).add_edge(START, "n")
            where: RunnableConfig = {"configurable": {"thread_id": name}, "metadata": {"user_id": user}}
            builder.compile(checkpointer=saver).invoke({"words": []}, where)
        saver.demote("cold")
        saver.demote("other")

    exported = run("export", str(file), "--where", "user_id=ann")

    assert exported.stdout == "exported 2 threads\n"
    assert run("export", str(tmp_path / "x"), "--where", "user_id=ann", "--all").exit_code == 2


def test_quarantine_lists_the_reason_and_puts_back(run: Run, config: TierConfig) -> None:
    async def refuse() -> None:
        async with connect(config) as tiers:
            await set_aside(tiers, "refused", ColdTierError("refused", sqlstate="22P05"))

    with TieredSaver(config) as saver:
        speak(saver, "refused", "a")
    asyncio.run(refuse())

    listed = run("quarantine", "list", "--json")
    counted = run("status")
    put_back = run("quarantine", "retry", "refused", "unknown")

    [found] = json.loads(listed.stdout)
    assert (listed.exit_code, found["thread_id"], found["sqlstate"]) == (1, "refused", "22P05")
    assert counted.exit_code == 1
    assert (put_back.exit_code, put_back.stdout) == (1, "put back 1 thread\n")
    assert json.loads(run("status", "--json").stdout)["hot"]["dirty_threads"] == 1


def test_demote_frees_a_redis_that_is_full(private_servers: StartServers) -> None:
    servers = private_servers(redis_settings={"maxmemory": "6mb"})
    variables = {"TIER_REDIS_URL": servers.redis_url, "TIER_POSTGRES_URL": servers.postgres_url}
    config = TierConfig(redis_url=servers.redis_url, postgres_url=servers.postgres_url)
    with TieredSaver(config) as saver:
        fill(saver)
        fill_up(servers.redis_url)
        threads = json.loads(CliRunner(env=variables).invoke(tier, ["status", "--json"]).stdout)["hot"]["threads"]

        shown = CliRunner(env=variables).invoke(tier, ["demote", "--all"])
        speak(saver, "new", "a")

        assert (shown.exit_code, shown.stdout) == (0, f"demoted {threads} threads\n"), shown.stderr
        assert saver.tier_of("new") == "hot"


def fill(saver: TieredSaver) -> None:
    """Write threads until Redis takes no more."""
    for number in range(1000):
        try:
            speak(saver, f"large-{number}", secrets.token_hex(20_000))
        except HotTierError:
            return
    raise AssertionError("Redis was never full")


def fill_up(redis_url: str) -> None:
    """Take what little memory is left, so that not even the smallest write is accepted."""
    with redis.Redis.from_url(redis_url) as client, contextlib.suppress(redis.exceptions.OutOfMemoryError):
        for number in count():
            client.set(f"filler-{number}", "x")
