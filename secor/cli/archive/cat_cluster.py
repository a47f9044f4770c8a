"""``secor cat --groups``, ``secor ls``: what a backup keeps of its cluster besides messages."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import click

from secor.archive.cluster_journal import (
    KINDS,
    ClusterJournal,
    JournalState,
    kept_clusters,
    seconds_of,
)
from secor.cli.topic_type import milliseconds
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import ConfigurationError
from secor.core.ports import ObjectStore
from secor.core.text import iso_time


def print_kept(what: tuple[str, ...], kind: str, time: str | None, cluster: str | None) -> None:
    """Print the items of a kind as JSON lines; ``what`` names the configuration."""
    from secor.wiring.clients import open_store
    from secor.wiring.kept_groups import choose_cluster

    if len(what) != 1 or not what[0].endswith(".toml"):
        raise ConfigurationError(f"secor cat --{kind} takes one CONFIG, which ends with .toml")
    config = load(Path(what[0]), os.environ)
    until = None if time is None else milliseconds(time) / 1000
    with open_store(config) as store:
        prefix = config.output.prefix
        chosen = choose_cluster(store, prefix, kind, cluster)
        state = ClusterJournal(store, prefix, kind, chosen).state(until)
    for key in state.damaged:
        click.echo(f"{key} cannot be read and is left out", err=True)
    if state.minute is None:
        raise ConfigurationError(f"nothing was kept of {kind} at {time}; secor ls shows since when")
    for line in _lines(kind, state):
        click.echo(json.dumps(line, ensure_ascii=False))


def _lines(kind: str, state: JournalState) -> Iterator[dict[str, object]]:
    from secor.wiring.kept_groups import decode_offsets

    for name, content in state.contents():
        if kind == "groups":
            for place, committed in decode_offsets(name, content).items():
                yield {
                    "group": name,
                    "topic": place.topic,
                    "partition": place.partition,
                    "offset": committed.offset,
                    **({"metadata": committed.metadata} if committed.metadata else {}),
                }
        elif kind == "acls" and isinstance(content, list):
            yield from content
        elif isinstance(content, dict):
            subject: dict[str, object] = {"subject": name} if kind == "schemas" else {}
            yield subject | content


def kept_rows(config: Config, store: ObjectStore) -> list[dict[str, object]]:
    """Return what is kept of each kind and cluster, and the time of the newest entry."""
    if config.group.kind != "backup":
        return []
    prefix = config.output.prefix
    return [
        {"kind": kind, "cluster": unquote(cluster), "changed": iso_time(seconds_of(minute))}
        for kind in KINDS
        for cluster, minute in sorted(kept_clusters(store, prefix, kind).items())
    ]
