"""
What is wrong with a configuration: one sentence for each fault, none with a secret in it.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import get_args

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from saver.durations import format_duration
from saver.urls import masked

_FOLLOWS = "follows_another_fault"
_SHOWN_LENGTH = 60


def follows(cause: str) -> PydanticCustomError:
    """The error of a value that could not be judged because another is wrong. It is not reported."""
    return PydanticCustomError(_FOLLOWS, "{cause}", {"cause": cause})


def faults(error: ValidationError, fields: Mapping[str, FieldInfo], prefix: str) -> Iterator[str]:
    """
    A sentence for each fault, with the name of its variable: what is there, and how to write it.

    A value is quoted only where it is no secret, short, and masked in case an address went into the wrong variable.
    """
    for fault in error.errors(include_url=False):
        name = str(fault["loc"][0])
        variable = f"{prefix}{name.upper()}"
        if fault["type"] == _FOLLOWS:
            continue
        if fault["type"] == "missing":
            yield f"{variable} is not set"
        elif fault["type"] == "extra_forbidden":
            meant = nearest(name, fields)
            yield f"{name} is not a setting" + (f": did you mean {meant}?" if meant else "")
        elif fault["input"] == "":
            yield f"{variable} is empty"
        elif _is_secret(fields[name]):
            yield f"{variable} {_reason(fault)}"
        else:
            yield f"{variable} is {_quoted(fault['input'])}: {_reason(fault)}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that this one may be a slip of."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, known, n=1, cutoff=0.8)), None)


def _reason(fault: ErrorDetails) -> str:
    context = fault.get("ctx", {})
    match fault["type"]:
        case "value_error":
            return str(context["error"])
        case "literal_error":
            return f"write {context['expected']}"
        case "bool_parsing" | "bool_type":
            return "write on or off"
        case _:
            return "is not a text"


def _quoted(value: object) -> str:
    text = masked(format_duration(value) if isinstance(value, timedelta) else str(value))
    return repr(text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}...")


def _is_secret(field: FieldInfo) -> bool:
    return SecretStr in (field.annotation, *get_args(field.annotation))
