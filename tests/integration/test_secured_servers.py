"""Brokers, ZooKeeper and S3 behind TLS, passwords and ACLs: what works, and what is told."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import admin as judges
from kafka.admin import ACLOperation, ResourceType
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from secor.adapters.kafka import KafkaReader
from secor.adapters.kafka.cluster_admin import (
    Quota,
    create_access_rules,
    read_access_rules,
    read_quotas,
    set_quotas,
)
from secor.adapters.zookeeper.options import Options
from secor.adapters.zookeeper.session import Session
from secor.cli.main import run
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import AccessDenied, ConfigurationError, Unavailable
from secor.core.model import TopicPartition
from secor.sandbox.state import free_port
from secor.wiring.clients import kafka_options, open_ledger_for_operator, open_reader
from secor.wiring.table_coordination import check_control_topic, check_election
from tests.contracts.kafka_group import Broker
from tests.integration import restore_rights, secured, tokens_for_tests
from tests.integration.daemons import (
    PATIENCE,
    Daemon,
    Start,
    committed,
    create_topic,
    daemons,
    produce,
    wait_until,
    write_config,
)
from tests.integration.restore_rights import RIGHTS, Right
from tests.integration.secured import HUSH, SASL_HUSH, SASL_USER, USER, Secured
from tests.integration.secured_settings import (
    WRONG,
    Change,
    bearer,
    by_address,
    in_plain_text,
    kafka,
    mutual,
    s3,
    usual,
    zookeeper,
)
from tests.integration.test_restore import PARTITIONS as RESTORED_PARTITIONS
from tests.integration.test_restore import fill

TOPIC, PARTITIONS, MESSAGES = "secured", 2, 1000
READ, DESCRIBE = ACLOperation.READ, ACLOperation.DESCRIBE
GROUPS = ("scram", "plain", "mutual", "bearer")
OWNED = "owned"
"""A group whose nodes in ZooKeeper are its user's already."""

BLIND, ALONE, CHANGED = "blind", "alone", "changed"
"""Users: one may describe the topic, but not read it; one may not use the group."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secured_servers = secured.start(tmp_path_factory.mktemp("secured"))
    with secured_servers.sandbox as sandbox:
        create_topic(sandbox, TOPIC, PARTITIONS)
        produce(sandbox, TOPIC, PARTITIONS, range(MESSAGES))
        # What docs/security.md calls the least: Read on the topics and on the group.
        topic, groups = (
            (ResourceType.TOPIC, TOPIC, READ),
            [(ResourceType.GROUP, group, READ) for group in (*GROUPS, OWNED)],
        )
        for user in (USER, "CN=client", tokens_for_tests.USER):
            secured.allow(sandbox, user, [topic, *groups])
        for user in (USER, BLIND, ALONE, CHANGED):
            secured.add_user(sandbox, user, HUSH)
        secured.allow(sandbox, BLIND, [(ResourceType.TOPIC, TOPIC, DESCRIBE), *groups])
        secured.allow(sandbox, ALONE, [topic])
        yield secured_servers


@pytest.fixture
def start() -> Iterator[Callable[[Path, Path], Daemon]]:
    with daemons() as start:
        yield start


@pytest.fixture
def written(servers: Secured, tmp_path: Path) -> Callable[..., Path]:
    """Write a configuration over SCRAM, digest and https, with changes to it."""

    def write(group: str, change: Change | None = None, ledger: str = "zookeeper") -> Path:
        settings = usual(servers)
        for section, keys in (change or {}).items():
            merged = {**settings.get(section, {}), **keys}
            settings[section] = {key: value for key, value in merged.items() if value is not None}
        if ledger == "kafka":
            del settings["ledger.zookeeper"]
        folder = tmp_path / group
        folder.mkdir(exist_ok=True)
        return write_config(
            folder, servers.sandbox, group=group, topic=TOPIC, ledger=ledger, settings=settings
        )

    return write


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_over_secured_servers_stores_everything(
    servers: Secured,
    written: Callable[..., Path],
    start: Callable[[Path, Path], Daemon],
    tmp_path: Path,
    group: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pair = servers.ours.issue("client")
    config = {
        "scram": lambda: written(group),
        "plain": lambda: written(
            group,
            {
                "kafka": {"sasl_mechanism": "PLAIN"},
                "ledger.zookeeper": {
                    "sasl_mechanism": "DIGEST-MD5",
                    "username": SASL_USER,
                    "password": SASL_HUSH,
                    "chroot": "/sasl",
                    # One that it may show, and need not.
                    "tls_certfile": str(pair),
                },
            },
        ),
        "mutual": lambda: written(group, mutual(servers, pair), "kafka"),
        "bearer": lambda: written(group, bearer(), "kafka"),
    }[group]()
    assert run(["doctor", str(config)]) == 0, capsys.readouterr()
    daemon = start(config, tmp_path / "log")
    wait_until(lambda: committed(config, TOPIC, PARTITIONS) == MESSAGES, "everything committed")
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.text()
    assert run(["verify", str(config)]) == 0
    assert "verified 1,000 messages" in capsys.readouterr().out
    assert "Traceback" not in daemon.text()
    if group == "scram":
        none_but_its_user_touches_the_nodes(servers)


def none_but_its_user_touches_the_nodes(servers: Secured) -> None:
    nobody = KazooClient(servers.sandbox.zookeeper)
    user = KazooClient(servers.sandbox.zookeeper, auth_data=[("digest", f"{USER}:{HUSH}")])
    with closing(Started(nobody)), closing(Started(user)):
        nodes = list(below(user, "/logs"))
        assert f"/logs/consumers/scram/offsets/{TOPIC}/0" in nodes
        for node in nodes:
            acls, _ = user.get_acls(node)
            assert [(one.id.scheme, one.id.id.partition(":")[0]) for one in acls] == [
                ("digest", USER)
            ]
            with pytest.raises(NoAuthError):
                nobody.set(node, b"0")
            with pytest.raises(NoAuthError):
                nobody.create(f"{node}/another", b"")


class Started:
    """A client that is ended whole."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        client.start()

    def close(self) -> None:
        self._client.stop()
        self._client.close()


