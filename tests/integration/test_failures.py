"""What goes wrong around a running daemon, on real servers: outages, mistakes, topic accidents."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import kafka
import pytest
from kafka.admin import KafkaAdminClient
from kazoo.client import KazooClient

from secor.sandbox import Sandbox
from tests.faults.proxy import Fault, FaultProxy, Rule
from tests.integration.daemons import (
    PATIENCE,
    Daemon,
    Start,
    committed,
    create_topic,
    produce,
    run_secor,
    secor,
    wait_until,
    write_config,
)

PARTITIONS = 2

pytestmark = pytest.mark.slow


def done(*arguments: str) -> str:
    """Run ``secor ARGUMENTS``, which must succeed; return what it says."""
    answer = run_secor(*arguments)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def wait_for_all(config: Path, topic: str, total: int, daemon: Daemon) -> None:
    def reached() -> bool:
        assert daemon.process.poll() is None, daemon.text()
        time.sleep(0.4)  # every look is a new client of the ledger
        return committed(config, topic, PARTITIONS) == total

    wait_until(reached, f"{total} messages committed")


def failing(daemon: Daemon) -> list[str]:
    """Return the servers that fail, as the daemon tells."""
    servers = json.loads(daemon.page("/status.json"))["servers"]
    return [it["server"] for it in servers if it["answers"] is False]


def wait_for_failing(daemon: Daemon, server: str) -> None:
    wait_until(lambda: server in failing(daemon), f"{server} to fail")


def wait_for_answers(daemon: Daemon) -> None:
    wait_until(lambda: not failing(daemon), "all servers to answer")


def end(daemon: Daemon) -> None:
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.text()
    assert "Traceback" not in daemon.text()


# ------------------------------------------------------------------ outages


def test_zookeeper_may_restart_and_forget_the_session(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "failures-zookeeper"
    config = write_config(tmp_path, sandbox, group=topic, topic=topic, ledger="zookeeper")
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(2000))
    daemon = start(config, tmp_path / "log")
    wait_until(lambda: committed(config, topic, PARTITIONS) > 0, "a commit")
    server = sandbox.servers["zookeeper"]
    server.kill()
    wait_for_failing(daemon, "ZooKeeper")
    produce(sandbox, topic, PARTITIONS, range(2000, 4000))
    server.start()
    wait_for_answers(daemon)
    wait_for_all(config, topic, 4000, daemon)
    server.pause()
    produce(sandbox, topic, PARTITIONS, range(4000, 6000))
    time.sleep(5)  # longer than the session
    server.resume()
    wait_for_all(config, topic, 6000, daemon)
    end(daemon)
    assert "6,000 messages" in done("verify", str(config))


def test_the_broker_may_restart_with_the_ledger_in_it(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "failures-broker"
    config = write_config(tmp_path, sandbox, group=topic, topic=topic, ledger="kafka")
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(3000))
    daemon = start(config, tmp_path / "log")
    wait_until(lambda: committed(config, topic, PARTITIONS) > 0, "a commit")
    server = sandbox.servers["kafka"]
    wait_for_answers(daemon)
    assert "\nsecor_kafka_up 1.0\n" in daemon.page("/metrics")
    server.kill()
    wait_for_failing(daemon, "the Kafka brokers")
    assert "\nsecor_kafka_up 0.0\n" in daemon.page("/metrics")
    server.start()
    wait_for_answers(daemon)
    produce(sandbox, topic, PARTITIONS, range(3000, 6000))
    wait_for_all(config, topic, 6000, daemon)
    end(daemon)
    assert "6,000 messages" in done("verify", str(config))


def test_batches_wait_for_a_store_that_is_out(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "failures-outage"
    create_topic(sandbox, topic, PARTITIONS)
    with FaultProxy(sandbox.s3.endpoint_url) as proxy:
        config = write_config(
            tmp_path, sandbox, group=topic, topic=topic, ledger="zookeeper", endpoint_url=proxy.url
        )
        daemon = start(config, tmp_path / "log")
        produce(sandbox, topic, PARTITIONS, range(1000))
        wait_for_all(config, topic, 1000, daemon)
        proxy.outage = True
        produce(sandbox, topic, PARTITIONS, range(1000, 6000))
        wait_until(lambda: daemon.total("secor_retries_total") > 0, "an upload is tried again")
        wait_for_failing(daemon, "the object store")
        time.sleep(8)  # longer than the sessions
        assert committed(config, topic, PARTITIONS) == 1000
        proxy.outage = False
        wait_for_all(config, topic, 6000, daemon)
        wait_for_answers(daemon)
        end(daemon)
        assert "6,000 messages" in done("verify", str(config))


def test_a_storm_of_slow_down_only_takes_time(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "failures-slow-down"
    create_topic(sandbox, topic, PARTITIONS)
    with FaultProxy(sandbox.s3.endpoint_url) as proxy:
        config = write_config(
            tmp_path, sandbox, group=topic, topic=topic, ledger="zookeeper", endpoint_url=proxy.url
        )
        daemon = start(config, tmp_path / "log")
        produce(sandbox, topic, PARTITIONS, range(1000))
        wait_for_all(config, topic, 1000, daemon)
        proxy.set(Rule(Fault.SLOW_DOWN, probability=0.8, times=15))
        produce(sandbox, topic, PARTITIONS, range(1000, 4000))
        wait_for_all(config, topic, 4000, daemon)
        assert proxy.injected[Fault.SLOW_DOWN] > 0
        proxy.set()
        end(daemon)
        assert "4,000 messages" in done("verify", str(config))


# ----------------------------------------------------------------- mistakes


@pytest.fixture(scope="module")
def nobody() -> Iterator[str]:
    """An address that refuses connections: its port is taken, but not listened on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(scope="module")
