"""The daemon of a configuration, ready to run."""

from __future__ import annotations

import os
import random
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import structlog

from secor.adapters.kafka.dead_letter_producer import DeadLetters
from secor.batch.parse_trail import ParseTrail
from secor.batch.plan import Plans
from secor.batch.sealed import SealedBatch
from secor.batch.workspace import Workspace
from secor.commit.thread_pool import ThreadPool
from secor.commit.uploader import CommittedBatch, Outcome, Uploader
from secor.config.model import Config
from secor.consume.backpressure import BufferLimits
from secor.consume.consumer import Consumer
from secor.consume.poison_messages import PoisonMessages
from secor.consume.positioning import OnDataLoss, PositionFinder, RefuseLost, Reset, never_refuse
from secor.core.clock import SystemClock
from secor.core.errors import SecorError
from secor.core.model import QUARANTINE, TopicPartition
from secor.core.observer import Observer
from secor.core.pace import Pace
from secor.core.ports import Clock, MessageSource, ObjectStore, OffsetLedger
from secor.parsing.parts import quarantine_part
from secor.parsing.pipeline import (
    ERASED,
    EVENTS,
    FILTERED,
    INFINITE,
    QUARANTINED,
    UNDECLARED,
    Count,
)
from secor.service.daemon import ConnectedParts, Daemon, DaemonLoop
from secor.service.malloc import collect_seldom, keep_what_is_loaded
from secor.service.metrics import Metrics
from secor.service.monitoring.commit_log import status_line
from secor.service.monitoring.health import Health
from secor.service.monitoring.kept_cluster import KeptClusterBoard
from secor.service.monitoring.servers import STORE, WatchedLedger, WatchedStore
from secor.service.monitoring.telemetry import Telemetry
from secor.service.startup import ConnectionAttempts, Doing
from secor.service.status.board import Board
from secor.service.systemd import Notifier
from secor.wiring.archives import applied_erasures
from secor.wiring.clients import connect_store, kafka_options, request_lifetime
from secor.wiring.cluster_keeper import ClusterKeeper, kinds_of
from secor.wiring.first_contact import CATALOG, addresses_of
from secor.wiring.http_server import board_of, server_of
from secor.wiring.membership import Membership, join
from secor.wiring.plans import growing_plans
from secor.wiring.startup_reports import StartupReports
from secor.wiring.topic_keeper import TopicKeeper

if TYPE_CHECKING:
    from secor.service.status.table_board import TableBoard


# What only some groups need is imported where they need it: it is a part of every recovery.


class LetterWriter(Uploader):
    """Sends copies after the commit: no commit waits for them.

    A process that dies in between leaves copies out, one that lost an answer may have
    sent them twice.  What counts are the objects.
    """

    def __init__(
        self, letters: DeadLetters, topic_of: Callable[[str], str | None], **ports: Any
    ) -> None:
        """``topic_of`` gives the dead-letter topic of a topic; ``ports`` are ``Uploader``'s."""
        super().__init__(**ports)
        self._letters = letters
        self._topic_of = topic_of
        self._log = structlog.get_logger("secor.letters")

    def upload(self, batch: SealedBatch, wanted: Callable[[], bool]) -> Outcome:
        """Commit; then send, and only log if that fails."""
        # Committed first: letters of a batch that fails afterwards would be sent again with the
        # next try, and a dead-letter topic that is out must not hold up the offsets.
        outcome = super().upload(batch, wanted)
        topic = self._topic_of(batch.topic_partition.topic)
        # Only of a batch that this process has committed: where another one did, that one sends
        # them.
        if topic is not None and isinstance(outcome, CommittedBatch):
            where: Mapping[str, object] = {
                "topic": batch.topic_partition.topic,
                "partition": batch.topic_partition.partition,
                "batch": str(batch.range),
            }
            try:
                sent = self._letters.send(topic, batch.topic_partition, _bad(batch))
            except SecorError as error:
                self._log.warning("dead_letters_failed", error=str(error), **where)
            else:
                self._log.debug("dead_letters", messages=sent, **where)
        return outcome


def _bad(batch: SealedBatch) -> Iterator[pa.RecordBatch]:
    stream = batch.plan.stream(QUARANTINE)
    for file in batch.files:
        if file.name.root == stream.root:
            with file.local.open() as opened:
                yield from stream.log_format.read(opened, file.key)


STUCK = 120.0
"""Seconds without a turn of the loop after which the process says that it is not alive."""

DRAIN = 240.0
"""Seconds to upload what is open at the end; the systemd unit waits longer."""


