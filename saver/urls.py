"""
The addresses of the tiers: whether they are well formed, and how they are shown without what is secret in them.

No error of this module quotes a part of an address: any part may be the password.
"""

import re
from typing import Any
from urllib.parse import parse_qs

REDIS_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
POSTGRES_SCHEMES = ("postgresql", "postgres")

_PRINTABLE = re.compile(r"(?:[!-$&-~]|%[0-9A-Fa-f]{2})*")
_AUTHORITY = re.compile(r"(?P<user>[^@/?#\[\]]*@)?(?P<hosts>[^@/?#]*)(?P<path>/[^@?#]*)?(?:\?(?P<options>[^@#]*))?")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_ENCODE = "percent-encode spaces and / ? # @ [ ] % in the user name and the password"
_DATABASE = (re.compile(r"(/[0-9]*)?"), "after the host, write only the number of the database, like /0")
_SERVICE = (re.compile(r"/[^/]+(/[0-9]*)?"), "after the hosts, write the name of the service, like /main")
_NO_DATABASE = (re.compile(r"(/0?)?"), "a cluster has only the database 0")
_REDIS_PATHS = {
    "redis": _DATABASE,
    "rediss": _DATABASE,
    "unix": (re.compile(r"/.+"), "write it like unix:///path/to/redis.sock"),
    "redis+sentinel": _SERVICE,
    "rediss+sentinel": _SERVICE,
    "redis+cluster": _NO_DATABASE,
    "rediss+cluster": _NO_DATABASE,
}
_CREDENTIALS = re.compile(r"://\S{0,2000}@")
_PASSWORD = re.compile(
    r"(?P<name>\b\w*(?:password|passwd|secret))(?P<equals>\s*=\s*)(?:'(?:\\.|[^'\\])*'|[^\s&;,'\"]+)", re.IGNORECASE
)


def check_redis_url(url: str) -> None:
    """
    Refuse, with a ValueError that quotes nothing, an address that is not Redis or that a client would read otherwise.

    An address without a host is refused too: clients take it for localhost.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in REDIS_SCHEMES:
        raise ValueError(f"is not a Redis address: it begins with one of {_listed(REDIS_SCHEMES)}")
    parts = parts_of(rest)
    hosts = parts["hosts"].split(",")
    if scheme == "unix":
        if parts["hosts"]:
            raise ValueError("is malformed: write it like unix:///path/to/redis.sock")
    elif len(hosts) > 1 and scheme in ("redis", "rediss"):
        raise ValueError("names several hosts: that is for redis+sentinel:// and redis+cluster://")
    else:
        _check_hosts(hosts)
    shape, advice = _REDIS_PATHS[scheme]
    if not shape.fullmatch(parts["path"]):
        raise ValueError(f"is malformed: {advice}")
    if not all(number.isdecimal() for number in parse_qs(parts["options"]).get("db", [])):
        raise ValueError("is malformed: the option db is the number of a database")


def is_cluster(url: str) -> bool:
    """The address is one of a Redis Cluster."""
    return url.partition("://")[0].endswith("+cluster")


def is_behind_sentinels(url: str) -> bool:
    """The address is one of Sentinels."""
    return url.partition("://")[0].endswith("+sentinel")


def tls_defaults(url: str) -> dict[str, Any]:
    """What redis-py is told beside an address: to compare the host with the certificate, which it would not do."""
    if not url.startswith("rediss:"):
        return {}
    wanted = parse_qs(url.partition("?")[2]).get("ssl_cert_reqs", ["required"])
    return {"ssl_check_hostname": wanted != ["none"]}


def check_postgres_url(url: str) -> None:
    """
    Refuse, with a ValueError that quotes nothing, what libpq would not accept or would read otherwise.

    A URL or a `key=value` string. One without a host or a service is refused: libpq takes it for this machine.
    """
    if "://" in url.partition("=")[0]:
        if not url.startswith(tuple(f"{scheme}://" for scheme in POSTGRES_SCHEMES)):
            raise ValueError(f"is not a Postgres address: it begins with one of {_listed(POSTGRES_SCHEMES)}")
        parts_of(url.partition("://")[2])
    settings = _conninfo(url)
    if settings is None:
        raise ValueError(f"is malformed: write it like postgresql://user:password@host:5432/database, and {_ENCODE}")
    hosts = (settings.get("host") or settings.get("hostaddr") or "").split(",")
    if not any(hosts) and not settings.get("service"):
        raise ValueError("names no host")
    if not all(_is_port(port) for port in settings.get("port", "").split(",") if port):
        raise ValueError("has a port that is not a number from 1 to 65535")


def parts_of(rest: str) -> dict[str, str]:
    """User, hosts, path and options of what stands behind `://`, as they are written. Raises ValueError."""
    if not _PRINTABLE.fullmatch(rest) or not (match := _AUTHORITY.fullmatch(rest)):
        raise ValueError(f"is malformed: {_ENCODE}")
    return {name: part or "" for name, part in match.groupdict().items()}


def shown_url(url: str) -> str:
    """Where an address points, for people: without user, password and options."""
    scheme, separator, rest = url.partition("://")
    if separator and (match := _AUTHORITY.fullmatch(rest)):
        return f"{scheme}://{'***@' if match['user'] else ''}{match['hosts']}{match['path'] or ''}"
    settings = _conninfo(url) or {}
    shown = {name: settings[name] for name in ("service", "host", "hostaddr", "port", "dbname") if name in settings}
    return " ".join(f"{name}={value}" for name, value in shown.items()) or "***"


def masked(text: str) -> str:
    """
    The text with `***` for what stands between `://` and `@`, and for the value of a `password=`.

    Rather too much than too little: what is masked reaches to the last `@` of the word.
    """
    return _PASSWORD.sub(r"\g<name>\g<equals>***", _CREDENTIALS.sub("://***@", text))


def _check_hosts(hosts: list[str]) -> None:
    if not all(hosts):
        raise ValueError("names no host")
    for host in hosts:
        match = _HOST.fullmatch(host)
        if not match or not (match["port"] is None or _is_port(match["port"])):
            raise ValueError("is malformed: write a host like db.example.org:6379, with a port from 1 to 65535")


def _is_port(text: str) -> bool:
    return text.isdecimal() and 0 < int(text) < 65536


def _conninfo(text: str) -> dict[str, str] | None:
    """What libpq reads in the text, or None. Its own message is dropped: it quotes the text."""
    # Here, because psycopg is slow to import and who imports the configuration may never check one.
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        return {name: str(value) for name, value in conninfo_to_dict(text).items()}
    except (ProgrammingError, UnicodeError):
        return None


def _listed(schemes: tuple[str, ...]) -> str:
    return ", ".join(f"{scheme}://" for scheme in schemes)
