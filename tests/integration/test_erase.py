"""Keys erased from a backup on real servers: no reader finds them, also when objects come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crc32c import crc32c
from kafka import KafkaConsumer, KafkaProducer

from secor.config.load import load
from secor.sandbox import Sandbox
from secor.sandbox.first_steps import restore_job
from secor.wiring.clients import open_store
from tests.integration.daemons import (
    Start,
    committed,
    create_topic,
    produce,
    run_secor,
    wait_until,
    write_config,
)

PARTITIONS = 2
EACH = 1_500

pytestmark = pytest.mark.slow


def test_keys_are_erased_and_stay_away(
    sandbox: Sandbox, tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECOR_ERASE__SECRET", "the secret of this test")
    topic = "forgetful"
    create_topic(sandbox, topic, PARTITIONS)
    config = write_config(tmp_path, sandbox, group=topic, topic=topic, ledger="kafka")
    running = start(config, tmp_path / "run.log")
    produce(sandbox, topic, PARTITIONS, range(EACH))
    wait_until(lambda: committed(config, topic, PARTITIONS) == EACH, "all messages stored")
    settings = load(config, {})
    with open_store(settings) as store:
        old = {it.key: store.head(it.key).metadata for it in store.list(f"{topic}/{topic}/")}
        contents = {key: store.open(key).read() for key in old}

    keys = tmp_path / "keys.txt"
    keys.write_text("key-1\nkey-10\nkey-1000\nnobody\n")
    erased = run_secor(
        "archive", "erase", str(config), "--topic", topic, "--keys", str(keys), "--null-key"
    )
    assert erased.returncode == 0, erased.stdout + erased.stderr
    without_key = len(range(0, EACH, 3))
    assert f"{topic}: {without_key + 3} messages erased" in erased.stdout
    assert "line 4" in erased.stdout
    produce(sandbox, topic, PARTITIONS, range(EACH, EACH + 100))
    wait_until(lambda: committed(config, topic, PARTITIONS) == EACH + 100, "the daemon goes on")
    assert running.stop() == 0
    checked = run_secor("verify", str(config), "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    report = json.loads(checked.stdout)
    assert sum(it["erased"] for it in report["partitions"]) == without_key + 3
    on_spark = run_secor("verify", str(config), "--json", "--master", "local[2]")
    assert (on_spark.returncode, on_spark.stdout) == (0, checked.stdout), on_spark.stderr

    # Somebody brings the old objects back, and takes away those that replaced them.
    with open_store(settings) as store:
        for stored in list(store.list(f"{topic}/{topic}/")):
            if ".rewrite-" in stored.key:
                store.delete(stored.key)
        for key, content in contents.items():
            if key not in {it.key for it in store.list(key)}:
                store.put(key, content, crc32c(content), old[key] or {})
    checked = run_secor("verify", str(config))
    assert checked.returncode == 5
    assert "erased, and there again" in checked.stdout
    looked = ("archive", "erase", str(config), "--topic", topic, "--keys", str(keys), "--dry-run")
    alone = run_secor(*looked, "--json")
    on_spark = run_secor(*looked, "--json", "--master", "local[2]")
    assert json.loads(alone.stdout)["messages"] > 0
    assert (on_spark.returncode, on_spark.stdout) == (0, alone.stdout), on_spark.stderr
    kept = {b"key-%d" % number for number in range(EACH) if number % 3}
    kept -= {b"key-1", b"key-10", b"key-1000"}
    shown = run_secor("cat", str(config), topic).stdout.splitlines()
    later = [row for row in map(json.loads, shown) if row["offset"] * PARTITIONS >= EACH]
    assert len(shown) == len(kept) + 100
    assert len(later) == 100
    assert {row["key"].encode() for row in map(json.loads, shown) if row not in later} == kept

    job = tmp_path / "restore.toml"
    job.write_text(
        restore_job(
            sandbox,
            {
                "group": {"name": "forgetful-again", "kind": "restore"},
                "source": {"prefix": topic, "topics": [topic]},
                "target": {"topic": "again-{topic}"},
            },
            about="A restore.",
        )
    )
    restored = run_secor("restore", "run", str(job))
    assert restored.returncode == 0, restored.stdout + restored.stderr
    consumer = KafkaConsumer(
        f"again-{topic}",
        bootstrap_servers=sandbox.kafka,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    found: list[bytes | None] = []
    while len(found) < len(shown):
        for records in consumer.poll(500).values():
            found += [record.key for record in records]
    consumer.close()
    later_keys = {b"key-%d" % number for number in range(EACH, EACH + 100) if number % 3}
    assert {key for key in found if key is not None} == kept | later_keys
    assert len(found) == len(shown)

    # Erased again, nothing is left of what came back.
    again = run_secor("archive", "erase", str(config), "--topic", topic, "--keys", str(keys))
    assert again.returncode == 0, again.stdout + again.stderr
    assert run_secor("verify", str(config)).returncode == 0


def test_daemons_of_a_partition_group_leave_listed_keys_out(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "forgetful-parts"
    create_topic(sandbox, topic, 1)
    config = write_config(
        tmp_path,
        sandbox,
        group=topic,
        topic=topic,
        ledger="kafka",
        settings={
            "group": {"kind": "partition"},
            "output": {"format": "jsonlines", "codec": "none"},
            "erase": {"apply": True, "secret": "the secret of this test"},
        },
        more='[parser]\ntime_field = "none"\nlayout = "all"\nmax_bad_ratio = "none"\n',
    )

    def produced(numbers: range) -> None:
        producer = KafkaProducer(bootstrap_servers=sandbox.kafka)
        for number in numbers:
            value = b'{"number": %d}' % number if number % 9 else b"no JSON"
            producer.send(topic, key=b"key-%d" % (number % 30), value=value)
        producer.flush()
        producer.close()

    produced(range(100))
    running = start(config, tmp_path / "run.log")
    wait_until(lambda: committed(config, topic, 1) == 100, "all messages stored")
    assert running.stop() == 0
    keys = tmp_path / "keys.txt"
    keys.write_text("key-9\nkey-11\n")
    noted = run_secor(
        "archive", "erase", str(config), "--topic", topic, "--keys", str(keys), "--note"
    )
    # Of key-9 the numbers 9 and 99 are no JSON: they are in quarantine, and stay there.
    assert noted.returncode == 5, noted.stdout + noted.stderr
    assert "2 messages of the list in quarantine" in noted.stderr
    produced(range(100, 200))
    running = start(config, tmp_path / "again.log")
    wait_until(lambda: committed(config, topic, 1) == 200, "the others stored")
    gone = [number for number in range(100, 200) if number % 30 in (9, 11)]
    assert running.total("secor_erased_total") == len(gone)
    assert running.stop() == 0
    settings = load(config, {})
    with open_store(settings) as store:
        lines = [
            line
            for stored in store.list(f"{topic}/{topic}/")
            if stored.key.endswith(".json") and "/_" not in stored.key
            for line in store.open(stored.key).read().splitlines()
        ]
    found = {json.loads(line)["number"] for line in lines}
    assert found == {number for number in range(200) if number % 9} - set(gone)
    # Those below 100 were stored before, and a partition group's own objects are not rewritten.
    checked = run_secor("verify", str(config))
    assert checked.returncode == 5, checked.stdout
    assert "erased, and there again" in checked.stdout
    assert "missing" not in checked.stdout.replace("nothing missing", "")