def build(config: Config, environment: Mapping[str, str]) -> Daemon:
    """Prepare everything that is of this machine; the daemon connects the rest itself.

    Local directory and HTTP port first, then store, ledger and broker: the order in which
    faults are found cheaply.  Whatever was opened is closed again when a later step fails.
    Raises ``SecorError``.
    """
    clock = SystemClock()
    metrics = Metrics()
    metrics.local_bytes_limit.set(config.limits.local_bytes)
    metrics.memory_bytes_limit.set(config.limits.memory)
    health = Health(clock, limit=STUCK)
    # The random part makes it another owner in the ledger after each start: in containers host name
    # and process id are often the same again.
    instance = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    tables = _table_board(config, clock, instance) if config.group.kind == "table" else None
    board = board_of(config, clock, instance, tables)
    if config.group.kind == "backup":
        board.cluster = KeptClusterBoard(metrics, clock)
    metrics.kafka_up.set_function(lambda: board.servers.kafka.state.answers is True)
    manager = Notifier.of(environment)
    telemetry = Telemetry(metrics, health, clock, board)
    metrics.starting.set(1)
    with ExitStack() as opened:
        directory = config.local.directory / config.group.name
        limits = config.limits
        workspace = Workspace(directory, instance, limits.open_files, limits.local_bytes)
        # From here on all is closed in reverse order, whichever later step fails.
        opened.callback(workspace.close)
        metrics.open_files.set_function(lambda: workspace.open_files)
        metrics.local_free_bytes.set_function(lambda: workspace.free_bytes)
        if config.metrics.port is not None:
            server = server_of(config, health, metrics, board)
            opened.callback(server.close)
            # Started before anything is connected: probes and the status page say what the start
            # waits for.
            server.start()

        def connect(ask: Doing) -> ConnectedParts:
            with ExitStack() as connected:
                connected.callback(collect_seldom)  # a server that is out may be so for hours
                consumer, membership, close = _connect(
                    config, instance, workspace, telemetry, board, clock, ask
                )
                # Closed in reverse order: first the coordinator's thread, then the consumer's
                # connections.
                connected.callback(close)
                loop: DaemonLoop = consumer
                if tables is not None:
                    loop = connected.enter_context(
                        _coordinating(config, consumer, instance, metrics, clock, tables)
                    )
                report = _report(consumer, membership, telemetry, board, manager)
                # Last: what the connections have imported and made is to be left out of full
                # collections.
                keep_what_is_loaded()
                return ConnectedParts(loop, report, connected.pop_all().close)

        return Daemon(
            ConnectionAttempts(connect, clock=clock, rng=random.Random()),
            clock=clock,
            service_manager=manager,
            beat=health.beat,
            waiting=StartupReports(health, board, manager, clock, addresses_of(config)).report,
            close=opened.pop_all().close,
            drain_timeout=DRAIN,
        )


def _table_board(config: Config, clock: Clock, instance: str) -> TableBoard:
    from secor.service.status.table_board import TableBoard
    from secor.wiring.table_entries import fixed_tables

    return TableBoard(clock, instance, fixed_tables(config))


def _coordinating(
    config: Config,
    consumer: Consumer,
    instance: str,
    metrics: Metrics,
    clock: Clock,
    tables: TableBoard,
) -> AbstractContextManager[DaemonLoop]:
    """Coordinate the commits to tables, in a thread next to the loop."""
    from secor.service.monitoring.table_telemetry import TableTelemetry
    from secor.wiring.table_coordination import coordinating

    observer = TableTelemetry(metrics, clock, tables)
    return coordinating(config, consumer, instance, observer)


