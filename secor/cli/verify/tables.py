"""``secor verify`` for a group with tables: opens what a comparison reads, and prints it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from secor.cli.exit_codes import Exit
from secor.cli.open_archive import of_topic
from secor.cli.verify.engines import reading_by
from secor.cli.verify.state import verifying_states
from secor.config.model import Config
from secor.core.errors import ConfigurationError
from secor.core.model import TopicPartition
from secor.jobs.verify_tables import Engines, compare_tables
from secor.verify.finding import report_text

if TYPE_CHECKING:
    from secor.adapters.kafka import KafkaReader
    from secor.wiring.table_group import TableGroup


def verify_tables(
    config: Config,
    topics: tuple[str, ...],
    *,
    by: str | None = None,
    look_up: int | None = None,
    rows_only: bool,
    as_json: bool,
) -> int:
    """Compare tables with the log: ``by`` an engine that looks ``look_up`` values of each up.

    Prints what is wrong.  Returns the exit code.
    """
    from secor.wiring.clients import open_reader
    from secor.wiring.table_group import open_table_group

    with (
        open_table_group(config) as group,
        open_reader(config) as reader,
        reading_by(config, by) as engine,
    ):
        partitions = _partitions(group, reader, topics)
        engines = Engines(partial(verifying_states, config, reader), engine, look_up)
        verified = compare_tables(group, reader, partitions, engines, rows_only=rows_only)
    click.echo(report_text(verified, as_json=as_json))
    return Exit.OK if verified.is_right else Exit.DIFFERENT


def _partitions(
    group: TableGroup, reader: KafkaReader, topics: tuple[str, ...]
) -> set[TopicPartition]:
    """Return those of ``topics``, or of the whole group.  Raises ``ConfigurationError``."""
    partitions = group.topics.partitions()
    for topic in topics:
        of_topic(reader.partitions(topic), topic)
        if not any(partition.topic == topic for partition in partitions):
            raise ConfigurationError(
                f"{group.name} does not read the topic {topic!r}: look at [kafka]"
            )
    return {partition for partition in partitions if not topics or partition.topic in topics}
