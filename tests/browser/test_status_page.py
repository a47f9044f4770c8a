"""The status page in a real browser, served by the real server and by a real daemon."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from secor.core.errors import Unavailable
from secor.sandbox import Sandbox
from tests.browser.chromium import Chromium, Page, chromium
from tests.browser.statuses import HOSTILE, StatusServer, show_everything, status, status_server
from tests.integration.daemons import create_topic, daemons, produce, wait_until, write_config

Tab = Callable[[tuple[int, int]], Page]

PHONE = (390, 844)
SIZES = [pytest.param((1280, 900), id="desktop"), pytest.param(PHONE, id="phone")]
ROWS = """
Object.fromEntries([...document.querySelectorAll("tbody[id]")].map(body => [body.id,
  Object.fromEntries([...body.querySelectorAll("td[data-name]")].map(
    cell => [cell.dataset.name, cell.innerText]))]))
"""
BEYOND = """
[...document.querySelectorAll("*")].filter(it => {
  const box = it.getBoundingClientRect();
  return box.right > innerWidth + 1 || box.left < -1;
}).map(it => it.outerHTML.slice(0, 99))
"""
SLIPPED = """
(() => {
  document.body.insertAdjacentHTML("beforeend", `<img src="http://198.51.100.1/x">`);
  const script = document.createElement("script");
  script.textContent = "document.title = 'taken'";
  document.body.append(script);
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def tab(browser: Chromium) -> Iterator[Tab]:
    pages: list[Page] = []

    def open_tab(size: tuple[int, int]) -> Page:
        pages.append(Page(browser, *size))
        return pages[-1]

    yield open_tab
    for page in pages:
        page.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[StatusServer]:
    with status_server(tmp_path) as running:
        yield running


def numbers_of(page: Page) -> dict[str, dict[str, str]]:
    """Return what the page shows of each topic partition, by column."""
    found: dict[str, dict[str, str]] = page.value(ROWS)
    return found


def told_by(port: int | None) -> dict[str, Any]:
    """Return the status as JSON."""
    with urlopen(f"http://127.0.0.1:{port}/status.json", timeout=60) as answer:
        told: dict[str, Any] = json.loads(answer.read())
    return told


def shown(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def is_quiet(page: Page, url: str) -> None:
    """Check that it asked for nothing but itself, and complained of nothing."""
    assert set(page.requests()) == {url}
    assert page.complaints() == []


@pytest.mark.parametrize("size", SIZES)
def test_what_is_shown_is_what_the_json_says(
    tab: Tab, served: StatusServer, size: tuple[int, int], tmp_path: Path
) -> None:
    show_everything(served)
    page = tab(size)
    page.go(served.url())
    rows = numbers_of(page)
    told = told_by(served.server.port)["partitions"]
    assert list(rows) == [f"{one['topic']}/{one['partition']}" for one in told]
    for one, row in zip(told, rows.values(), strict=True):
        assert row["committed"] == shown(one["committed"])
        assert row["position"] == shown(one["position"])
        assert row["log's end"] == shown(one["end"])
        assert row["lag"].split(", ")[0] == shown(one["lag"])
        assert row["state"].split(", ")[0] == one["state"]
        assert row["open batch"].startswith(
            "–" if one["batch"]["age"] is None else f"{one['batch']['messages']:,} messages, "
        )
    page.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000
    is_quiet(page, served.url())


@pytest.mark.parametrize("size", SIZES)
def test_nothing_reaches_beyond_the_window(
    tab: Tab, served: StatusServer, size: tuple[int, int]
) -> None:
    show_everything(served)
    page = tab(size)
    page.go(served.url())
    assert page.value(BEYOND) == []
    assert page.value("document.documentElement.scrollWidth <= innerWidth")
    assert page.value("innerWidth") == size[0]


def test_hostile_words_are_only_words(tab: Tab, served: StatusServer) -> None:
    show_everything(served)
    page = tab(PHONE)
    page.go(served.url())
    assert page.value("document.title") == "clicks-backup: secor"
    assert page.value("document.querySelectorAll('img, iframe').length") == 0
    assert page.value("document.scripts.length") == 1  # our own
    text = page.value("document.body.innerText")
    assert text.count(HOSTILE) == 1  # the error, word for word
    assert "onerror" not in text
    is_quiet(page, served.url())


def test_the_policy_stops_what_would_slip_through(tab: Tab, served: StatusServer) -> None:
    page = tab(PHONE)
    page.go(served.url())
    page.value(SLIPPED)
    page.until(lambda: len(page.complaints()) >= 2, "two violations of the policy")
    assert page.value("document.title") == "clicks-backup: secor"
    assert [it["blockedReason"] for it in page.told("Network.loadingFailed")] == ["csp"]


def test_it_renews_itself_in_place(tab: Tab, served: StatusServer) -> None:
    show_everything(served)
    page = tab(PHONE)
    page.go(served.url())
    page.value("scrollTo(0, 900)")
    moved = replace(status(served.clock, "clicks", 0, 777_000), known_end=777_123)
    others = [it for it in served.board.snapshot.statuses if str(it.topic_partition) != "clicks/0"]
    served.board.show([moved, *others], ledger_up=True)
    page.until(lambda: numbers_of(page)["clicks/0"]["committed"] == "777,000", "a new number")
    assert page.value("Math.abs(scrollY - 900) < 50")
    assert page.loads() == 1
    is_quiet(page, served.url())


def test_it_says_that_it_has_lost_contact_and_goes_on_when_it_is_back(
    tab: Tab, tmp_path: Path
) -> None:
    with status_server(tmp_path) as served:
        show_everything(served)
        page = tab(PHONE)
        page.go(served.url())
        before = {name: row["committed"] for name, row in numbers_of(page).items()}
        assert page.value("document.getElementById('lost').hidden")
        port = served.server.port
    page.until(lambda: not page.value("document.getElementById('lost').hidden"), "a warning")
    warning = page.value("document.getElementById('lost').innerText")
    assert warning.startswith("No contact with this process for ")
    assert {name: row["committed"] for name, row in numbers_of(page).items()} == before
    with status_server(tmp_path, port) as served:
        page.until(lambda: page.value("document.getElementById('lost').hidden"), "contact again")
        assert numbers_of(page) == {}
    assert page.loads() == 1


def test_what_was_unfolded_stays_so(tab: Tab, served: StatusServer) -> None:
    many = [status(served.clock, "clicks", number, 5) for number in range(12)]
    served.board.show(many, ledger_up=True)
    for one in many:
        served.failed(one, Unavailable("s3.internal:443: 503 Slow Down"))
    page = tab(PHONE)
    page.go(served.url())
    assert page.value("document.querySelector('.errors').innerText").count("503") == 1
    page.value("document.querySelector('details').open = true")
    served.board.show(many[:11], ledger_up=True)
    page.until(lambda: page.value("document.querySelectorAll('tbody').length") == 11, "new rows")
    assert page.value("document.querySelector('details').open")


def test_a_running_daemon_is_seen_at_work(tab: Tab, sandbox: Sandbox, tmp_path: Path) -> None:
    topic = "seen-at-work"
    create_topic(sandbox, topic, 2)
    config = write_config(tmp_path, sandbox, group="seen", topic=topic, ledger="zookeeper")
    produce(sandbox, topic, 2, range(1000))
    with daemons() as start:
        daemon = start(config, tmp_path / "daemon.log")
        wait_until(lambda: daemon.port() is not None, "the daemon to serve its page")
        url = f"http://127.0.0.1:{daemon.port()}/"

        def told() -> dict[str, Any]:
            return {it["partition"]: it for it in told_by(daemon.port())["partitions"]}

        wait_until(lambda: [it["committed"] for it in told().values()] == [500, 500], "the upload")
        servers = told_by(daemon.port())["servers"]
        assert [server["answers"] for server in servers] == [True, True, True]
        page = tab(PHONE)
        page.go(url)
        assert {row["committed"] for row in numbers_of(page).values()} == {"500"}
        assert {row["lag"] for row in numbers_of(page).values()} == {"0"}
        produce(sandbox, topic, 2, range(1000, 3000))
        page.until(
            lambda: {row["committed"] for row in numbers_of(page).values()} == {"1,500"},
            "the new messages to be seen, without a command",
        )
        assert {it["end"] for it in told().values()} == {1500}
        assert all(it["last_upload"] for it in told().values())
        is_quiet(page, url)
