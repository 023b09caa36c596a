"""What may stand in JSONB, which ids are taken, and containment as Postgres has it."""

import enum
import json
import math
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from saver.codec import address_of
from saver.errors import InvalidThread
from saver.storable import MOST_ID_BYTES, check_ids, condition, contains, is_inline, to_json, without_nul

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.recursive(
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([-0.0, 1e16, 1e22, "e+ -0.0"]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", 1.0, 2.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner),
    max_leaves=6,
)


class Name(str, enum.Enum):  # noqa: UP042 - the case itself
    A = "a"


@pytest.fixture(scope="module")
def database(postgres_url: str) -> Any:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@settings(deadline=None, max_examples=50)
@given(value=SCALARS)
def test_inline_value_comes_back_from_jsonb_as_it_was(database: Any, value: Any) -> None:
    if is_inline(value):
        [found] = database.execute("select %s::jsonb", (to_json("x", value),)).fetchone()
        assert repr(found) == repr(value)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -0.0, 1e16, 1.7976931348623157e308, "a\0b", "\ud800", Name.A, [1], {}, b"", (1,)]
)
def test_value_that_jsonb_would_change_is_not_inline(value: Any) -> None:
    assert not is_inline(value)


@pytest.mark.parametrize("value", [None, True, 0, 2**200, 0.0, 1.5, 5e-324, 9999999999999998.0, "", "\\u0000"])
def test_value_that_jsonb_keeps_is_inline(value: Any) -> None:
    assert is_inline(value)


@settings(deadline=None, max_examples=150)
@given(document=DOCUMENTS, part=DOCUMENTS)
def test_containment_is_that_of_postgres(database: Any, document: Any, part: Any) -> None:
    metadata, filter_ = {"key": document, "more": 1}, {"key": part}

    found = database.execute("select %s @> %s", (Jsonb(metadata), Jsonb(filter_))).fetchone()

    assert found == (contains(metadata, filter_),)


@pytest.mark.parametrize("text", ["\\u0000", "\\\\u0000", "\\", "ü\u2028"])
def test_json_keeps_what_only_looks_like_nul(text: str) -> None:
    assert json.loads(to_json("x", {"x": text})) == {"x": text}


@settings(deadline=None, max_examples=150)
@given(value=NUMBERS)
def test_numbers_of_json_come_back_from_jsonb_as_they_were_sent(database: Any, value: Any) -> None:
    text = to_json("the metadata", {"x": value})

    [found] = database.execute("select %s::jsonb", (text,)).fetchone()

    assert repr(found) == repr(json.loads(text))


def test_condition_speaks_as_metadata_does() -> None:
    assert condition({"n": 1e16, "z": -0.0, "k": {1: ("a\0",)}}) == {"n": 10**16, "z": 0.0, "k": {"1": ["a"]}}
    assert condition({}) is condition(None) is None


@pytest.mark.parametrize("value", [math.nan, {1, 2}, b"x", "\ud800"])
def test_condition_that_no_metadata_meets_is_refused(value: Any) -> None:
    with pytest.raises(InvalidThread, match="the filter"):
        condition({"x": value})


@pytest.mark.parametrize("value", ["\0", "\\\0", {"\0": 1}, [math.nan], {1, 2}, b"bytes"])
def test_json_that_postgres_would_refuse_is_refused(value: Any) -> None:
    with pytest.raises(InvalidThread, match="the metadata"):
        to_json("the metadata", value)


def test_nul_is_taken_out_of_nested_metadata() -> None:
    assert without_nul({"a\0": ["b\0", {"c": ("\0d",)}], "n": 1}) == {"a": ["b", {"c": ["d"]}], "n": 1}


def test_ids_of_any_type_are_read_as_text() -> None:
    address = address_of({"configurable": {"thread_id": 7, "checkpoint_ns": None, "checkpoint_id": None}})

    assert address == ("7", "", "")
    assert address.config["configurable"] == {"thread_id": "7", "checkpoint_ns": "", "checkpoint_id": ""}


@pytest.mark.parametrize("config", [{}, {"configurable": {}}, {"configurable": {"thread_id": None}}])
def test_config_without_a_thread_is_refused(config: Any) -> None:
    with pytest.raises(InvalidThread, match="thread_id"):
        address_of(config)


@pytest.mark.parametrize(
    "ids", [("x" * (MOST_ID_BYTES + 1),), ("ü" * 1251,), ("a" * 1300, "b" * 1300), ("\0",), ("\udfff",)]
)
def test_ids_that_postgres_could_not_index_are_refused(ids: tuple[str, ...]) -> None:
    with pytest.raises(InvalidThread):
        check_ids("an id", ids)


def test_longest_ids_are_taken(database: Any) -> None:
    check_ids("an id", ("ü" * 1250,))
