"""Replays of the quarantine of a table group, for the command line."""

from __future__ import annotations

from collections import Counter
from functools import partial

from secor.archive.objects import Archive
from secor.batch.workspace import Workspace
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.model import TopicPartition
from secor.core.ports import OffsetLedger
from secor.tables.quarantine_replay import TableReplay
from secor.wiring.clients import open_reader
from secor.wiring.table_catalogs import open_tables
from secor.wiring.table_storage import store_of_tables
from secor.wiring.tables import TablePlans


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
