"""Options of many commands: topics, which shells complete, partitions, files, and JSON."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from secor.config.load import load
from secor.core.errors import SecorError

metrics_file_option = click.option(
    "--metrics-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="On success, write times and counts to FILE for node_exporter's textfile collector.",
)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(document: object) -> None:
    """Print the result of a command with ``--json``, for scripts and for people."""
    click.echo(json.dumps(document, indent=2))


def backfilled(last_run: LastRun, partition: Path, plan: BackfillPlan, step: str) -> None:
    """Write that a step of the backfill of the group of ``partition`` succeeded."""
    group = load(partition, os.environ).group.name
    batches, replaced = len(plan.batches), len(plan.replaced)
    last_run.backfilled(group, plan.topic, step, batches=batches, replaced=replaced)


def milliseconds(text: str) -> int:
    """Return an ISO 8601 time with a zone in milliseconds since 1970.  Raises ``UsageError``."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(
            f"{text!r} is no time: write ISO 8601 with a zone, such as 2026-11-21T06:00:00Z"
        ) from error
    if time.tzinfo is None:
        raise click.UsageError(f"{text!r} names no time zone: add Z, or an offset such as +01:00")
    return round(time.timestamp() * 1000)


PATIENCE = 2.0
"""Seconds that a person who presses Tab waits for the brokers."""


if TYPE_CHECKING:
    from secor.archive.backfill.model import BackfillPlan
    from secor.service.monitoring.last_run import LastRun

    ParamType = click.ParamType[str]
else:
    ParamType = click.ParamType  # before click 8.4 it has no parameter


class TopicName(ParamType):
    """A topic: completed from the configuration, or from the brokers where that has a pattern."""

    name = "topic"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the topics that begin with ``incomplete``; none where that cannot be known."""
        config = ctx.params.get("config") or ctx.params.get("partition")
        if not isinstance(config, str | Path):
            return []
        try:
            names = _topics(Path(config))
        except SecorError:
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _topics(path: Path) -> list[str]:
    from secor.config.load import load
    from secor.wiring.clients import open_reader

    config = load(path, os.environ)
    kafka = config.kafka
    if kafka.topics:
        return sorted(kafka.topics)
    with open_reader(config, timeout=PATIENCE) as reader:
        return reader.topics(kafka.topics_pattern, kafka.topics_exclude)


TOPIC = TopicName()

partitions_option = click.option(
    "--partition",
    "partitions",
    type=int,
    multiple=True,
    metavar="N",
    help="Only this partition; may be repeated.",
)


def spark_settings(conf: tuple[str, ...]) -> dict[str, str]:
    """Return the settings of --conf.  Raises ``click.UsageError``."""
    settings = {}
    for text in conf:
        key, separator, value = text.partition("=")
        if not separator:
            raise click.UsageError(f"--conf {text}: write KEY=VALUE")
        settings[key] = value
    return settings
