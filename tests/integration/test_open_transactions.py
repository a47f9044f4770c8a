"""A transaction that nobody ends, over real servers: every command says what waits behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from secor.cli.main import run
from secor.config.load import load
from secor.wiring.clients import open_store
from tests.contracts.kafka_group import Broker
from tests.integration.daemons import (
    Daemon,
    Start,
    committed,
    create_topic,
    wait_until,
    write_config,
)

if TYPE_CHECKING:
    from secor.sandbox import Sandbox

TOPIC, WRITER = "held-open", "writer-of-held-open"
DAY = 1_700_000_000  # 2023-11-14T22:13:20
FIRST, OPEN, BEHIND = 300, 500, 20
WAITING = OPEN + BEHIND
SMALL = {"max_messages": 1000, "max_age": "1s"}


def values(count: int, begin: int) -> list[bytes]:
    """Return messages of one second each."""
    return [b'{"id": %d, "time": %d}' % (begin + at, begin + at) for at in range(count)]


def partition_group(folder: Path, sandbox: Sandbox) -> Path:
    return write_config(
        folder,
        sandbox,
        group=f"{TOPIC}-hours",
        topic=TOPIC,
        ledger="zookeeper",
        settings={"group": {"kind": "partition"}, "output": {"format": "text"}, "policy": SMALL},
        more='[parser]\ntime_field = "time"\nlayout = "dt={time:%Y-%m-%d}/hr={time:%H}"\n',
    )


def table_group(folder: Path, sandbox: Sandbox) -> Path:
    group = f"{TOPIC}-table"
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{folder / 'catalog.db'}",
        "warehouse": f"s3://{sandbox.s3.bucket}/{group}",
    }
    more = "[catalog.properties]\n"
    more += "".join(f"{key} = {json.dumps(value)}\n" for key, value in properties.items())
    more += f'[[tables]]\ntable = "{TOPIC}.events"\nauto_create = true\n'
    return write_config(
        folder,
        sandbox,
        group=group,
        topic=TOPIC,
        ledger="kafka",
        settings={
            "group": {"kind": "table"},
            "parser": {"decoder": "json"},
            "policy": SMALL,
            "commit": {"interval": "1s", "timeout": "4s", "control": "none"},
        },
        more=more,
    )


class Commands:
    """Commands of this process, and what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def text(self, *arguments: object, code: int = 0) -> str:
        """Run a command; return its output."""
        self._capsys.readouterr()
        ended = run([str(it) for it in arguments])
        said = self._capsys.readouterr()
        assert ended == code, said
        return said.out

    def json(self, *arguments: object, code: int = 0) -> dict[str, Any]:
        """Run a command; return what it says for programs."""
        data: dict[str, Any] = json.loads(self.text(*arguments, "--json", code=code))
        return data


@pytest.mark.timeout(900)
def test_every_command_says_what_waits_behind_a_transaction_that_nobody_ends(
    sandbox: Sandbox, tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    broker, secor = Broker(sandbox.kafka), Commands(capsys)
    create_topic(sandbox, TOPIC, 1)
    hours, table = partition_group(tmp_path, sandbox), table_group(tmp_path, sandbox)
    broker.produce(TOPIC, values(FIRST, DAY - 3 * 3600) + values(FIRST, DAY))
    daemon, _ = (start(config, tmp_path / f"{config.stem}.log") for config in (hours, table))
    with broker.open_transaction(TOPIC, values(OPEN, DAY + FIRST), WRITER) as producer:
        broker.produce(TOPIC, values(BEHIND, DAY + FIRST + OPEN))
        wait_for_commits(2 * FIRST, hours, table)
        hours_are_open(secor, hours)
        table_waits(secor, table)
        daemon_waits(daemon)
        producer.commit_transaction()
    end = 2 * FIRST + WAITING + 1
    wait_for_commits(end, hours, table)
    wait_until(lambda: daemon.total("secor_withheld_offsets") == 0, "nothing that waits")
    (reported,) = secor.json("progress", hours)["partitions"]
    assert (reported["lag"], reported["withheld"], reported["transaction"]) == (0, 0, None)
    assert "behind an open" not in secor.text("verify", hours)
    secor.text("finalize", hours)
    assert marked_hours(hours) == ["dt=2023-11-14/hr=19", "dt=2023-11-14/hr=22"]


def marked_hours(config: Path) -> list[str]:
    """Return the directories that have a mark."""
    settings = load(config, {})
    with open_store(settings) as store:
        keys = [stored.key for stored in store.list(f"{settings.output.prefix}/{TOPIC}/")]
    return ["/".join(key.split("/")[-3:-1]) for key in keys if key.endswith("/_SUCCESS")]


def wait_for_commits(offset: int, *configs: Path) -> None:
    """Wait until both ledgers have this offset."""
    reached = [offset] * len(configs)
    wait_until(lambda: [committed(it, TOPIC, 1) for it in configs] == reached, f"up to {offset}")


def hours_are_open(secor: Commands, config: Path) -> None:
    """See what commands say of a group that partitions by hours."""
    (reported,) = secor.json("progress", config)["partitions"]
    assert (reported["lag"], reported["withheld"]) == (0, WAITING)
    assert reported["transaction"]["transactional_id"] == WRITER
    assert reported["transaction"]["start_offset"] == 2 * FIRST
    said = secor.text("progress", config)
    assert f"{TOPIC}/0: {WAITING} offsets wait behind an open transaction" in said
    assert f"0 offsets behind, {WAITING} more behind open transactions" in said
    waiting = f"{WAITING} offsets wait behind an open transaction"
    assert waiting in secor.text("offsets", "show", config)
    assert waiting in secor.text("verify", config)
    assert waiting in secor.text("doctor", config)
    said = secor.text("finalize", config)
    assert f"{WAITING} behind an open transaction, up to 2023-11-14T22:00:00" in said
    assert marked_hours(config) == ["dt=2023-11-14/hr=19"]


def daemon_waits(daemon: Daemon) -> None:
    """See what a daemon measures and shows, and that it is ready."""

    def named() -> bool:
        (partition,) = json.loads(daemon.page("/status.json"))["partitions"]
        transaction = partition["withheld"] and partition["withheld"]["transaction"]
        return bool(transaction) and transaction["transactional_id"] == WRITER

    wait_until(named, "the transaction on the status page")
    assert daemon.total("secor_withheld_offsets") == WAITING
    assert daemon.total("secor_lag_offsets") == 0
    assert daemon.total("secor_withheld_seconds") > 0
    assert daemon.page("/readyz").startswith("ready\n")
    shown = daemon.page("/")
    assert f"{WAITING} offsets wait behind an open transaction (transactional id" in shown


def table_waits(secor: Commands, config: Path) -> None:
    """See what commands say of a group that writes a table."""
    status = secor.json("tables", "status", config)
    assert status["unstaged"] == {}
    waiting = status["withheld"][f"{TOPIC}/0"]
    assert waiting["offsets"] == WAITING
    assert waiting["transaction"]["transactional_id"] == WRITER
    for arguments in (["ls", config], ["show", config, f"{TOPIC}.events"], ["status", config]):
        said = secor.text("tables", *arguments)
        assert f"{TOPIC}/0: {WAITING} offsets wait behind an open transaction" in said
    assert f"{WAITING} offsets wait behind an open transaction" in secor.text("verify", config)
