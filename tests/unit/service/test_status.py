"""The status page and its JSON, without a server."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from secor.config.load import load
from secor.consume.partition_status import Pause, ReadingState
from secor.core import errors
from secor.core.errors import AccessDenied, LedgerLost, SecorError, Unavailable
from secor.core.model import OffsetRange, OpenTransaction, TopicPartition, Withheld
from secor.service.monitoring.health import Health
from secor.service.startup import Hindrance
from secor.service.status.board import About, Board
from secor.service.status.document import HEADERS, SCRIPT, STYLE
from secor.service.status.page import page
from secor.service.status.picture import picture
from secor.service.status.remedies import REMEDIES, remedy
from secor.wiring.http_server import board_of
from tests.fakes.clock import FakeClock
from tests.unit.service.test_telemetry import HERE, STATUS

HOSTILE = "<script>alert('1')</script>\"&"
ABOUT = About(
    "1.2.3", f"g{HOSTILE}", f"host{HOSTILE}", (("a.b", f'"{HOSTILE}"', "file"),), "compiled"
)


class Setup:
    def __init__(self) -> None:
        self.clock = FakeClock(now=1000.0, monotonic=50.0)
        self.health = Health(self.clock, limit=30.0)
        self.board = Board(self.clock, ABOUT)

    def picture(self) -> dict[str, object]:
        made: dict[str, object] = json.loads(json.dumps(picture(self.board, self.health)))
        return made

    def first(self) -> dict[str, object]:
        partitions = self.picture()["partitions"]
        assert isinstance(partitions, list)
        first: dict[str, object] = partitions[0]
        return first

    def page(self) -> str:
        return page(picture(self.board, self.health))


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_offsets_behind_an_open_transaction_are_named_with_it(setup: Setup) -> None:
    hostile = OpenTransaction(160, 7, HOSTILE, 300.0)
    waiting = replace(STATUS, withheld=Withheld(500, 400.0, hostile))
    setup.board.show([waiting], ledger_up=True)
    assert setup.picture()["withheld"] == 500
    withheld = setup.first()["withheld"]
    assert isinstance(withheld, dict)
    assert (withheld["offsets"], withheld["seconds"]) == (500, 700.0)
    assert withheld["transaction"]["transactional_id"] == HOSTILE
    shown = setup.page()
    assert "behind open transactions" in shown
    assert "500, for 12 min" in shown
    assert "For 12 min 500 offsets wait behind an open transaction (transactional id" in shown
    assert HOSTILE not in shown
    setup.board.show([replace(STATUS, withheld=Withheld(1, 990.0))], ledger_up=True)
    assert "For 10 s 1 offset waits behind an open transaction." in setup.page()
    setup.board.show([STATUS], ledger_up=True)
    assert (setup.picture()["withheld"], setup.first()["withheld"]) == (0, None)
    assert "behind open transactions" not in setup.page()


def test_a_partition_tells_where_it_stands(setup: Setup) -> None:
    open_batch = replace(
        STATUS, batch_opened=45.0, batch_messages=50, batch_size=2000, batch_files=2
    )
    setup.board.show([open_batch], ledger_up=True)
    setup.health.waiting([])
    told = setup.picture()
    assert (told["ready"], told["waiting"], told["assigned"]) == (True, [], ["clicks/3"])
    assert (told["lag"], told["buffered_bytes"], told["local_bytes"]) == (60, 1000, 3000)
    first = setup.first()
    assert (first["committed"], first["position"], first["end"]) == (100, 150, 160)
    assert (first["lag"], first["lag_seconds"]) == (60, 5.0)
    assert first["batch"] == {"age": 5.0, "messages": 50, "bytes": 2000, "files": 2}
    assert (first["last_commit_age"], first["oldest_uncommitted"]) == (20.0, 10.0)
    assert (first["last_error"], first["last_upload"], first["paused"]) == (None, None, None)


def test_what_is_not_known_yet_is_null(setup: Setup) -> None:
    fresh = replace(STATUS, committed=None, next_offset=None, known_end=None, committed_at=None)
    setup.board.show([fresh], ledger_up=True)
    assert (setup.first()["lag"], setup.first()["last_commit_age"]) == (None, None)
    assert "–" in setup.page()
    assert "<dd>0, 1 not known</dd>" in setup.page()


def test_reasons_to_wait_and_the_snapshots_age_are_told(setup: Setup) -> None:
    setup.health.waiting(["the ledger does not answer"])
    setup.board.show([], ledger_up=False)
    setup.clock.sleep(4)
    told = setup.picture()
    assert (told["ready"], told["waiting"]) == (False, ["the ledger does not answer"])
    assert (told["ledger_up"], told["snapshot_age"], told["alive"]) == (False, 4.0, True)
    setup.clock.sleep(40)
    assert setup.picture()["alive"] is False
    assert ">stuck<" in setup.page()
    assert "decoder: compiled" in setup.page()


def test_the_last_error_comes_with_its_time_and_its_remedy(setup: Setup) -> None:
    setup.board.show([STATUS], ledger_up=True)
    setup.board.failed(HERE, Unavailable("no answer"))
    setup.clock.sleep(3)
    setup.board.failed(HERE, AccessDenied("no right"))
    setup.clock.sleep(7)
    error = setup.first()["last_error"]
    assert isinstance(error, dict)
    assert (error["kind"], error["message"], error["age"]) == ("access_denied", "no right", 7.0)
    assert error["at"] == "1970-01-01T00:16:43+00:00"
    assert "secor doctor" in error["remedy"]
    assert "secor doctor" in setup.page()


def test_a_stopped_partition_tells_why_and_when_it_is_looked_at_again(setup: Setup) -> None:
    lost = LedgerLost("the entry is gone")
    stopped = replace(
        STATUS, state=ReadingState.STOPPED, error=lost, again_at=80.0, stopped_at=40.0
    )
    setup.board.show([stopped], ledger_up=True)
    setup.board.failed(HERE, lost)
    first = setup.first()
    assert (first["stopped"], first["again_in"]) == ("the entry is gone", 30.0)
    assert first["stopped_age"] == 10.0
    shown = setup.page()
    assert "ledger_lost</span> in 1 topic partition since" in shown
    assert "the entry is gone" in shown
    assert "Stopped for 10 s: see above." in shown
    assert '<dt>of them stopped</dt><dd><span class="bad">1</span></dd>' in shown
    assert "Looked at again in 30 s." in shown
    assert "ledger_lost" in shown


def test_uploads_intents_and_pauses_are_told(setup: Setup) -> None:
    busy = replace(
        STATUS,
        intent_end=200,
        sealed=OffsetRange(100, 140),
        sealed_batches=1,
        in_work=True,
        pause=Pause.LIMITS,
    )
    setup.board.show([busy], ledger_up=True)
    setup.board.committed(HERE, 12.0)
    setup.clock.sleep(5)
    first = setup.first()
    assert (first["sealed"], first["uploading"]) == ([100, 140], True)
    assert first["paused"] == "limits.memory or limits.local_bytes is reached"
    assert first["last_upload"] == {
        "at": "1970-01-01T00:16:40+00:00",
        "age": 5.0,
        "batch_age": 12.0,
    }
    shown = setup.page()
    assert "the batch ends exactly at 200." in shown
    assert (
        "The batch [100, 140) is being uploaded under an intent of this process. It is 15 s old."
        in shown
    )
    assert "Paused: limits.memory" in shown


def test_what_a_start_waits_for_is_told_until_it_has_it(setup: Setup) -> None:
    setup.board.hinder(Hindrance("the object store", 40.0, Unavailable(f"no S3 {HOSTILE}")))
    told = setup.picture()["hindrance"]
    assert setup.picture()["ledger_up"] is None, "nobody has asked it yet"
    assert isinstance(told, dict)
    assert (told["server"], told["age"], told["message"]) == (
        "the object store",
        10.0,
        f"no S3 {HOSTILE}",
    )
    shown = setup.page()
    assert "For 10 s: no S3 &lt;script&gt;" in shown
    assert told["remedy"] in shown
    assert Elements(shown).tags.count("script") == 1  # our own
    setup.board.hinder(Hindrance("ZooKeeper", 50.0, None))
    assert "For 0 s" not in setup.page()
    setup.board.show([STATUS], ledger_up=True)
    assert setup.picture()["hindrance"] is None
    assert "no S3" not in setup.page()


def test_what_went_away_is_forgotten(setup: Setup) -> None:
    setup.board.show([STATUS], ledger_up=True)
    setup.board.failed(HERE, Unavailable("x"))
    setup.board.committed(HERE, 1.0)
    setup.board.show([], ledger_up=True)
    setup.board.show([STATUS], ledger_up=True)
    assert (setup.first()["last_error"], setup.first()["last_upload"]) == (None, None)


class Elements(HTMLParser):
    """Tags, and the addresses that they name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [it or "" for name, it in attrs if name in ("href", "src", "action")]


