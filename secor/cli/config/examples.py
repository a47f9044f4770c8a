"""``secor config example`` and ``init``: configurations and other files to begin with."""

from __future__ import annotations

import json
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import click

from secor.config.load import report_faults, validate, validate_as
from secor.config.restore import RestoreConfig
from secor.core.errors import ConfigurationError

FOLDERS = ("config", "systemd")
"""The folders of examples, in the package and in the tree."""


def examples() -> dict[str, Traversable]:
    """Return the example files by their paths, such as ``config/backup.toml``."""
    return {name: file for folder in FOLDERS for name, file in _below(_folder(folder), folder)}


def _folder(name: str) -> Traversable:
    package = resources.files("secor") / "examples" / name
    # In a checkout they are next to the package.
    return package if package.is_dir() else Path(__file__).parents[3] / name


def _below(folder: Traversable, name: str) -> list[tuple[str, Traversable]]:
    files = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        path = f"{name}/{entry.name}"
        files += _below(entry, path) if entry.is_dir() else [(path, entry)]
    return files


@click.command(epilog="Example: secor config example --full backup -o backup.toml")
@click.argument("name", required=False)
@click.option("--full", is_flag=True, help="A configuration with every key, its text and default.")
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    help="Write to this new file instead of printing; an existing file is not overwritten.",
)
def example(name: str | None, full: bool, output: Path | None) -> None:
    """Print the example file NAME, or without NAME a list of all of them.

    There are configurations with what must be set, service units, alert rules, a dashboard, and a
    manifest for Kubernetes.
    """
    known = examples()
    if full:
        write(_full(name), output)
        return
    if name is None:
        for path in known:
            click.echo(path)
        return
    names = (name, f"{name}.toml")
    matching = [
        path
        for path in known
        if path in names or path.endswith(tuple(f"/{word}" for word in names))
    ]
    if len(matching) != 1:
        raise ConfigurationError(f"no example {name!r}: secor config example lists all")
    write(known[matching[0]].read_text("utf-8"), output)


def _full(name: str | None) -> str:
    """Return a configuration with every key.  Raises ``ConfigurationError``."""
    from secor.config.examples import EXAMPLES, full_example

    chosen = (name or "").removeprefix("config/").removesuffix(".toml")
    if chosen not in EXAMPLES:
        raise ConfigurationError(f"--full is for configurations: {', '.join(EXAMPLES)}")
    return full_example(chosen)


@click.command(
    epilog="\b\nExample: secor config init --kind backup --kafka kafka-1:9092"
    " --topics clicks,orders --bucket logs -o backup.toml"
)
@click.option(
    "--kind",
    type=click.Choice(["backup", "partition", "table", "restore"]),
    default="backup",
    show_default=True,
    help="Kind of group; restore is a job that writes an archive back into Kafka.",
)
@click.option("--name", help="The consumer group.  Default: secor_KIND.")
@click.option(
    "--kafka", default="localhost:9092", show_default=True, help="Brokers, comma-separated."
)
@click.option(
    "--topics",
    help="Topics, comma-separated; default: all but _*.  Required for restore.",
)
@click.option(
    "--ledger",
    type=click.Choice(["zookeeper", "kafka"]),
    default="zookeeper",
    show_default=True,
    help="Where committed offsets are kept.",
)
@click.option(
    "--zookeeper",
    default="localhost:2181",
    show_default=True,
    help="ZooKeeper servers, comma-separated.",
)
@click.option(
    "--bucket",
    help="S3 bucket, gs://bucket, or abfss://container@account for Azure.",
)
@click.option("--endpoint", help="Address of an S3 server other than Amazon's.")
@click.option("--directory", help="A directory instead of a bucket, for trials.")
@click.option(
    "--catalog", help="For a table group: address of a REST catalog, or a file for SQLite."
)
@click.option(
    "--warehouse",
    help="For a table group: location of new tables.  Default: warehouse in the store.",
)
@click.option("--prefix", help="For a restore: output.prefix of the archive.  Default: backup.")
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    help="Write to this new file instead of printing; an existing file is not overwritten.",
)
def init(
    kind: str,
    name: str | None,
    kafka: str,
    topics: str | None,
    ledger: str,
    zookeeper: str,
    bucket: str | None,
    endpoint: str | None,
    directory: str | None,
    catalog: str | None,
    warehouse: str | None,
    prefix: str | None,
    output: Path | None,
) -> None:
    """Print a configuration to begin with, for the servers that the options name.

    Put passwords into the environment, such as SECOR_STORE__S3__SECRET_KEY.
    """
    if (bucket is None) == (directory is None):
        raise click.UsageError("give --bucket, or --directory")
    for option, value, own in (
        ("--catalog", catalog, "table"),
        ("--warehouse", warehouse, "table"),
        ("--prefix", prefix, "restore"),
    ):
        if value is not None and kind != own:
            raise click.UsageError(f"{option} is for --kind {own}")
    tree: dict[str, dict[str, Any]] = {
        "group": {"name": name or f"secor_{kind}", "kind": kind},
        "kafka": {"bootstrap_servers": _brokers(kafka)},
    }
    if kind == "restore":
        if not topics:
            raise click.UsageError("give --topics: a restore names its topics")
        tree["source"] = {"prefix": prefix or "backup", "topics": _listed(topics)}
    else:
        tree |= _reading(tree["kafka"], topics, ledger, zookeeper)
    tree |= _store(bucket, endpoint, directory)
    if kind == "partition":
        tree["output"] = {"format": "parquet", "metadata_columns": ["_partition", "_offset"]}
        tree["parser"] = {"decoder": "json", "layout": "dt={time:%Y-%m-%d}/hr={time:%H}"}
    if kind == "table":
        place = _address(bucket) if bucket else f"file://{Path(directory or '').resolve()}"
        tree |= _tables(catalog or "catalog.db", warehouse or f"{place}/warehouse")
    write(_rendered(tree, kind), output)


