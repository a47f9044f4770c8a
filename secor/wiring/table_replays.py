"""Replays of the quarantine of a table group, for the command line."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from secor.archive.objects import Archive
from secor.batch.workspace import Workspace
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.model import TopicPartition
from secor.core.ports import OffsetLedger
from secor.tables.repair.quarantine_replay import TableReplay
from secor.tables.repair.set_aside import FileDecisions, SetAside, SetAsideResult, find_staged_file
from secor.tables.staging.file_messages import FileMessages
from secor.wiring.clients import open_reader
from secor.wiring.table_catalogs import open_tables
from secor.wiring.table_group import TableGroup, clock
from secor.wiring.table_storage import store_of_tables
from secor.wiring.tables import TablePlans


def set_files_aside(
    group: TableGroup,
    table: str,
    names: Sequence[str],
    *,
    reason: str,
    without_missing: bool,
    dry_run: bool,
) -> list[SetAsideResult]:
    """Set the named files aside, or all that are refused.

    Raises ``ConfigurationError``, ``TableStopped``, ``Unavailable``, ``AccessDenied``.
    """
    config = group.config
    with (
        tempfile.TemporaryDirectory(prefix="secor-set-aside-") as folder,
        closing(Workspace(Path(folder), "set-aside", config.limits.open_files)) as workspace,
    ):
        staged = group.staged()
        group.require(table, staged)
        if not names:
            _, record = group.committer.look(table)
            names = [note.path for note in record.refused if note.waits]
        catalog, library = open_tables(config)
        plans = TablePlans(
            config,
            catalog,
            library,
            group.brokers.cluster_id,
            _count_nothing,
            clock,
            notes=group.plan_notes,
            limited=False,
        )
        command = SetAside(
            FileDecisions(group.committer, clock),
            FileMessages(group.objects, group.brokers, plans, workspace),
            group.objects,
        )
        return [
            command.set_aside(
                find_staged_file(table, name, staged),
                group.request(),
                reason=reason,
                without_missing=without_missing,
                dry_run=dry_run,
            )
            for name in names
        ]


def _count_nothing(topic_partition: TopicPartition, kind: str, number: int) -> None:
    """Leave what was parsed again out of all counts."""


class TableReplays:
    """Replays by topic; tables are opened once."""

    def __init__(self, config: Config, ledger: OffsetLedger, workspace: Workspace) -> None:
        """Open the catalog.

        Raises ``ConfigurationError``, ``Unavailable``, ``AccessDenied``.
        """
        self._config = config
        self._ledger = ledger
        self._workspace = workspace
        self._clock = SystemClock()
        self._filtered: Counter[str] = Counter()
        catalog, library = open_tables(config)
        self._plans = TablePlans(
            config, catalog, library, self._cluster_id, self._count, self._clock, limited=False
        )

    def of_topic(self, archive: Archive, topic: str) -> TableReplay:
        """Return what replays the objects of one topic."""
        return TableReplay(
            archive,
            store_of_tables(self._config, archive.store),
            partial(self._plans, topic),
            self._ledger,
            self._workspace,
            self._clock,
            self._filtered,
        )

    def _cluster_id(self) -> str:
        with open_reader(self._config) as reader:
            return reader.cluster_id()

    def _count(self, topic_partition: TopicPartition, kind: str, number: int) -> None:
        self._filtered[kind] += number
