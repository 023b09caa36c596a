"""
Durations and sizes as people write them, `90s` and `32 MiB`, read and printed.

What is printed can be read again and means the same.
"""

import re
from datetime import timedelta

LONGEST = timedelta(days=36_500)
LARGEST_BYTES = 1 << 30

_MILLISECOND = timedelta(milliseconds=1)
_MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_DURATION = re.compile(r"([0-9]{1,18})(ms|s|m|h|d)")
_BYTES = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "GB": 10**9, "MB": 10**6, "KB": 1000, "kB": 1000, "B": 1}
_SIZE = re.compile(r"([0-9]{1,18}) ?([KMG]iB|[kKMG]?B)?")


def parse_duration(value: object) -> timedelta:
    """
    Read `500ms`, `90s`, `30m`, `6h` or `90d`; take a timedelta as it is.

    A bare number has no unit and is refused, and so is anything shorter than a millisecond or
    longer than a hundred years. A ValueError says how to write it.
    """
    if isinstance(value, timedelta):
        duration = value
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value)):
        milliseconds = int(match[1]) * _MILLISECONDS[match[2]]
        # Cut before it becomes a timedelta, which overflows; still long enough to be refused below.
        duration = min(milliseconds, 2 * (LONGEST // _MILLISECOND)) * _MILLISECOND
    else:
        raise ValueError("write a duration like 90s, 15m or 6h")
    if duration < _MILLISECOND:
        raise ValueError("write a duration longer than zero, like 90s, 15m or 6h")
    if duration > LONGEST:
        raise ValueError(f"write a duration of at most {format_duration(LONGEST)}")
    return duration


def format_duration(duration: timedelta) -> str:
    """Print in the largest unit that divides it, to the millisecond: `90s`, `2m`, `1d`."""
    milliseconds = round(duration / _MILLISECOND)
    unit = next(unit for unit, size in _MILLISECONDS.items() if milliseconds % size == 0)
    return f"{milliseconds // _MILLISECONDS[unit]}{unit}"


def parse_size(value: object) -> int:
    """
    Read `32 MiB`, `32MiB`, `500 kB` or a plain number of bytes.

    Zero and more than 1 GiB are refused. A ValueError says how to write it.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        size_bytes = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        size_bytes = int(match[1]) * _BYTES[match[2] or "B"]
    else:
        raise ValueError("write a size like 32 MiB or 500 kB")
    if not 0 < size_bytes <= LARGEST_BYTES:
        raise ValueError(f"write a size from 1 B to {format_size(LARGEST_BYTES)}, like 32 MiB or 500 kB")
    return size_bytes


def format_size(size_bytes: int) -> str:
    """Print in the largest binary unit that divides it: `32 MiB`, `1000 B`."""
    unit = next(unit for unit, size in _BYTES.items() if unit[1:] in ("iB", "") and size_bytes % size == 0)
    return f"{size_bytes // _BYTES[unit]} {unit}"
