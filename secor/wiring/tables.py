"""The plans of topics with messages that become rows of tables."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

import structlog

from secor.adapters.kafka.topics import topic_pattern
from secor.batch.plan import OutputStream, TopicPlan
from secor.config.model import Config
from secor.config.route_checks import shared_by_topics
from secor.core.errors import (
    AccessDenied,
    OutcomeUnknown,
    SecorError,
    TableUnusable,
    Unavailable,
)
from secor.core.model import QUARANTINE
from secor.core.naming import quarantine_root, topic_root
from secor.core.ports import Clock
from secor.core.retry import EndedErrors
from secor.formats import make_format
from secor.parsing.pipeline import Count
from secor.tables.catalog import Catalog, Table
from secor.tables.commit.group_record import property_name
from secor.tables.commit.plan_notes import PlanNotes
from secor.tables.commit.table_updates import ReportChange
from secor.tables.commit.topic_tables import Outdated, TopicTables
from secor.tables.freshness import RefreshThread
from secor.tables.library import TableLibrary
from secor.tables.rows.needs import ColumnNotes, Needs
from secor.tables.rows.routing import Route
from secor.tables.staging.batch_manifest import BatchManifest
from secor.tables.staging.distribution import TableDistribution, partition_of, stream_of_table
from secor.tables.staging.table_version import TableVersion
from secor.wiring.parsers import key_reader, pipeline_for
from secor.wiring.plans import policy_of
from secor.wiring.table_routes import routes_of, row_settings

DECLARE = (
    "if that is wrong, make the table with schema_file (numbers: rows.numbers), then 'secor"
    " quarantine replay'"
)
MOST_SHOWN = 20
"""Names of columns in one line of the log."""

Versions = Mapping[str, TableVersion | None]


class TablePlans:
    """The plans of a process that consumes for tables, as ``batch.plan.Plans``."""

    def __init__(
        self,
        config: Config,
        catalog: Catalog,
        library: TableLibrary,
        cluster_id: Callable[[], str],
        count: Count,
        clock: Clock,
        topics: Callable[[], Iterable[str]] = tuple,
        *,
        notes: PlanNotes | None = None,
        limited: bool = True,
        report: ReportChange | None = None,
    ) -> None:
        """Ask nobody yet.  ``topics`` gives the names of all topics of the cluster; unless
        ``limited``, any number of bad messages may go into quarantine.

        A process that records intents has ``notes``.  ``report`` gets the changes of tables
        instead of the log.
        """
        self._config = config
        self._catalog = catalog
        self._library = library
        self._cluster_id = cache(cluster_id)
        self._all_topics = topics
        self._count = count
        self._clock = clock
        self._notes = notes
        self._limited = limited
        self._report = self._log_change if report is None else report
        self._log = structlog.get_logger("secor.tables")
        self._lock = threading.Lock()
        self._topics: dict[str, TopicTables] = {}
        self._warned_of: set[str] = set()
        """Tables that have rows under a name of earlier versions."""
        self._planned: set[str] = set()
        """Topics without a note any more that they have no plan."""

    def __call__(self, topic: str, fingerprint: str | None) -> TopicPlan:
        """Return the plan of a topic.  Why it has none is noted, for the commands."""
        try:
            with self._lock:  # two of one topic would not know each other's needs
                tables = self._topics.get(topic)
                if tables is None:
                    tables = self._topics[topic] = self._tables_of(topic)
            plan = tables.plan(fingerprint)
        except TableUnusable as error:
            self._note_stop(topic, str(error))
            raise
        self._note_stop(topic, None)
        return plan

    def _note_stop(self, topic: str, why: str | None) -> None:
        """Note why a topic has no plan, or that it has one; a store that fails hides nothing."""
        if self._notes is None or (why is None and topic in self._planned):
            return
        try:
            if why is None:
                # Only the first plan of a topic asks the store; what fails there takes the topic
                # out again below, so that the next plan asks once more.
                self._planned.add(topic)
                self._notes.clear_stops(topic)
            else:
                self._planned.discard(topic)
                self._notes.note_stop(topic, why)
        except (OutcomeUnknown, Unavailable):
            self._planned.discard(topic)
        except AccessDenied:
            pass  # nor will it be allowed the next time

    def refreshing(self) -> RefreshThread:
        """Begin to look for changes that others make."""
        return RefreshThread(self._refreshes, self._warn, over=self._log_over)

    def _refreshes(self) -> list[Callable[[], None]]:
        with self._lock:
            return [tables.refresh for tables in self._topics.values()]

    def _tables_of(self, topic: str) -> TopicTables:
        self._check_name(topic)

        def make(
            routes: Sequence[Route], versions: Versions, needs: Needs, outdated: Outdated
        ) -> TopicPlan:
            cluster = self._cluster_id()
            return table_plan(
                self._config,
                topic,
                routes,
                versions,
                needs,
                cluster,
                self._count,
                outdated,
                limited=self._limited,
            )

        return TopicTables(
            topic,
            routes_of(self._config, topic),
            self._catalog,
            self._library,
            row_settings(self._config),
            make,
            self._report,
            self._clock,
            self._notes,
            report_earlier=self._warn_of_earlier,
        )

    def _warn_of_earlier(self, name: str, earlier: Table) -> None:
        """Warn, unless ``rows.names`` is set, of a table that has gone on under another name."""
        group = self._config.group.name
        if (
            self._config.source("rows.names") != "default"
            or name in self._warned_of
            or property_name(group, "vector") not in earlier.properties
        ):
            return
        self._warned_of.add(name)
        self._log.warning(
            "table_named_anew",
            table=name,
            earlier=earlier.identifier,
            remedy='to go on with the earlier table, set rows.names = "replace" and delete the new'
            ' one; to have both, set rows.names = "escape", which ends this warning',
        )

    def _check_name(self, topic: str) -> None:
        """Raise ``TableUnusable`` where another topic of the group has the same tables' names."""
        kafka = self._config.kafka
        if kafka.topics_pattern is None:
            return  # the configuration was checked
        wanted = re.compile(topic_pattern(kafka.topics_pattern, kafka.topics_exclude))
        topics = {name for name in self._all_topics() if wanted.match(name)}
        tables, rows = self._config.tables, self._config.rows
        for names, why in shared_by_topics(tables, topics | {topic}, rows):
            if topic in names:
                raise TableUnusable(why)

    def _log_change(
        self, table: str, schema_id: int, columns: Sequence[str], notes: ColumnNotes
    ) -> None:
        changed: dict[str, object] = {
            "table": table,
            "schema": schema_id,
            "columns": _first(columns),
        }
        if notes.mixed:
            changed["text"] = _first(notes.mixed)
        if notes.outvoted:
            changed["quarantined"] = _first(notes.outvoted)
        if notes.outvoted or notes.mixed:
            self._log.warning("table_changed", **changed, remedy=DECLARE)
        else:
            self._log.info("table_changed", **changed)

    def _warn(self, error: SecorError) -> None:
        self._log.warning("tables_not_looked_at", error=str(error), next="tried again, quietly")

    def _log_over(self, ended: EndedErrors) -> None:
        self._log.info("tables_looked_at", seconds=round(ended.seconds), times=ended.times)


