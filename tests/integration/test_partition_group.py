"""The partition group, from the command line over real servers: bad messages, mended, marked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from secor.config.load import load
from secor.core.model import TopicPartition
from secor.sandbox import Sandbox
from secor.wiring.clients import open_reader, open_store
from tests.integration.daemons import (
    Start,
    committed,
    create_topic,
    run_secor,
    wait_until,
    write_config,
)

PARTITIONS = 2
GOOD, LATER, BROKEN, BOTS = 300, 40, 20, 10
TOTAL = GOOD + LATER + BROKEN + BOTS
TOGETHER, ABORTED = 60, 6
"""Messages of a transaction, and of one that is aborted after it."""
LOG_END = TOTAL + -(-TOTAL // TOGETHER) * (ABORTED + 2 * PARTITIONS)
"""Of all partitions together: each transaction ends with a marker in each of them."""
DAY = 1_700_000_000  # 2023-11-14T22:13:20
PARSER = """
[parser]
time_field = "time"
max_bad_ratio = "none"
dead_letter_topic = "partitioned-bad"
[[parser.transforms]]
kind = "filter"
field = "bot"
exists = true
negated = true
"""


def values() -> Iterator[bytes]:
    """Over two days; some have their time elsewhere, some are no JSON, some are filtered."""
    for number in range(GOOD):
        yield b'{"time": %d, "number": %d}' % (DAY + 60 * number, number)
    for number in range(LATER):
        yield b'{"meta": {"at": %d}, "number": %d}' % (DAY + number, number)
    for number in range(BROKEN):
        yield b'{"time": %d, "number": ' % number
    for number in range(BOTS):
        yield b'{"time": %d, "bot": "yes"}' % (DAY + number)


def produce(sandbox: Sandbox, topic: str) -> None:
    """Send all in transactions, between which others are aborted: the offsets have holes."""
    producer = KafkaProducer(bootstrap_servers=sandbox.kafka, transactional_id=topic)
    producer.init_transactions()
    every = list(enumerate(values()))
    for start in range(0, TOTAL, TOGETHER):
        producer.begin_transaction()
        for number, value in every[start : start + TOGETHER]:
            producer.send(topic, value=value, partition=number % PARTITIONS)
        producer.commit_transaction()
        producer.begin_transaction()
        for number, value in every[start : start + ABORTED]:
            producer.send(topic, value=value, partition=number % PARTITIONS)
        producer.flush()  # what was not sent yet would not be aborted, but left out
        producer.abort_transaction()
    producer.close()


def told(*arguments: str, code: int = 0) -> dict[str, Any]:
    done = run_secor(*arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def verified(config: Path) -> dict[str, int]:
    """Return the sums over all partitions of what a faultless verification counted."""
    report = told("verify", str(config))
    names = ("messages", "quarantined", "filtered", "values_only")
    return {name: sum(one[name] for one in report["partitions"]) for name in names}


def keys(config: Path) -> list[str]:
    settings = load(config, {})
    with open_store(settings) as store:
        return [stored.key for stored in store.list(f"{settings.output.prefix}/")]


def days(config: Path, topic: str) -> set[str]:
    start = f"{topic}/{topic}/"
    return {key.split("/")[2] for key in keys(config) if key.startswith(start)}


def test_bad_messages_are_quarantined_replayed_and_their_days_marked(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "partitioned"
    config = write_config(
        tmp_path,
        sandbox,
        group=topic,
        topic=topic,
        ledger="zookeeper",
        settings={"group": {"kind": "partition"}, "output": {"format": "text"}},
        more=PARSER,
    )
    create_topic(sandbox, topic, PARTITIONS)
    create_topic(sandbox, f"{topic}-bad", 1)
    produce(sandbox, topic)
    daemon = start(config, tmp_path / "log")
    wait_until(lambda: committed(config, topic, PARTITIONS) == LOG_END, "everything committed")
    assert daemon.total("secor_quarantined_total") == LATER + BROKEN
    assert daemon.total("secor_filtered_total") == BOTS

    assert days(config, topic) == {"dt=2023-11-14", "dt=2023-11-15"}
    expected = {"quarantined": LATER + BROKEN, "filtered": BOTS, "values_only": GOOD}
    assert verified(config) == {"messages": TOTAL - BOTS, **expected}

    copies = TopicPartition(f"{topic}-bad", 0)
    with open_reader(load(config, {})) as reader:
        wait_until(lambda: reader.log_range(copies).end == LATER + BROKEN, "every copy")
        [first, *_] = next(reader.read(copies, 0, 1)).records.to_pylist()
    names = [header["key"] for header in first["headers"]]
    assert names == ["secor-reason", "secor-source"]

    # The daemon goes on with the old configuration while the quarantine is replayed.
    later = config.read_text().replace('time_field = "time"', 'time_field = "meta.at"')
    config.write_text(later)
    replayed = told("quarantine", "replay", str(config), topic, code=5)
    assert (replayed["placed"], replayed["bad"]) == (LATER, BROKEN)
    expected = {"quarantined": BROKEN, "filtered": BOTS, "values_only": GOOD + LATER}
    assert verified(config) == {"messages": TOTAL - BOTS, **expected}

    finalized = told("finalize", str(config), topic)["topics"][0]
    assert finalized["marked"] == ["dt=2023-11-14", "dt=2023-11-15"]
    marks = [key for key in keys(config) if key.endswith("/_SUCCESS")]
    assert marks == [f"{topic}/{topic}/{day}/_SUCCESS" for day in finalized["marked"]]
    again = told("finalize", str(config), topic)["topics"][0]
    assert (again["marked"], again["late"]) == ([], [])
