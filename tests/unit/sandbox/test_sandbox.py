"""What the sandbox decides and writes before any server starts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from secor.core.errors import ConfigurationError
from secor.sandbox.catalogs import IcebergRestServer, PostgreSqlServer, environment_name
from secor.sandbox.first_steps import try_out
from secor.sandbox.kafka import broker_settings, new_id, with_cluster_id
from secor.sandbox.s3 import S3ProxyServer
from secor.sandbox.sandbox import Sandbox, quiet
from secor.sandbox.state import (
    STATE_FILE,
    SandboxPlan,
    load_plan,
    new_plan,
    save_plan,
    with_catalog,
)
from secor.sandbox.zookeeper import ZooKeeperServer


def plan(**fields: object) -> SandboxPlan:
    arguments: dict[str, object] = {
        "services": ("kafka", "zookeeper", "s3"),
        "s3_server": "s3proxy",
        "zookeeper_tick": 500,
        "kafka_settings": {"message.max.bytes": 7},
    }
    services = {**arguments, **fields}
    return new_plan(**services)  # type: ignore[arg-type]


def test_a_plan_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    written = plan()
    save_plan(written, tmp_path)
    assert load_plan(tmp_path) == written


def test_a_folder_without_a_plan_has_no_sandbox(tmp_path: Path) -> None:
    assert load_plan(tmp_path) is None
    with pytest.raises(ConfigurationError, match="there is no sandbox in"):
        Sandbox.of(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"services": ["s3"], "colour": 1}'])
def test_a_spoilt_plan_is_named_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE_FILE).write_text(text)
    with pytest.raises(ConfigurationError, match=STATE_FILE):
        load_plan(tmp_path)


def test_every_server_has_a_port_of_its_own() -> None:
    ports = plan().ports
    assert sorted(ports) == ["kafka", "kafka_controller", "s3", "zookeeper"]
    assert len(set(ports.values())) == 4


@pytest.mark.parametrize("fields", [{"services": ("redis",)}, {"s3_server": "minio"}])
def test_an_unknown_server_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="is called"):
        plan(**fields)


def test_a_cluster_gets_ids_of_its_own() -> None:
    meta = "#\n#Sat Nov 21\ncluster.id=old\ndirectory.id=old\nnode.id=1\nversion=1\n"
    ours = dict(line.split("=") for line in with_cluster_id(meta, "new").splitlines())
    assert ours.pop("directory.id") not in {"", "old"}
    assert ours == {"cluster.id": "new", "node.id": "1", "version": "1"}


def test_ids_are_as_long_as_kafka_wants_them() -> None:
    assert {len(new_id()) for _ in range(100)} == {22}


def test_the_broker_listens_on_the_loopback_address_only() -> None:
    settings = broker_settings(data=Path("data"), port=1, controller_port=2)
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:1"


def test_zookeepers_configuration_has_its_tick_and_address() -> None:
    server = ZooKeeperServer(folder=Path("zk"), log=Path("log"), port=5, tick=250)
    lines = server.configuration().splitlines()
    assert {"tickTime=250", "clientPort=5", "clientPortAddress=127.0.0.1"} <= set(lines)


def test_settings_of_a_plan_go_over_ours() -> None:
    where: dict[str, Any] = {"folder": Path("f"), "log": Path("log"), "port": 5}
    settings: dict[str, object] = {"tickTime": 7, "secureClientPort": 6}
    zookeeper = ZooKeeperServer(**where, tick=250, settings=settings).configuration()
    assert {"tickTime=7", "secureClientPort=6"} <= set(zookeeper.splitlines())
    settings = {"s3proxy.secure-endpoint": "https://127.0.0.1:6"}
    s3 = S3ProxyServer(**where, progress=quiet, settings=settings).configuration()
    assert "s3proxy.secure-endpoint=https://127.0.0.1:6" in s3.splitlines()


def test_the_s3_server_checks_credentials() -> None:
    server = S3ProxyServer(folder=Path("s3"), log=Path("log"), port=5, progress=quiet)
    lines = server.configuration().splitlines()
    assert {"s3proxy.authorization=aws-v2-or-v4", "s3proxy.endpoint=http://127.0.0.1:5"} <= set(
        lines
    )


def test_a_catalog_is_added_to_a_plan_with_a_port_and_stays() -> None:
    before = plan()
    assert with_catalog(before, "sqlite") == before
    rest = with_catalog(before, "rest")
    assert rest.services == (*before.services, "rest")
    assert rest.ports["rest"] not in before.ports.values()
    assert with_catalog(rest, "rest") == rest
    back = with_catalog(rest, "sqlite")
    assert (back.catalog, back.services) == ("sqlite", rest.services)
    with pytest.raises(ConfigurationError, match="no catalog is called oracle"):
        with_catalog(before, "oracle")


@pytest.mark.parametrize("catalog", ["sqlite", "rest", "postgresql"])
def test_the_configuration_of_a_table_group_names_the_sandbox_s_catalog(
    tmp_path: Path, catalog: str
) -> None:
    sandbox = Sandbox(tmp_path, with_catalog(plan(), catalog))
    given = tomllib.loads(try_out(sandbox, "table"))
    properties = given["catalog"]["properties"]
    assert properties == sandbox.catalog
    port = sandbox.plan.ports.get(catalog)
    expected = {
        "sqlite": f"sqlite:///{tmp_path / 'catalog.db'}",
        "rest": f"http://127.0.0.1:{port}",
        "postgresql": f"postgresql+psycopg2://secor@127.0.0.1:{port}/postgres",
    }
    assert properties["uri"] == expected[catalog]
    assert re.fullmatch(given["kafka"]["topics_exclude"], "secor-control-try-table")


def test_the_rest_server_takes_properties_by_its_environment() -> None:
    assert environment_name("s3.access-key-id") == "CATALOG_S3_ACCESS__KEY__ID"
    sandbox = Sandbox(Path("somewhere"), with_catalog(plan(), "rest"))
    server = sandbox.servers["rest"]
    assert isinstance(server, IcebergRestServer)
    given = server.environment()
    assert given["CATALOG_WAREHOUSE"] == "s3://secor/warehouse"
    assert given["CATALOG_S3_ENDPOINT"] == f"http://{sandbox.servers['s3'].address}"
    assert given["CATALOG_REST_PORT"] == str(server.port)


def test_postgresql_is_somebody_else_where_we_are_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = PostgreSqlServer(folder=tmp_path, log=tmp_path / "log", port=5)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/PG_VERSION").touch()  # made already
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    plain = server.command()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert server.command() == [
        *("/usr/bin/unshare", "--user", "--map-user=1000", "--map-group=1000"),
        *plain,
    ]
    assert "--listen_addresses=127.0.0.1" in plain
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(ConfigurationError, match="refuses to run as root"):
        server.command()


def test_a_missing_package_of_postgresql_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secor.sandbox.catalogs.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="sandbox-postgresql"):
        PostgreSqlServer(folder=tmp_path, log=tmp_path / "log", port=5).command()
