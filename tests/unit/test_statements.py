"""SQL text: each statement once, for one schema, and one that Postgres can plan."""

import re

import psycopg
import pytest

from saver import TierConfig
from saver.connect import Tiers
from saver.directory import STEP_KEYS
from saver.statements import _parse, migrations, quoted, statements


def test_fragments_and_schema_are_put_in() -> None:
    text = statements('we"ird')["read_newest"].decode()

    assert '"we""ird".checkpoints' in text
    assert "{" not in text


def test_comments_stay_in_the_file() -> None:
    assert not [name for name, text in statements("public").items() if text.startswith(b"--")]


def test_two_statements_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two statements are named x"):
        _parse("-- name: x\nselect 1;\n\n-- name: x\nselect 2;\n")


def test_migrations_come_in_order_without_a_gap() -> None:
    numbers = [number for number, _ in migrations("public")]

    assert numbers == list(range(1, len(numbers) + 1))


def test_schema_is_quoted() -> None:
    assert quoted('a"b') == '"a""b"'


async def test_postgres_can_plan_every_statement(config: TierConfig, tiers: Tiers, postgres_url: str) -> None:
    refused = {}
    with psycopg.connect(postgres_url) as connection:
        for name, text in statements(config.postgres_schema).items():
            query = re.sub(r"%\((\w+)\)s", "null", text.decode())
            if query.startswith("copy"):
                continue
            try:
                with connection.transaction(force_rollback=True):
                    connection.execute(f"explain {query}".encode())
            except psycopg.Error as error:
                refused[name] = str(error)
    assert refused == {}


def test_keys_that_change_with_every_step_are_the_same_everywhere() -> None:
    texts = [statements("s")["label"].decode(), migrations("s")[1][1].decode()]

    told = [re.search(r"metadata - '\{(.*?)\}'::text\[\]", text) for text in texts]

    assert [set(found[1].split(",")) for found in told if found] == [STEP_KEYS, STEP_KEYS]
