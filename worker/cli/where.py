"""`--where KEY=VALUE`: threads by what their newest checkpoint says."""

import json
from typing import Any

import click


class Pair(click.ParamType[tuple[str, Any]]):
    """A key of the metadata and its value: JSON if it reads as such, else text."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        key, separator, text = str(value).partition("=")
        if not (key and separator):
            self.fail("write KEY=VALUE, like user_id=ann", param, ctx)
        try:
            return key, json.loads(text)
        except ValueError:
            return key, text


def _merged(_: click.Context, __: click.Parameter, pairs: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    return dict(pairs)


where_option = click.option(
    "--where",
    type=Pair(),
    multiple=True,
    callback=_merged,
    metavar="KEY=VALUE",
    help="Threads whose newest checkpoint says this in its metadata; repeat it to ask for more.",
)
