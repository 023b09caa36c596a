"""Durations and sizes mean what people write, and what is printed reads back the same."""

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saver.durations import LARGEST_BYTES, LONGEST, format_duration, format_size, parse_duration, parse_size

NOT_DURATIONS = ["", "0", "0s", "5", "-5s", "1.5h", "6 hours", "5M", "5S", " 5s", "5s\n", "1h30m", "off", "٣s", "s"]
NOT_SIZES = ["", "0", "0 MiB", "-1", "1.5 MiB", "32 MB/s", "32  MiB", "32mib", "MiB", "32 MiB\n", "2 GiB", "٣"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("90s", 90), ("30m", 1800), ("6h", 21_600), ("90d", 7_776_000), ("007s", 7)]
)
def test_each_unit_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(("text", "printed"), [("60s", "1m"), ("90s", "90s"), ("24h", "1d"), ("1500ms", "1500ms")])
def test_a_duration_is_printed_in_the_largest_unit_that_divides_it(text: str, printed: str) -> None:
    assert format_duration(parse_duration(text)) == printed


@given(st.timedeltas(timedelta(milliseconds=1), LONGEST).map(lambda d: d - d % timedelta(milliseconds=1)))
def test_a_printed_duration_reads_back_the_same(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize("text", NOT_DURATIONS)
def test_what_is_not_a_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="like 90s, 15m or 6h"):
        parse_duration(text)


@pytest.mark.parametrize("value", [5, 1.5, True, None, b"5s", timedelta(0), timedelta(seconds=-1)])
def test_a_number_without_a_unit_and_a_timedelta_that_does_not_last_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="write a duration"):
        parse_duration(value)


@pytest.mark.parametrize("value", ["36501d", "9" * 18 + "d", "9" * 18 + "ms", timedelta.max])
def test_more_than_a_hundred_years_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="at most 36500d"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("value", "size_bytes"),
    [
        ("32 MiB", 33_554_432),
        ("32MiB", 33_554_432),
        ("500 kB", 500_000),
        ("1GiB", 1 << 30),
        ("7 B", 7),
        ("7", 7),
        (7, 7),
    ],
)
def test_each_way_to_write_a_size_is_read(value: object, size_bytes: int) -> None:
    assert parse_size(value) == size_bytes


@given(st.integers(1, LARGEST_BYTES) | st.integers(1, 1024).map(lambda n: n << 20))
def test_a_printed_size_reads_back_the_same(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


@pytest.mark.parametrize("value", [*NOT_SIZES, 0, -1, True, None, 1.5, LARGEST_BYTES + 1])
def test_what_is_not_a_size_is_refused_with_an_example(value: object) -> None:
    with pytest.raises(ValueError, match="like 32 MiB or 500 kB"):
        parse_size(value)


@given(st.text(alphabet="0123456789 .-smhdkMGiB\n") | st.text())
def test_no_text_raises_anything_but_a_refusal(text: str) -> None:
    with suppress(ValueError):
        assert parse_duration(text)
    with suppress(ValueError):
        assert parse_size(text)
