"""The command that sets staged files of a table aside, connected."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from secor.batch.workspace import Workspace
from secor.core.model import TopicPartition
from secor.tables.file_messages import FileMessages
from secor.tables.set_aside import FileDecisions, SetAside, SetAsideResult, find_staged_file
from secor.wiring.table_catalogs import open_tables
from secor.wiring.table_group import TableGroup, clock
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