def test_the_page_escapes_whatever_others_have_written(setup: Setup) -> None:
    topic = TopicPartition(HOSTILE, 0)
    stopped = replace(STATUS, topic_partition=topic, error=Unavailable(HOSTILE))
    setup.board.show([stopped], ledger_up=True)
    setup.board.failed(topic, Unavailable(f"another {HOSTILE}"))
    setup.health.waiting([HOSTILE])
    shown = setup.page()
    assert Elements(shown).tags.count("script") == 1  # our own
    assert shown.count("&lt;script&gt;") == 11


def test_the_page_fetches_nothing_but_itself_and_renews_itself(setup: Setup) -> None:
    setup.board.show([STATUS], ledger_up=True)
    shown = setup.page()
    assert set(Elements(shown).addresses) == {"data:,", "/status.json", "/metrics"}
    assert '<noscript><meta http-equiv="refresh"' in shown
    assert shown.count(f"<script>{SCRIPT}</script>") == 1
    assert "http:" not in SCRIPT
    assert 'name="viewport"' in shown
    assert shown.count(f"<style>{STYLE}</style>") == 1
    assert "url(" not in STYLE
    policy = dict(HEADERS)["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'; connect-src 'self';" in policy


def leaves(kind: type[SecorError]) -> Iterator[type[SecorError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from leaves(below)


def test_every_error_has_a_remedy_of_its_own_or_of_its_kind() -> None:
    general = {errors.Refused, errors.LeaseLost, errors.SchemaGrew, errors.WriterFenced}
    general |= {errors.TransactionBroken, errors.TransactionAborted}
    assert set(leaves(SecorError)) - general == set(REMEDIES)
    for error in (errors.Refused("x"), errors.LeaseLost("x"), errors.SchemaGrew(5)):
        assert remedy(error) == REMEDIES[errors.RestartPartition]


def test_commands_named_by_remedies_exist() -> None:
    from secor.cli.main import COMMANDS

    named = {name for text in REMEDIES.values() for name in re.findall(r"secor (\w+)", text)}
    assert named
    assert named <= set(COMMANDS)


def test_the_configuration_is_shown_with_its_secrets_masked(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text(
        """
        group.name = "g"
        kafka.bootstrap_servers = ["127.0.0.1:1"]
        kafka.topics = ["clicks"]
        kafka.security_protocol = "SASL_SSL"
        kafka.sasl_mechanism = "PLAIN"
        kafka.sasl_plain_username = "me"
        kafka.sasl_plain_password = "geheim"
        store.s3.bucket = "b"
        store.s3.access_key = "key"
        store.s3.secret_key = "geheim"
        store.s3.proxies = {https = "http://me:geheim@proxy:1"}
        metrics.username = "ada"
        metrics.password = "geheim"
        """
    )
    clock = FakeClock(now=1000.0, monotonic=50.0)
    board = board_of(load(path, {}), clock, "host-1")
    told = json.dumps(picture(board, Health(clock, limit=30.0)))
    assert "geheim" not in told
    assert '"metrics.password", "value": "\\"**********\\""' in told
    assert "store.s3.bucket" in told