def below(client: KazooClient, path: str) -> Iterator[str]:
    yield path
    for name in client.get_children(path):
        yield from below(client, f"{path}/{name}")


@pytest.fixture
def owned(written: Callable[..., Path]) -> None:
    """Make an entry of the group, as its user."""
    settings = load(written(OWNED), {})
    with open_ledger_for_operator(settings) as ledger:
        ledger.lease(TopicPartition(TOPIC, 0), PATIENCE).overwrite(0, None)


@pytest.mark.usefixtures("owned")
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_in_one_line_that_says_what_to_do(
    servers: Secured,
    written: Callable[..., Path],
    case: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change, code, words = WRONG[case]
    assert run(["verify", str(written(OWNED, change(servers)))]) == code
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith("secor: ")
    assert words in line
    assert HUSH not in line


@pytest.mark.usefixtures("owned")
def test_a_daemon_ends_at_once_with_what_waiting_cannot_mend(
    servers: Secured,
    written: Callable[..., Path],
    start: Callable[[Path, Path], Daemon],
    tmp_path: Path,
) -> None:
    cases = {
        "password": (kafka(sasl_plain_password="no"), 3, "sasl_plain_password"),
        "digest": (zookeeper(password="no"), 3, "NoAuth"),
        "authority": (s3(ca_bundle=str(servers.foreign.path)), 3, "ca_bundle"),
        "no TLS": (in_plain_text(), 2, "speaks TLS"),
        "topic": (kafka(sasl_plain_username=BLIND), 3, f"({TOPIC}); allow this user Read on them"),
        "group": (
            kafka(sasl_plain_username=ALONE),
            3,
            "owned); allow this user Read on the group",
        ),
    }
    running = {}
    for name, (change, _, _) in cases.items():
        settings = {**change, "local": {"directory": str(tmp_path / name)}}
        # Each in a folder of its own: they begin side by side.
        config = written(OWNED, settings).rename(tmp_path / f"{name}.toml")
        running[name] = start(config, tmp_path / f"{name}.log")
    for name, (_, code, words) in cases.items():
        assert running[name].wait() == code, running[name].text()
        (line,) = [it for it in running[name].text().splitlines() if it.startswith("secor: ")]
        assert words in line
        assert "Traceback" not in running[name].text()


def test_one_broker_that_refuses_is_no_hindrance_where_another_does_not(
    servers: Secured, written: Callable[..., Path]
) -> None:
    both = kafka(bootstrap_servers=[by_address(servers.sasl), servers.sasl])
    with open_reader(load(written(OWNED, both), {})) as reader:
        assert len(reader.partitions(TOPIC)) == PARTITIONS


def test_a_refusal_is_told_even_where_other_brokers_are_out(
    servers: Secured, written: Callable[..., Path]
) -> None:
    nobody = f"localhost:{free_port()}"
    out = kafka(bootstrap_servers=[servers.sasl, nobody], sasl_plain_password="no")
    options = kafka_options(load(written(OWNED, out), {}))
    with pytest.raises(AccessDenied, match="sasl_plain_password"):
        KafkaReader(options, timeout=10)


def test_a_password_that_is_changed_under_a_running_client_is_told(
    servers: Secured, written: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    config = load(written(OWNED, kafka(sasl_plain_username=CHANGED)), {})
    with open_reader(config):
        secured.add_user(servers.sandbox, CHANGED, "another")
        wait_until(lambda: "sasl_plain_password" in caplog.text, "the next connection refused")
    assert "trying again" in caplog.text


def test_the_doctor_finds_who_may_describe_a_topic_and_not_read_it(
    written: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    config = written("scram", kafka(sasl_plain_username=BLIND))
    assert run(["doctor", str(config)]) == 5
    faults = [it for it in capsys.readouterr().out.splitlines() if it.startswith("FAULT")]
    assert [re.split(" +", fault)[1] for fault in faults] == ["kafka"]
    assert "allow this user Read on them" in faults[0]


def test_who_may_not_describe_a_transactional_id_sees_its_producer(
    servers: Secured, written: Callable[..., Path]
) -> None:
    topic, name = "open-for-all", "writer-of-secrets"
    where, sandbox = TopicPartition(topic, 0), servers.sandbox
    create_topic(sandbox, topic, 1)
    secured.allow(sandbox, USER, [(ResourceType.TOPIC, topic, READ)])
    config = load(written("scram"), {})
    with (
        Broker(sandbox.kafka).open_transaction(topic, [b"secret"], name),
        open_reader(config) as reader,
    ):
        assert reader.log_range(where).withheld == 1
        seen = reader.open_transactions([where])[where]
        assert (seen.start_offset, seen.transactional_id, seen.since) == (0, None, None)
        assert seen.producer_id is not None
        assert seen.last_written is not None
        secured.allow(sandbox, USER, [(ResourceType.TRANSACTIONAL_ID, name, DESCRIBE)])

        def is_named() -> bool:
            return reader.open_transactions([where])[where].transactional_id == name

        wait_until(is_named, "the right to describe the transactional id")


def test_a_restore_names_each_right_that_is_missing(
    servers: Secured, tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "bucket"
    archive.mkdir()
    fill(archive, range(0, 3000, 1000))
    restore_rights.give(servers)

    def plan(right: Right) -> None:
        job = restore_rights.write_job(tmp_path, servers, right.without, archive)
        run(["restore", "plan", str(job)])
        said = "".join(capsys.readouterr())
        assert any(right.told in it and right.name in it for it in said.splitlines()), said

    for right in RIGHTS:
        if right.new:
            plan(right)
    slow = {"messages_per_second": 300, "max_messages": 100, "interval": "200ms"}
    job = restore_rights.write_job(tmp_path, servers, restore_rights.ALL, archive, **slow)
    daemon = start(job, tmp_path / "restore.log", ("restore", "run"))
    wait_until(lambda: '"assigned"' in daemon.text(), "the restore to begin")
    restore_rights.take(servers, RIGHTS[0])
    assert daemon.wait() == 5
    told = [json.loads(it) for it in daemon.text().splitlines() if it.startswith("{")]
    failed = [it for it in told if it["event"] == "failed"]
    assert 0 < len(failed) <= RESTORED_PARTITIONS, "it does not try again and again"
    assert all(RIGHTS[0].told in it["error"] for it in failed)
    for right in RIGHTS:
        if not right.new:
            plan(right)
    user = RIGHTS[0].without
    job = restore_rights.write_job(tmp_path, servers, user, archive, exactly_once="disabled")
    assert run(["restore", "plan", str(job)]) == 5, "it is not the job that was begun"
    said = capsys.readouterr().out
    assert "was begun under spec" in said
    assert "warn: writing.exactly_once: is disabled" in said
    assert said.count("refuse: ") == 1, "it needs no transactional ids"


def test_a_port_of_zookeeper_that_speaks_tls_or_not_is_told_of(servers: Secured) -> None:
    tls, plain = servers.zookeeper, servers.sandbox.zookeeper
    with pytest.raises(Unavailable, match=r"speaks TLS, set ledger\.zookeeper\.use_tls = true"):
        Session(Options(hosts=tls, connect_timeout=6))
    with pytest.raises(Unavailable, match="perhaps this port does not speak TLS"):
        Session(Options(hosts=plain, connect_timeout=6, use_tls=True, tls_ca=servers.ca))


@pytest.mark.parametrize(
    ("package", "change", "words"),
    [
        ("puresasl", zookeeper(sasl_mechanism="DIGEST-MD5"), "[zookeeper-sasl]'"),
        ("kerberos", zookeeper(sasl_mechanism="GSSAPI"), "pure-sasl[GSSAPI]"),
        ("gssapi", kafka(sasl_mechanism="GSSAPI"), "pip install gssapi"),
    ],
)
def test_a_package_that_is_missing_is_named_with_how_to_install_it(
    written: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    package: str,
    change: Change,
    words: str,
) -> None:
    find = importlib.util.find_spec

    def without(name: str, parent: str | None = None) -> Any:
        return None if name == package else find(name, parent)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    assert run(["verify", str(written("scram", change))]) == 2
    assert words in capsys.readouterr().err


TABLES = "secured_tables"
CONTROL = f"secor-control-{TABLES}"
TABLE_RIGHTS = {
    "reads": (ResourceType.TOPIC, TOPIC, READ),
    "joins": (ResourceType.GROUP, TABLES, READ),
    "creates": (ResourceType.TOPIC, CONTROL, ACLOperation.CREATE),
    "hears": (ResourceType.TOPIC, CONTROL, READ),
    "announces": (ResourceType.TOPIC, CONTROL, ACLOperation.WRITE),
    "elects": (ResourceType.GROUP, CONTROL, READ),
}
"""What docs/security.md lists for ``secor tables run``, by the user who has not got it."""


def test_a_table_group_names_each_right_at_its_control_topic_that_is_missing(
    servers: Secured,
    written: Callable[..., Path],
    start: Start,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for user in ("tables", *TABLE_RIGHTS):
        rights = [right for name, right in TABLE_RIGHTS.items() if name != user]
        secured.add_user(servers.sandbox, user, HUSH)
        secured.allow(servers.sandbox, user, rights)

    def config_of(user: str) -> Path:
        text = written(TABLES, kafka(sasl_plain_username=user)).read_text()
        text = text.replace("[group]\n", '[group]\nkind = "table"\n')
        path = tmp_path / f"{user}.toml"
        path.write_text(
            f'{text}\n[commit]\ncoordinator = "alone"\n[parser]\ndecoder = "json"\n'
            f'[catalog.properties]\ntype = "sql"\nuri = "sqlite:///{tmp_path}/catalog.db"\n'
            f'warehouse = "file://{tmp_path}/warehouse"\n'
            '[[tables]]\ntable = "logs.secured"\nauto_create = true\n'
        )
        return path

    def refused(user: str, check: Callable[[Config, str], str]) -> str:
        with pytest.raises((AccessDenied, ConfigurationError)) as caught:
            check(load(config_of(user), {}), CONTROL)
        return str(caught.value)

    assert "allow this user Create on the topic" in refused("creates", check_control_topic)
    without = start(config_of("elects"), tmp_path / "elects.log", ("tables", "run"))
    run(["doctor", str(config_of("tables"))])
    told = capsys.readouterr().out
    assert re.search(f"^ok +control +{CONTROL}", told, re.MULTILINE), told
    assert re.search(f"^ok +election +the group {CONTROL} may be joined", told, re.MULTILINE), told
    wait_until(lambda: '"no_election"' in without.text(), "that it elects nobody")
    wait_until(lambda: '"coordinating"' in without.text(), "that it leads all the same")
    assert f"allow Read on the group {CONTROL}" in without.text()
    for user in ("hears", "announces"):
        assert "allow this user Read and Write on the topic" in refused(user, check_control_topic)
    assert f"allow this user Read on the group {CONTROL}" in refused("elects", check_election)
    without.send(signal.SIGTERM)
    assert without.wait() == 0


def test_a_backup_keeps_acls_and_quotas_that_it_may_see(servers: Secured) -> None:
    kafka = {"bootstrap_servers": servers.sandbox.kafka}
    secured.allow(servers.sandbox, "keeper", [(ResourceType.GROUP, "kept", ACLOperation.DESCRIBE)])
    quota = Quota((("client-id", None), ("user", "keeper")), {"producer_byte_rate": 4096.0})
    assert set_quotas(kafka, [quota]) == []
    # The controller answers before the broker that is asked next has applied the change.
    wait_until(lambda: quota in read_quotas(kafka), "the quota")
    wait_until(
        lambda: "User:keeper" in {it.principal for it in read_access_rules(kafka)}, "the ACL"
    )
    rules = read_access_rules(kafka)
    everything = judges.AclBindingFilter(
        judges.ResourceType.ANY,
        None,
        judges.ResourcePatternType.ANY,
        None,
        None,
        judges.AclOperation.ANY,
        judges.AclPermissionType.ANY,
    )
    judge = judges.AdminClient({"bootstrap.servers": servers.sandbox.kafka})
    bindings = judge.describe_acls(everything).result(timeout=30)
    assert len(rules) == len(bindings)
    assert {(it.name, it.principal, it.operation) for it in rules} == {
        (it.name, it.principal, it.operation.name) for it in bindings
    }
    assert create_access_rules(kafka, rules) == []
    assert read_access_rules(kafka) == rules
    secured.add_user(servers.sandbox, "stranger", HUSH)
    stranger = {
        "bootstrap_servers": servers.sasl,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "stranger",
        "sasl_plain_password": HUSH,
        "ssl_cafile": servers.ca,
    }
    with pytest.raises(AccessDenied, match="Describe on the cluster"):
        read_access_rules(stranger)
    with pytest.raises(AccessDenied, match="DescribeConfigs on the cluster"):
        read_quotas(stranger)