def _connect(
    config: Config,
    instance: str,
    workspace: Workspace,
    telemetry: Telemetry,
    board: Board,
    clock: Clock,
    ask: Doing,
) -> tuple[Consumer, Membership, Callable[[], None]]:
    """Connect store, ledger and broker; also return what closes all of it."""
    with ExitStack() as opened:
        ask(STORE)
        servers = board.servers
        # The store comes before the group: a member that cannot write would hold partitions back
        # from others that can.
        store: ObjectStore = WatchedStore(connect_store(config), servers.store)
        tables = None
        plans: Plans
        refuse_lost: RefuseLost
        if config.group.kind == "table":
            from secor.tables.commit.plan_notes import PlanNotes
            from secor.wiring.table_catalogs import open_tables
            from secor.wiring.table_entries import guard_of_first_entries
            from secor.wiring.table_storage import store_of_tables
            from secor.wiring.tables import TablePlans

            ask(CATALOG)
            store, tables = store_of_tables(config, store), open_tables(config)
        # Opened before the pool, so closed after it: uploads in work still need ledger and lease.
        membership = opened.enter_context(join(config, ask, telemetry.fetch_restarted))
        session = config.ledger.kind == "zookeeper"
        ledger = WatchedLedger(membership.ledger, servers.ledger, session=session)
        membership = replace(membership, ledger=ledger)
        for server in servers.all:
            server.answered()
        if config.group.kind == "backup":
            opened.callback(TopicKeeper(config, store).close)
            if board.cluster is not None and kinds_of(config):
                keeper = ClusterKeeper(config, store, board.assigned, board.cluster, clock)
                opened.callback(keeper.close)
        pool = ThreadPool(config.limits.upload_threads)
        opened.callback(pool.close)
        counting = _counting(telemetry)
        if tables is not None:
            source = membership.source
            notes = PlanNotes(store, config.output.prefix)
            plans = TablePlans(
                config, *tables, source.cluster_id, counting, clock, source.topics, notes=notes
            )
            opened.callback(plans.refreshing().close)
            refuse_lost = guard_of_first_entries(config, tables[0], store, source.cluster_id, clock)
        else:
            erasures = applied_erasures(config, store, counting)
            if erasures is not None:
                opened.callback(erasures.close)
            plans = growing_plans(config, store, telemetry, counting, erasures)
            refuse_lost = never_refuse
        consumer = _consumer(
            config,
            instance,
            membership,
            store,
            plans,
            refuse_lost,
            workspace,
            pool,
            telemetry,
            clock,
        )
        return consumer, membership, opened.pop_all().close


def _consumer(
    config: Config,
    instance: str,
    membership: Membership,
    store: ObjectStore,
    plans: Plans,
    refuse_lost: RefuseLost,
    workspace: Workspace,
    pool: ThreadPool,
    telemetry: Telemetry,
    clock: Clock,
) -> Consumer:
    source: MessageSource = membership.source
    ledger: OffsetLedger = membership.ledger
    rng = random.Random()
    uploading = _uploading(config)
    poison_messages = PoisonMessages(
        store=store,
        clock=clock,
        observer=telemetry,
        trail=ParseTrail(workspace.directory),
        deaths=workspace.deaths,
        quarantine=quarantine_part,
        workspace=workspace,
    )
    return Consumer(
        source=source,
        positioning=PositionFinder(
            ledger=ledger,
            source=source,
            store=store,
            plans=plans,
            clock=clock,
            observer=telemetry,
            rng=rng,
            reset=Reset(config.kafka.reset),
            on_data_loss=OnDataLoss(config.kafka.on_data_loss),
            # A backup parses nothing, so no message can kill it.
            poison_messages=None if config.group.kind == "backup" else poison_messages,
            refuse_lost=refuse_lost,
        ),
        uploader=uploading(
            ledger=ledger,
            store=store,
            clock=clock,
            owner=instance,
            observer=telemetry,
            rng=rng,
            request_lifetime=request_lifetime(config),
            parallel=pool.parallel,
        ),
        executor=pool,
        workspace=workspace,
        limits=BufferLimits(memory=config.limits.memory, local=config.limits.local_bytes),
        clock=clock,
        observer=telemetry,
        pace=Pace(clock, config.kafka.max_bytes_per_second, config.kafka.max_messages_per_second),
    )


def _uploading(config: Config) -> Callable[..., Uploader]:
    def topic_of(topic: str) -> str | None:
        return config.for_topic(topic).parser.dead_letter_topic

    rules = [config.parser, *(rule.parser for rule in config.topics)]
    if all(rule.dead_letter_topic is None for rule in rules):
        return Uploader
    from secor.adapters.kafka.dead_letter_producer import DeadLetters

    return partial(LetterWriter, DeadLetters(kafka_options(config)), topic_of)


def _counting(observer: Observer) -> Count:
    def count(topic_partition: TopicPartition, name: str, messages: int) -> None:
        if name == FILTERED:
            observer.filtered(topic_partition, messages)
        elif name == ERASED:
            observer.erased(topic_partition, messages)
        elif name.startswith(EVENTS):
            observer.other_events(topic_partition, name.removeprefix(EVENTS), messages)
        elif name == INFINITE:
            observer.infinite_values(topic_partition, messages)
        elif name.startswith(UNDECLARED):
            observer.undeclared(topic_partition, name.removeprefix(UNDECLARED), messages)
        else:
            observer.quarantined(topic_partition, name.removeprefix(QUARANTINED), messages)

    return count


def _report(
    consumer: Consumer,
    membership: Membership,
    telemetry: Telemetry,
    board: Board,
    manager: Notifier,
) -> Callable[[], None]:
    def report() -> None:
        statuses = consumer.status()
        ledger_up = membership.ledger.healthy()
        board.servers.kafka.set_trouble(membership.source.trouble())
        telemetry.report(statuses, ledger_up=ledger_up)
        board.show(statuses, ledger_up=ledger_up)
        manager.status(status_line(statuses))

    return report