def _first(texts: Sequence[str]) -> list[str]:
    return [*texts[:MOST_SHOWN], *(["..."] if len(texts) > MOST_SHOWN else [])]


def table_plan(
    config: Config,
    topic: str,
    routes: Sequence[Route],
    versions: Versions,
    needs: Needs,
    cluster: str,
    count: Count | None,
    outdated: Outdated,
    *,
    limited: bool = True,
) -> TopicPlan:
    """Return how the messages of a topic become rows of certain versions of tables."""
    settings = config.for_topic(topic)
    output = settings.output
    root = topic_root(output.prefix, topic)
    skip = config.rows.unrouted == "skip"
    keys = None
    if any(route.deletes_rows for route in routes):
        keys = key_reader(settings.parser)
    distribution = TableDistribution(
        routes, versions, needs, skip_unrouted=skip, keys=keys, outdated=outdated
    )
    quarantine = make_format("sequencefile")
    streams = {QUARANTINE: OutputStream(quarantine_root(root), quarantine)}
    for name, version in versions.items():
        if version is not None:
            streams[stream_of_table(name)] = _stream(version)
    return TopicPlan(
        group=config.group.name,
        root=root,
        generation=output.generation,
        parser=pipeline_for(
            settings.parser,
            typed=True,
            distribution=distribution,
            count=count,
            limited=limited,
            keep_nulls_in=null_keeping_names(versions.values()),
        ),
        log_format=quarantine,
        streams=streams,
        policy=policy_of(settings.policy),
        upload_on_shutdown=settings.policy.upload_on_shutdown,
        upload_on_revoke=settings.policy.upload_on_revoke,
        last_file=BatchManifest(config.group.name, cluster, output.prefix, versions),
    )


def null_keeping_names(versions: Iterable[TableVersion | None]) -> frozenset[str]:
    """Return the names of fields that are maps in some table."""
    known = (version.rows.null_keeping_names for version in versions if version is not None)
    return frozenset().union(*known)


def _stream(version: TableVersion) -> OutputStream:
    def directory(output_partition: str) -> str:
        path, _ = partition_of(output_partition)
        return f"{version.root}/{path}" if path else version.root

    return OutputStream(version.root, version.data_format, directory)
