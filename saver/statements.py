"""SQL text: named statements and migrations from `sql/`, with the schema's name put in as a quoted identifier."""

import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "sql"
_START = re.compile(r"^-- (name|fragment): (\w+)\n", re.MULTILINE)


def _parse(text: str) -> tuple[dict[str, str], dict[str, str]]:
    statements: dict[str, str] = {}
    fragments: dict[str, str] = {}
    parts = _START.split(text)
    for kind, name, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        lines = [line for line in body.splitlines() if not line.startswith("--")]
        if name in statements or name in fragments:
            raise ValueError(f"two statements are named {name}")
        sql = "\n".join(lines).strip().rstrip(";")
        (statements if kind == "name" else fragments)[name] = sql
    return statements, fragments


def quoted(schema: str) -> str:
    return '"' + schema.replace('"', '""') + '"'


@cache
def statements(schema: str) -> dict[str, bytes]:
    """All named statements for one schema."""
    named, fragments = _parse("\n".join(path.read_text() for path in sorted(_FOLDER.glob("*.sql"))))
    ready: dict[str, bytes] = {}
    for name, sql in named.items():
        for fragment, body in fragments.items():
            sql = sql.replace(f"{{{fragment}}}", body)
        ready[name] = sql.replace("{schema}", quoted(schema)).encode()
    return ready


def migrations(schema: str) -> list[tuple[int, bytes]]:
    """Our own migrations with their numbers, in order."""
    return [
        (int(path.name[:4]), path.read_text().replace("{schema}", quoted(schema)).encode())
        for path in sorted((_FOLDER / "migrations").glob("[0-9]*.sql"))
    ]
