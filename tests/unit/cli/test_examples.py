"""``secor config example`` and ``init``."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pyarrow as pa
import pytest

from secor.cli import main
from secor.cli.exit_codes import Exit
from secor.cli.restore.options import load_job
from secor.cli.tables.options import TABLE
from secor.cli.topic_type import TOPIC
from secor.config.load import load
from secor.tables.catalog import NewTable
from secor.wiring.table_catalogs import open_tables
from secor.wiring.table_routes import check_new_table

ROOT = Path(__file__).parents[3]


def test_every_file_of_the_folders_is_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["config", "example"]) == 0
    shown = capsys.readouterr().out.splitlines()
    files = [path for name in ("config", "systemd") for path in (ROOT / name).rglob("*")]
    assert set(shown) == {str(path.relative_to(ROOT)) for path in files if path.is_file()}


@pytest.mark.parametrize("name", ["config/backup.toml", "backup.toml", "systemd/secor@.service"])
def test_an_example_is_printed_or_written(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = (ROOT / (name if "/" in name else f"config/{name}")).read_text()
    assert main.run(["config", "example", name]) == 0
    assert capsys.readouterr().out == expected
    target = str(tmp_path / "copy")
    assert main.run(["config", "example", name, "-o", target]) == 0
    assert Path(target).read_text() == expected
    assert main.run(["config", "example", name, "-o", target]) == Exit.CONFIGURATION


def test_an_unknown_example_is_told_where_the_known_ones_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["config", "example", "x.toml"]) == Exit.CONFIGURATION
    assert "secor config example lists all" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["backup", "partition", "table"])
@pytest.mark.parametrize(
    "options",
    [
        ("--bucket", "logs", "--topics", "clicks, orders", "--endpoint", "http://s3:9000"),
        ("--directory", "/tmp/archive", "--ledger", "kafka", "--name", "mine"),
    ],
)
def test_a_configuration_to_begin_with_is_valid(
    kind: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "new.toml"
    given = ["--kind", kind, "--kafka", "k-1:9092,k-2:9092", *options, "-o", str(path)]
    assert main.run(["config", "init", *given]) == 0
    config = load(path, {})
    assert config.group.kind == kind
    assert config.kafka.bootstrap_servers == ("k-1:9092", "k-2:9092")
    if kind == "partition":
        assert config.output.metadata_columns == ("_partition", "_offset")
    if kind == "table":
        check_new_table(config.tables[0])
        place = "s3://logs" if "--bucket" in options else "file:///tmp/archive"
        assert config.catalog.properties["warehouse"] == f"{place}/warehouse"
    if "--bucket" in options:
        assert config.kafka.topics == ("clicks", "orders")
        assert config.store.s3.path_style
    else:
        assert re.fullmatch(config.kafka.topics_pattern or "", "clicks")
        assert (config.group.name, config.ledger.kind) == ("mine", "kafka")


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--bucket", "b", "--directory", "d"),
        ("--bucket", "s3://b"),
        ("--bucket", "b", "--kafka", "a b"),
        ("--bucket", "b", "--kafka", "k-1:9092,nohost"),
        ("--bucket", "b", "--catalog", "catalog.db"),
        ("--bucket", "b", "--kind", "restore"),
        ("--bucket", "b", "--kind", "table", "--prefix", "x"),
        ("--bucket", "abfss://b"),
    ],
)
def test_options_that_make_no_configuration_are_refused(options: tuple[str, ...]) -> None:
    assert main.run(["config", "init", *options]) == Exit.CONFIGURATION


@pytest.mark.parametrize(
    ("bucket", "kind", "place"),
    [
        ("gs://logs", "gcs", "logs"),
        ("abfss://logs@acme", "azure", "acme/logs"),
        ("abfss://logs@acme.dfs.core.windows.net/", "azure", "acme/logs"),
    ],
)
def test_the_address_of_a_bucket_says_in_which_cloud_it_is(
    bucket: str, kind: str, place: str, tmp_path: Path
) -> None:
    path = tmp_path / "c.toml"
    assert main.run(["config", "init", "--bucket", bucket, "-o", str(path)]) == 0
    store = load(path, {}).store
    assert (store.kind, store.place) == (kind, place)


@pytest.mark.parametrize(
    ("bucket", "warehouse"),
    [
        ("logs", "s3://logs/warehouse"),
        ("gs://logs", "gs://logs/warehouse"),
        ("abfss://logs@acme", "abfss://logs@acme.dfs.core.windows.net/warehouse"),
    ],
)
def test_tables_to_begin_with_are_beside_the_group_s_objects(
    bucket: str, warehouse: str, tmp_path: Path
) -> None:
    path = tmp_path / "c.toml"
    options = ["--kind", "table", "--bucket", bucket, "-o", str(path)]
    assert main.run(["config", "init", *options]) == 0
    assert load(path, {}).catalog.properties["warehouse"] == warehouse


def test_topics_of_the_configuration_are_completed(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    assert main.run(["config", "init", "--bucket", "b", "--topics", "a,ab,b", "-o", str(path)]) == 0
    context = click.Context(main.cli)
    context.params = {"config": path}
    argument = click.Argument(["topic"])
    assert [item.value for item in TOPIC.shell_complete(context, argument, "a")] == ["a", "ab"]
    context.params = {"config": tmp_path / "absent.toml"}
    assert TOPIC.shell_complete(context, argument, "a") == []
    context.params = {}
    assert TOPIC.shell_complete(context, argument, "a") == []


def test_a_restore_to_begin_with_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    options = ["--kind", "restore", "--bucket", "b", "--topics", "a,b", "--prefix", "raw"]
    assert main.run(["config", "init", *options, "-o", str(path)]) == 0
    job = load_job(path)
    assert (job.source.prefix, job.source.topics) == ("raw", ("a", "b"))


def test_tables_are_completed_from_the_configuration_and_the_catalog(tmp_path: Path) -> None:
    path = tmp_path / "table.toml"
    options = ["--kind", "table", "--directory", str(tmp_path), "--topics", "a"]
    catalog = ["--catalog", str(tmp_path / "catalog.db")]
    assert main.run(["config", "init", *options, *catalog, "-o", str(path)]) == 0
    with path.open("a") as file:
        file.write('\n[[tables]]\ntable = "db.fixed"\n')
    tables, _ = open_tables(load(path, {}))
    tables.create_table("logs.clicks", NewTable(pa.schema([pa.field("id", pa.int64())])))
    context = click.Context(main.cli)
    context.params = {"config": path}
    argument = click.Argument(["table"])

    def complete(text: str) -> list[str]:
        return [item.value for item in TABLE.shell_complete(context, argument, text)]

    assert complete("") == ["db.fixed", "logs.clicks"]
    assert complete("logs.") == ["logs.clicks"]
    context.params = {"config": tmp_path / "absent.toml"}
    assert complete("") == []
