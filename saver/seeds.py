"""An address that names several hosts: the nodes of a cluster, or the Sentinels that know where Redis is."""

from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from saver.urls import parts_of

CLUSTER_PORT, SENTINEL_PORT = 6379, 26379
_OF_SENTINELS = ("sentinel_username", "sentinel_password")

Host = tuple[str, int]


class Seeds(NamedTuple):
    """Where to begin, and how to get in wherever that leads."""

    scheme: str  # redis or rediss
    user: str  # as it is written, with its @, or empty
    hosts: tuple[Host, ...]
    service: str  # how the Sentinels call this Redis; empty for a cluster
    database: str
    options: str
    sentinel: dict[str, str]  # username and password of the Sentinels themselves

    @classmethod
    def from_url(cls, url: str) -> "Seeds":
        """Read an address that was checked by `urls.check_redis_url`."""
        scheme, _, rest = url.partition("://")
        plain, _, kind = scheme.partition("+")
        parts = parts_of(rest)
        port = SENTINEL_PORT if kind == "sentinel" else CLUSTER_PORT
        path = parts["path"].strip("/").split("/")
        options = parse_qsl(parts["options"])
        sentinel = {name.removeprefix("sentinel_"): value for name, value in options if name in _OF_SENTINELS}
        return cls(
            plain,
            parts["user"],
            tuple(_host(text, port) for text in parts["hosts"].split(",")),
            path.pop(0) if kind == "sentinel" else "",
            path[0] if path else "",
            urlencode([pair for pair in options if pair[0] not in _OF_SENTINELS]),
            sentinel,
        )

    def url_of(self, host: Host) -> str:
        """The address of one server, for clients that know nothing of clusters and Sentinels."""
        name = f"[{host[0]}]" if ":" in host[0] else host[0]
        options = f"?{self.options}" if self.options else ""
        return f"{self.scheme}://{self.user}{name}:{host[1]}/{self.database}{options}"


def _host(text: str, default_port: int) -> Host:
    name, separator, port = text.rpartition(":")
    if not separator or port.endswith("]"):
        return text.strip("[]"), default_port
    return name.strip("[]"), int(port)
