"""The status page of a worker: plain HTML with the numbers of /metrics, and no thread id."""

import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from saver import TierConfig, TieredSaver
from tests.builders import Thread
from tests.fix_proxy import Proxy
from tests.fix_worker import StartWorker
from tests.waiting import eventually_async

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Tables(HTMLParser):
    """The cells of every row, by the first one, and the words of the cells that are marked bad."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, list[str]] = {}
        self.bad: list[str] = []
        self._row: list[str] | None = None
        self._is_cell = self._is_bad = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self._row = []
        self._is_cell = tag == "td"
        self._is_bad = ("class", "bad") in attrs

    def handle_data(self, data: str) -> None:
        if self._is_cell and self._row is not None:
            self._row.append(data)
            self.bad += [data] if self._is_bad else []

    def handle_endtag(self, tag: str) -> None:
        self._is_cell = False
        if tag == "tr" and self._row:
            self.rows[self._row[0]] = self._row[1:]


def read(page: str) -> Tables:
    tables = Tables()
    tables.feed(page)
    return tables


async def test_the_page_says_what_the_metrics_say(start_worker: StartWorker, saver: TieredSaver) -> None:
    await Thread(saver, "not-told").put({"x": ["nor this"]})
    worker = start_worker(archive_after="1h", demote_after="2h").ready()

    async def has_looked() -> bool:
        return "archive" in (rows := read(worker.get("/")[1]).rows) and "ago" in rows["archive"][0]

    await eventually_async(has_looked, within_seconds=20)
    status, page = worker.get("/")

    tables = read(page)
    assert status == 200
    assert tables.rows["hot"] == ["1", "yes"]
    assert tables.rows["cold"] == ["0", "yes"]
    assert tables.rows["Postgres"][0] == "1"
    assert tables.bad == []
    assert "not-told" not in page
    assert "nor this" not in page


async def test_what_is_wrong_stands_out(
    start_worker: StartWorker, saver: TieredSaver, config: TierConfig, proxied: Callable[[str], Proxy]
) -> None:
    postgres_url = config.postgres_url.get_secret_value()
    proxy = proxied(postgres_url)
    worker = start_worker(postgres_url=proxy.url(postgres_url), postgres_timeout="1s").ready()

    proxy.refuse_new()
    proxy.cut()

    async def is_marked() -> bool:
        return "no" in read(worker.get("/")[1]).bad

    await eventually_async(is_marked, within_seconds=30)


def test_a_browser_shows_the_page(start_worker: StartWorker) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    worker = start_worker().ready()

    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]
    shown = subprocess.run(
        [browser, *options, f"http://127.0.0.1:{worker.port}/"], capture_output=True, text=True, timeout=60, check=True
    )

    assert set(read(shown.stdout).rows) >= {"hot", "cold", "archive", "sweep"}
