"""The fault proxy itself: what it lets through, and each fault it makes."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from tests.fix_proxy import Proxy
from tests.waiting import eventually


class Echo(BaseRequestHandler):
    """Answers with what it got, until the client closes; `bye` makes it close first."""

    def handle(self) -> None:
        while received := self.request.recv(65536):
            self.request.sendall(received)
            if received == b"bye":
                return


class EchoServer(ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A reset is what the tests ask for."""


@pytest.fixture(scope="module")
def echo_port() -> Iterator[int]:
    with EchoServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(echo_port: int) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", echo_port) as proxy:
        yield proxy


def connect(proxy: Proxy) -> "closing[socket.socket]":
    return closing(socket.create_connection(("127.0.0.1", proxy.port), 10))


def ask(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    reply = b""
    while len(reply) < len(text) and (received := client.recv(65536)):
        reply += received
    return reply


def test_bytes_pass_both_ways_and_are_counted(proxy: Proxy) -> None:
    text = b"x" * 500_000

    with connect(proxy) as client:
        reply = ask(client, text)

    assert reply == text
    assert (proxy.request_bytes_total, proxy.reply_bytes_total) == (500_000, 500_000)


def test_connections_are_counted(proxy: Proxy) -> None:
    with connect(proxy) as one, connect(proxy) as other:
        assert (ask(one, b"a"), ask(other, b"b")) == (b"a", b"b")

        assert proxy.connections == 2
    eventually(lambda: proxy.connections == 0)
    assert proxy.connections_total == 2


def test_a_server_that_closes_closes_the_client(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client, b"bye") == b"bye"

        assert client.recv(1) == b""


def test_replies_come_late_by_the_delay(proxy: Proxy) -> None:
    proxy.reply_delay_ms = 150

    with connect(proxy) as client:
        start = time.monotonic()
        assert ask(client, b"late") == b"late"

    assert time.monotonic() - start >= 0.15


def test_held_replies_arrive_when_released(proxy: Proxy) -> None:
    with connect(proxy) as client:
        proxy.hold_replies()
        client.sendall(b"held")
        eventually(lambda: proxy.request_bytes_total == 4)
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(4)

        proxy.release_replies()

        client.settimeout(10)
        assert client.recv(4) == b"held"


def test_cut_resets_every_connection(proxy: Proxy) -> None:
    with connect(proxy) as one, connect(proxy) as other:
        ask(one, b"a"), ask(other, b"b")

        proxy.cut()

        for client in (one, other):
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert proxy.connections == 0


def test_after_a_cut_a_new_connection_works(proxy: Proxy) -> None:
    with connect(proxy) as client:
        ask(client, b"a")
        proxy.cut()

    with connect(proxy) as client:
        assert ask(client, b"again") == b"again"


def test_refused_while_open_connections_go_on(proxy: Proxy) -> None:
    with connect(proxy) as client:
        ask(client, b"a")

        proxy.refuse_new()

        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        assert ask(client, b"still here") == b"still here"


def test_accepts_again_on_the_same_port(proxy: Proxy) -> None:
    port = proxy.port
    proxy.refuse_new()

    proxy.accept_new()

    assert proxy.port == port
    with connect(proxy) as client:
        assert ask(client, b"back") == b"back"


def test_drops_one_reply_and_cuts_only_that_connection(proxy: Proxy) -> None:
    with connect(proxy) as victim, connect(proxy) as other:
        ask(victim, b"a"), ask(other, b"b")
        proxy.drop_next_reply()

        victim.sendall(b"done, but nobody will know")

        with pytest.raises(ConnectionResetError):
            victim.recv(1)
        assert ask(other, b"fine") == b"fine"
        assert proxy.reply_bytes_total == len(b"ab" + b"fine")


def test_a_server_that_is_down_resets_the_client() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]

    with Proxy("127.0.0.1", port) as proxy, pytest.raises(ConnectionResetError), connect(proxy) as client:
        client.recv(1)


def test_url_leads_through_the_proxy(proxy: Proxy) -> None:
    assert proxy.url("redis://:secret@10.0.0.1:6379/3") == f"redis://:secret@127.0.0.1:{proxy.port}/3"
    assert proxy.url("postgresql://db/name?x=1") == f"postgresql://127.0.0.1:{proxy.port}/name?x=1"
