"""Actions for complete partitions, as the configuration orders them."""

from __future__ import annotations

from secor.archive.finalize.commands import PartitionCommandLine, names_and_values
from secor.archive.finalize.finalizer import Action, Leaf
from secor.archive.finalize.periods import Periods
from secor.config.model import Config
from secor.parsing.layout import Layout
from secor.parsing.zones import Zone
from secor.wiring.clients import clear


def periods_for(config: Config, topic: str) -> Periods:
    """Return how the times of a topic's output partitions are read.

    Raises ``ConfigurationError`` where nothing has them.
    """
    parser = config.for_topic(topic).parser
    return Periods(Layout(parser.layout, Zone(parser.time_zone)))


def has_message_times(config: Config, topic: str) -> bool:
    """Return whether a topic's output partitions are about times at all."""
    parser = config.for_topic(topic).parser
    return parser.plugin is None and Layout(parser.layout, Zone(parser.time_zone)).needs_time


def actions_for(config: Config, topic: str) -> list[Action]:
    """Return what to do for each complete output partition.  Raises ``ConfigurationError``."""
    settings = config.finalize
    actions: list[Action] = []
    if settings.command is not None:
        actions.append(
            PartitionCommandLine(settings.command, base=base_url(config), timeout=settings.timeout)
        )
    if settings.glue.database is not None:
        actions.append(_glue(config, settings.glue.database, topic))
    return actions


def base_url(config: Config) -> str:
    """Return the URL in front of every key."""
    store = config.store
    if store.kind == "local":
        assert store.local.directory is not None
        return store.local.directory.absolute().as_uri()
    if store.kind == "gcs":
        return f"gs://{store.gcs.bucket}"
    if store.kind == "azure":
        return f"abfss://{store.azure.container}@{store.azure.account}.dfs.core.windows.net"
    return f"{config.finalize.scheme}://{store.s3.bucket}"


def _glue(config: Config, database: str, topic: str) -> Action:
    # Imported here: without Glue nobody pays for boto3.
    from secor.adapters.glue import GlueTable

    glue, s3 = config.finalize.glue, config.store.s3
    table = GlueTable(
        database,
        glue.table.replace("{topic}", topic),
        region=glue.region or s3.region,
        endpoint_url=glue.endpoint_url,
        access_key=s3.access_key,
        secret_key=clear(s3.secret_key),
        session_token=clear(s3.session_token),
        profile=s3.profile,
    )
    base = base_url(config)

    def add(leaf: Leaf) -> None:
        table.add(names_and_values(leaf.output_partition), f"{base}/{leaf.key}/")

    return add