def mistakes(sandbox: Sandbox, nobody: str) -> dict[str, tuple[int, str, str, str]]:
    """Return, by name, the exit code, a word of the message, and what to replace by what."""
    return {
        "an unknown setting": (
            2,
            "did you mean policy.max_messages",
            "max_messages",
            "max_mesages",
        ),
        "a missing bucket": (3, "no-such-bucket", 'bucket = "secor"', 'bucket = "no-such-bucket"'),
        "a wrong secret": (3, "access_key", sandbox.s3.secret_key, "wrong"),
        "no store": (0, "s3://secor", sandbox.s3.endpoint_url, f"http://{nobody}"),
        "no ZooKeeper": (0, nobody, sandbox.zookeeper, nobody),
        "no broker": (0, "kafka.bootstrap_servers", sandbox.kafka, nobody),
    }


@pytest.fixture(scope="module")
def mistaken(
    mistakes: dict[str, tuple[int, str, str, str]],
    sandbox: Sandbox,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Start ``secor run`` with every mistake, all at once: some only end after a timeout."""
    processes = {}
    for name, (_, _, right, wrong) in mistakes.items():
        config = write_config(
            tmp_path_factory.mktemp("mistake"),
            sandbox,
            group="failures-mistakes",
            topic="failures-mistakes",
            ledger="zookeeper",
        )
        text = config.read_text()
        assert right in text
        config.write_text(text.replace(right, wrong))
        processes[name] = subprocess.Popen(
            secor("run", str(config)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
    yield processes
    for process in processes.values():
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("mistaken")  # which take their time beside this one
def test_an_unknown_topic_is_told_and_waited_for(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "failures-unknown"
    config = write_config(tmp_path, sandbox, group=topic, topic=topic, ledger="zookeeper")
    daemon = start(config, tmp_path / "log")
    wait_until(lambda: f"topic {topic} does not exist" in daemon.text(), "a warning")
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(1000))
    wait_for_all(config, topic, 1000, daemon)
    end(daemon)


# ----------------------------------------------------------- topic accidents


def stopped(daemon: Daemon) -> list[dict[str, str]]:
    """Return what the log tells of stopped partitions."""
    lines = [line for line in daemon.text().splitlines() if '"event": "stopped"' in line]
    return [json.loads(line) for line in lines]


def delete_topic(sandbox: Sandbox, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=sandbox.kafka)
    admin.delete_topics([topic])
    wait_until(lambda: topic not in admin.list_topics(), "the topic deleted")
    admin.close()


@pytest.mark.parametrize("ledger", ["zookeeper", "kafka"])
def test_a_topic_made_again_stops_until_a_person_accepts_it(
    ledger: str, sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = f"failures-again-{ledger}"
    config = write_config(tmp_path, sandbox, group=topic, topic=topic, ledger=ledger)
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(1000))
    daemon = start(config, tmp_path / "log")
    wait_for_all(config, topic, 1000, daemon)
    delete_topic(sandbox, topic)
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(5000, 7000))
    wait_until(lambda: len(stopped(daemon)) >= PARTITIONS, "both partitions stopped")
    # With the Kafka ledger the deleted topic takes the entries along, sooner or later: then
    # there is nothing to accept.
    errors = [partition["error"] for partition in stopped(daemon)]
    accepts = [error for error in errors if "secor offsets accept" in error]
    assert ledger == "kafka" or accepts == errors
    assert all("raise output.generation" in error for error in errors if error not in accepts)
    end(daemon)
    text = config.read_text()
    config.write_text(text.replace("[output]", "[output]\ngeneration = 2"))
    if accepts:
        done("offsets", "accept", str(config), topic, "--yes")
    daemon = start(config, tmp_path / "log-2")
    wait_for_all(config, topic, 2000, daemon)
    end(daemon)
    assert "2,000 messages" in done("verify", str(config), "--generation", "2")


def cut_log(log: Path, size: int) -> None:
    """Cut a stopped broker's log, as a lost disk write or an unclean election does."""
    with (log / f"{0:020d}.log").open("r+b") as segment:
        segment.truncate(size)
    for index in (*log.glob("*.index"), *log.glob("*.timeindex")):
        index.unlink()
    (log.parent / ".kafka_cleanshutdown").unlink(missing_ok=True)


@pytest.mark.parametrize("ledger", ["zookeeper", "kafka"])
def test_a_log_that_was_cut_and_grew_again_stops_until_a_person_says_where_to_go_on(
    ledger: str, sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = f"failures-cut-{ledger}"
    config = write_config(tmp_path, sandbox, group=topic, topic=topic, ledger=ledger)
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(600))
    server = sandbox.servers["kafka"]
    log = sandbox.directory / "kafka" / "data" / f"{topic}-0"
    size = (log / f"{0:020d}.log").stat().st_size
    produce(sandbox, topic, PARTITIONS, range(600, 1000))
    daemon = start(config, tmp_path / "log")
    wait_for_all(config, topic, 1000, daemon)
    end(daemon)
    server.kill()
    cut_log(log, size)
    server.start()
    produce(sandbox, topic, PARTITIONS, range(1000, 2000))
    daemon = start(config, tmp_path / "log-2")
    wait_until(lambda: bool(stopped(daemon)), "the partition stopped")
    (fault,) = stopped(daemon)
    assert fault["reason"] == "log_diverged"
    assert fault["error"].startswith(f"{topic}/0: ")
    assert "from 300 on it has other messages" in fault["error"]
    assert "committed is 500" in fault["error"]
    said = re.search(
        r"'secor (offsets set) CONFIG (\S+ \d+ \d+) (--new-generation)'", fault["error"]
    )
    assert said is not None
    end(daemon)
    config.write_text(config.read_text().replace("[output]", "[output]\ngeneration = 2"))
    done("offsets", "set", str(config), *said[2].split(), said[3], "--yes")
    daemon = start(config, tmp_path / "log-3")
    wait_for_all(config, topic, 800 + 1000, daemon)
    end(daemon)
    assert not stopped(daemon)
    # From 300 on, partition 0 is stored anew; the other one went on.
    offsets = json.loads(done("offsets", "show", str(config), "--json"))["offsets"]
    assert [row["committed"] for row in offsets] == [800, 1000]


def test_what_retention_took_is_counted_and_the_rest_is_stored(
    sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = "failures-retention"
    config = write_config(tmp_path, sandbox, group=topic, topic=topic, ledger="zookeeper")
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(1000))
    daemon = start(config, tmp_path / "log")
    wait_for_all(config, topic, 1000, daemon)
    end(daemon)
    produce(sandbox, topic, PARTITIONS, range(1000, 3000))
    admin = KafkaAdminClient(bootstrap_servers=sandbox.kafka)
    admin.delete_records({kafka.TopicPartition(topic, 0): 700})
    admin.close()
    daemon = start(config, tmp_path / "log-2")
    wait_for_all(config, topic, 3000, daemon)
    assert daemon.total("secor_messages_lost_total") == 200
    assert '"messages_lost"' in daemon.text()
    end(daemon)
    # Of partition 0, what begins at 700; of partition 1 everything.
    assert "2,300 messages" in done("verify", str(config))


# -------------------------------------------------------------- the ledger


def forget(sandbox: Sandbox, ledger: str, group: str, topic: str) -> None:
    """Delete what the ledger knows of partition 0."""
    if ledger == "kafka":
        admin = KafkaAdminClient(bootstrap_servers=sandbox.kafka)
        admin.delete_group_offsets(group, [kafka.TopicPartition(topic, 0)])
        admin.close()
        return
    client = KazooClient(sandbox.zookeeper)
    client.start()
    client.delete(f"/consumers/{group}/offsets/{topic}/0")
    client.stop()
    client.close()


@pytest.mark.parametrize("ledger", ["zookeeper", "kafka"])
def test_an_operator_moves_and_recovers_offsets(
    ledger: str, sandbox: Sandbox, tmp_path: Path, start: Start
) -> None:
    topic = f"failures-offsets-{ledger}"
    config = write_config(tmp_path, sandbox, group=topic, topic=topic, ledger=ledger)
    create_topic(sandbox, topic, PARTITIONS)
    produce(sandbox, topic, PARTITIONS, range(2000))
    daemon = start(config, tmp_path / "log")
    wait_for_all(config, topic, 2000, daemon)
    end(daemon)

    refused = run_secor("offsets", "set", str(config), topic, "0", "0", "--yes")
    assert refused.returncode != 0
    assert "--delete-objects" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert committed(config, topic, PARTITIONS) == 2000
    done("offsets", "set", str(config), topic, "0", "0", "--delete-objects", "--yes")
    assert committed(config, topic, PARTITIONS) == 1000

    daemon = start(config, tmp_path / "log-2")
    wait_for_all(config, topic, 2000, daemon)
    end(daemon)
    forget(sandbox, ledger, topic, topic)
    daemon = start(config, tmp_path / "log-3")
    wait_until(lambda: len(stopped(daemon)) == 1, "partition 0 stopped")
    assert "secor offsets recover" in stopped(daemon)[0]["error"]
    end(daemon)
    assert "committed is 1000" in done("offsets", "recover", str(config), "--yes")
    produce(sandbox, topic, PARTITIONS, range(2000, 3000))
    daemon = start(config, tmp_path / "log-4")
    wait_for_all(config, topic, 3000, daemon)
    end(daemon)
    assert "3,000 messages" in done("verify", str(config))


# ------------------------------------------------------ mistakes, once more


@pytest.mark.parametrize("name", ["an unknown setting", "a missing bucket", "a wrong secret"])
def test_a_mistake_gets_one_clear_line_and_its_exit_code(
    name: str,
    mistakes: dict[str, tuple[int, str, str, str]],
    mistaken: dict[str, subprocess.Popen[str]],
) -> None:
    code, word, _, _ = mistakes[name]
    _, err = mistaken[name].communicate(timeout=PATIENCE)
    assert mistaken[name].returncode == code, err
    assert "Traceback" not in err
    # Before it there are log lines, in JSON; faults of a configuration follow it, indented.
    said = [line for line in err.splitlines() if not line.startswith("{")]
    assert [line[:7] for line in said if not line.startswith("  ")] == ["secor: "], err
    assert re.sub(r":\d+", ":", word) in re.sub(r":\d+", ":", "\n".join(said))


@pytest.mark.parametrize("name", ["no store", "no ZooKeeper", "no broker"])
def test_a_server_that_does_not_answer_is_waited_for_until_the_end(
    name: str,
    mistakes: dict[str, tuple[int, str, str, str]],
    mistaken: dict[str, subprocess.Popen[str]],
) -> None:
    code, word, _, _ = mistakes[name]
    process = mistaken[name]
    assert process.stderr is not None
    word = re.sub(r":\d+", ":", word)
    lines = []
    for line in process.stderr:
        lines.append(line)
        # An attempt may take longer than the first warning waits for.
        if '"event": "waiting"' in line and '"no answer yet"' not in line:
            break
    else:
        raise AssertionError(
            f"it ended without a warning, code {process.wait(PATIENCE)}: {''.join(lines)}"
        )
    assert word in re.sub(r":\d+", ":", line)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, rest
    assert "Traceback" not in rest
    assert '"event": "ended"' in rest
