"""
A private Redis and a private Postgres for the demo and the tests, started from wheels: no root, no Docker, no network.

    with Embedded() as servers:
        print(servers.redis_url, servers.postgres_url)

Whatever ends the calling process, kill -9 included, also ends the servers and removes a temporary data directory.
`python -m worker.embedded` runs both until Ctrl-C. Only the standard library is imported.
"""

from worker.embedded.errors import EmbeddedError
from worker.embedded.launch import Embedded

__all__ = ["Embedded", "EmbeddedError"]
