"""
What Postgres can store: ids and text, JSON, and which values JSONB gives back as they were.

JSONB changes, or refuses, text with NUL or half a surrogate pair, floats that are not finite, negative zero, floats
that Postgres prints as integers, members of enums and other subclasses.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from saver.errors import InvalidThread

MOST_ID_BYTES = 2500  # of a row's key: a Postgres B-tree entry takes 2704 bytes

_INTEGERS_FROM = 1e16  # from here on Python prints a float with an exponent, Postgres without
_NUL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def _json_encoder() -> Callable[[Any], str]:
    """One that is built once: `JSONEncoder.encode` builds its C part anew for each call."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    text_of, default = json.encoder.encode_basestring, json.JSONEncoder().default
    parts_of = make(None, default, text_of, None, ":", ",", False, False, False)
    return lambda value: "".join(parts_of(value, 0))


_encode_json = _json_encoder()


def check_ids(what: str, ids: Sequence[str]) -> None:
    """Refuse ids that Postgres could not store or index. Raises InvalidThread."""
    together = "".join(ids)
    if len(together) * 4 <= MOST_ID_BYTES and together.isascii() and "\0" not in together:
        return
    if sum(map(len, ids)) * 4 > MOST_ID_BYTES and sum(len(i.encode(errors="replace")) for i in ids) > MOST_ID_BYTES:
        raise InvalidThread(f"{what} is too long: all ids of a row take at most {MOST_ID_BYTES} bytes; shorten it")
    for part in ids:
        check_text(what, part)


def check_text(what: str, text: str) -> None:
    """Refuse text that Postgres could not store. Raises InvalidThread."""
    if "\0" in text:
        raise InvalidThread(f"{what} contains the character NUL, which Postgres cannot store; remove it")
    if not is_text(text):
        raise InvalidThread(f"{what} contains half a surrogate pair, which is not text; remove it")


def is_text(text: str) -> bool:
    """Whether UTF-8 can hold it: no half of a surrogate pair is in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_inline(value: Any) -> bool:
    """Whether JSONB gives the value back with the same type and value, so that it may stand in the checkpoint row."""
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return True
    if kind is str:
        return "\0" not in value and is_text(value)
    if kind is float:
        return abs(value) < _INTEGERS_FROM and (value != 0.0 or math.copysign(1.0, value) > 0)
    return False


def to_json(what: str, value: Any) -> str:
    """
    JSON text that Postgres takes and gives back with the same values. Raises InvalidThread for what JSONB cannot hold.
    """
    try:
        text = _encode_json(value)
        if "e+" in text or "-0.0" in text:
            text = _encode_json(_as_jsonb(value))
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidThread(f"{what} cannot be stored as JSON ({error}); use plain, finite values there") from error
    if "\\u0000" in text and _NUL_ESCAPE.search(text):
        raise InvalidThread(f"{what} contains the character NUL, which Postgres cannot store; remove it")
    return text


def metadata_json(what: str, value: Any) -> str:
    """
    The same for metadata: the stock saver strips NUL from the metadata's own strings; here from nested ones too.
    """
    try:
        return to_json(what, value)
    except InvalidThread:
        return to_json(what, without_nul(value))


def condition(filter_: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """
    What a filter on metadata asks for, in the terms in which metadata is stored; None if for nothing.

    Raises InvalidThread for what metadata cannot hold, wherever the thread is.
    """
    if not filter_:
        return None
    text = metadata_json("the filter", filter_)
    check_text("the filter", text)
    found: dict[str, Any] = json.loads(text)
    return found


def _as_jsonb(value: Any) -> Any:
    """JSONB has exact numbers: no negative zero, and a float that Postgres prints as an integer reads back as one."""
    if isinstance(value, float):
        return value + 0.0 if abs(value) < _INTEGERS_FROM else int(Decimal(repr(float(value))))
    if isinstance(value, dict):
        return {key: _as_jsonb(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_jsonb(item) for item in value]
    return value


def without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {without_nul(key): without_nul(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nul(item) for item in value]
    return value


def contains(document: Any, part: Any) -> bool:
    """Whether JSONB `document @> part` holds for two objects (PostgreSQL manual, 8.14.3, containment)."""
    if isinstance(part, Mapping):
        return isinstance(document, Mapping) and all(
            key in document and contains(document[key], value) for key, value in part.items()
        )
    if isinstance(part, (list, tuple)):
        return isinstance(document, (list, tuple)) and all(
            any(contains(item, wanted) for item in document) for wanted in part
        )
    if isinstance(document, (Mapping, list, tuple)):
        return False
    return isinstance(document, bool) == isinstance(part, bool) and bool(document == part)