def _brokers(text: str) -> list[str]:
    """Return the servers of ``--kafka``; a forgotten port is likelier than the usual one meant."""
    servers = _listed(text)
    for server in servers:
        if not server.rpartition(":")[2].isdecimal():
            raise click.UsageError(f"--kafka {server}: add the port, such as {server}:9092")
    return servers


def _address(bucket: str) -> str:
    """Return the URI of what ``--bucket`` names."""
    if "://" not in bucket:
        return f"s3://{bucket}"
    address = bucket.rstrip("/")
    container, separator, host = address.partition("@")
    if separator and "." not in host:
        return f"{container}@{host}.dfs.core.windows.net"
    return address


def _store(
    bucket: str | None, endpoint: str | None, directory: str | None
) -> dict[str, dict[str, Any]]:
    """Return the sections of the store."""
    if bucket is None:
        return {"store": {"kind": "local"}, "store.local": {"directory": directory}}
    scheme, _, place = bucket.rpartition("://")
    own: dict[str, Any] = {"endpoint_url": endpoint} if endpoint else {}
    if scheme == "gs":
        return {"store": {"kind": "gcs"}, "store.gcs": {"bucket": place.strip("/"), **own}}
    if scheme in ("abfs", "abfss"):
        container, _, host = place.strip("/").partition("@")
        account = {"account": host.partition(".")[0], "container": container}
        return {"store": {"kind": "azure"}, "store.azure": {**account, **own}}
    if endpoint:
        own["path_style"] = True
    return {"store.s3": {"bucket": bucket, **own}}


def _reading(
    kafka: dict[str, Any], topics: str | None, ledger: str, zookeeper: str
) -> dict[str, dict[str, Any]]:
    """Return the sections of a group that reads topics."""
    if topics:
        chosen: dict[str, Any] = {"topics": _listed(topics)}
    else:
        chosen = {"topics_pattern": ".*", "topics_exclude": "_.*"}
    sections: dict[str, dict[str, Any]] = {"kafka": kafka | chosen, "ledger": {"kind": ledger}}
    if ledger == "zookeeper":
        sections["ledger.zookeeper"] = {"hosts": _listed(zookeeper)}
    return sections


def _tables(catalog: str, warehouse: str) -> dict[str, dict[str, Any]]:
    """Return the sections of a table group: a table for each topic."""
    if catalog.startswith(("http://", "https://")):
        properties = {"type": "rest", "uri": catalog}
    else:
        properties = {"type": "sql", "uri": f"sqlite:///{Path(catalog).resolve()}"}
    return {
        "parser": {"decoder": "json"},
        "catalog.properties": {**properties, "warehouse": warehouse},
        "rows": {"metadata_columns": ["_topic", "_kafka_partition", "_offset"]},
        "[tables]": {"table": "logs.{topic}", "auto_create": True, "evolve": True},
    }


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _rendered(tree: dict[str, dict[str, Any]], kind: str) -> str:
    """Return it as TOML.  Raises ``ConfigurationError`` when it is not valid."""
    import tomllib

    sections = [
        "\n".join([f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())])
        for name, keys in tree.items()
    ]
    about = (
        f"# 'secor config explain KEY' explains a key, 'secor config example --full {kind}' all."
    )
    text = "\n\n".join([about, *sections]) + "\n"
    tree_of_text = tomllib.loads(text)
    if kind == "restore":
        faults = validate_as(RestoreConfig, tree_of_text)[1]
    else:
        faults = validate(tree_of_text)[1]
    if faults:
        raise ConfigurationError(report_faults("these options", faults))
    return text


def write(text: str, output: Path | None) -> None:
    """Print, or write a new file.  Raises ``ConfigurationError``."""
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigurationError(f"{output} exists: name another file, or delete it") from error
    except OSError as error:
        raise ConfigurationError(f"{output}: cannot be written ({error.strerror})") from error
