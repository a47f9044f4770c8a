"""Topics, whose names shells complete, and partitions on the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from secor.core.errors import SecorError

PATIENCE = 2.0
"""Seconds that a person who presses Tab waits for the brokers."""


if TYPE_CHECKING:
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
