"""Commands of a table group, such as ``secor verify``, over a log in memory and local tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from click.testing import CliRunner

from secor.adapters.iceberg import appending
from secor.cli.tables import repair as tables_repair
from secor.cli.verify import command as verify
from secor.core.model import Chunk, Entry, LogRange, TopicPartition
from secor.tables.staging.manifest import Statistics
from secor.wiring import clients, table_group
from secor.wiring.table_group import TableGroup
from tests.unit.tables.committing_world import CommittingWorld
from tests.unit.tables.worker_world import WorkerWorld, chunk_of

FLIGHTS = TopicPartition("flights", 0)


class VerifyingWorld:
    """A group with one topic, whose messages are staged and committed at once."""

    def __init__(
        self,
        directory: Path,
        tables: Sequence[Mapping[str, Any]],
        monkeypatch: pytest.MonkeyPatch,
        **rows: Any,
    ) -> None:
        columns = ["_topic", "_kafka_partition", "_offset"]
        settings = {"rows": {"metadata_columns": columns, **rows}, "parser": {"decoder": "json"}}
        self.worker = WorkerWorld(directory, tables, settings)
        self.committing = CommittingWorld(self.worker)
        self.messages: list[object] = []
        monkeypatch.setattr(table_group, "open_table_group", self._opened(self._group))
        monkeypatch.setattr(clients, "open_reader", self._opened(lambda: self))
        monkeypatch.setattr(verify, "load", lambda *_: self.worker.config)
        monkeypatch.setattr(tables_repair, "load_tables", lambda *_: self.worker.config)

    @staticmethod
    def _opened(make: Callable[[], object]) -> Callable[..., Any]:
        @contextmanager
        def opened(*_: object) -> Iterator[object]:
            yield make()

        return opened

    def _group(self) -> TableGroup:
        topics = SimpleNamespace(
            partitions=lambda: frozenset([FLIGHTS]),
            ids=lambda: {"flights": "topic-id"},
            ends=self._ends,
            high_watermarks=self._ends,
        )
        return TableGroup(
            config=self.worker.config,
            objects=self.worker.store,
            ledger=cast(Any, self),
            brokers=cast(Any, self),
            topics=cast(Any, topics),
            catalog=self.worker.catalog,
            staging=self.committing.staging,
            history=self.committing.history,
            committer=self.committing.committer,
            threads=ThreadPoolExecutor(1),
        )

    def _ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, len(self.messages))

    def write(self, *messages: object) -> None:
        """Append messages to the log, and commit them to the tables."""
        self.messages += messages
        self.worker.stage(*messages)
        staged = self.committing.staged()
        names = {it.table for item in staged if item.manifest for it in item.manifest.tables}
        for name in sorted(names):
            request = self.committing.request()
            result = self.committing.committer.commit(name, staged, request)
            assert result.error is None, result.error

    def verify(self, *options: str) -> tuple[int, str]:
        """Run the command; return its exit code and what it printed."""
        return self._run(verify.command, options)

    def repair(self, *options: str) -> tuple[int, str]:
        """Run ``secor tables repair``; return its exit code and what it printed."""
        return self._run(tables_repair.repair, options)

    @staticmethod
    def _run(command: click.Command, options: Sequence[str]) -> tuple[int, str]:
        result = CliRunner().invoke(command, ["g.toml", *options], standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        return int(result.return_value or 0), result.output

    def read(self, topic_partition: TopicPartition, *bounds: int) -> Any:
        """Return the entry of the ledger, or messages of the log: this is both."""
        if not bounds:
            return Entry(committed=len(self.messages), topic_id="topic-id")
        start, end = bounds
        chunk: Chunk = chunk_of(self.messages[start:end], topic_partition, start)
        return [chunk]

    def log_range(self, _: TopicPartition) -> LogRange:
        """Return the whole log."""
        return LogRange(0, len(self.messages))

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return the only topic partition."""
        return [FLIGHTS] if topic == "flights" else []


def with_wrong_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be committed as an older writer did: with the bounds of the first row alone."""
    recorded = appending._statistics

    def statistics(of_file: Statistics) -> dict[str, Any]:
        arguments = recorded(of_file)
        return {**arguments, "upper_bounds": arguments["lower_bounds"]}

    monkeypatch.setattr(appending, "_statistics", statistics)
