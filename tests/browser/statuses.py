"""A server of the status page with partitions in every state that a person may see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from secor.config.load import load
from secor.consume.partition_status import Pause, ReadingState, Status
from secor.core.clock import SystemClock
from secor.core.errors import DiskFull, LedgerLost, SecorError, Unavailable
from secor.core.model import OffsetRange, TopicPartition
from secor.service.metrics import Metrics
from secor.service.monitoring.health import Health, HealthServer
from secor.service.status.board import Board
from secor.wiring.http_server import board_of, server_of

HOSTILE = "<img src=http://198.51.100.1/x><script>document.title='taken'</script>\"'&"
LONGEST = "a-topic-whose-name-is-as-long-as-kafka-allows-" + "x" * 203

_CONFIG = f"""
group.name = "clicks-backup"
kafka.bootstrap_servers = ["kafka-1.internal:9092", "kafka-2.internal:9092"]
kafka.topics_pattern = "clicks|orders|payments"
store.s3.bucket = "logs"
store.s3.secret_key = "geheim"
store.s3.access_key = "key"
kafka.topics_exclude = '''{HOSTILE}'''
policy.max_age = "10m"
"""


def status(clock: SystemClock, topic: str, partition: int, at: int) -> Status:
    """Return one that reads, ``at`` being its committed offset."""
    now = clock.monotonic()
    return Status(
        topic_partition=TopicPartition(topic, partition),
        state=ReadingState.READING,
        error=None,
        committed=at,
        next_offset=at + 48_211,
        known_end=at + 48_540,
        intent_end=None,
        last_timestamp=int((clock.now() - 2) * 1000),
        oldest_batch=now - 94,
        committed_at=now - 95,
        buffered=3 << 20,
        local=17 << 20,
        batch_opened=now - 94,
        batch_messages=48_211,
        batch_size=17 << 20,
        batch_files=1,
    )


class StatusServer:
    """The real server over a board that a test fills."""

    def __init__(self, folder: Path, port: int) -> None:
        """Bind; the configuration is written into ``folder``."""
        path = folder / "page.toml"
        path.write_text(f"{_CONFIG}metrics.port = {port}\n")
        config = load(path, {})
        self.clock = SystemClock()
        self.health = Health(self.clock, limit=600.0)
        self.health.waiting([])
        self.board: Board = board_of(config, self.clock, "host-1-4711-ab12cd34")
        self.server: HealthServer = server_of(config, self.health, Metrics(), self.board)

    def url(self, path: str = "/") -> str:
        """Return an address."""
        return f"http://127.0.0.1:{self.server.port}{path}"

    def failed(self, one: Status, error: SecorError) -> None:
        """Tell of an error."""
        self.board.failed(one.topic_partition, error)


@contextmanager
def status_server(folder: Path, port: int = 0) -> Iterator[StatusServer]:
    """Give a running one, at any free port or at this one."""
    made = StatusServer(folder, port)
    made.server.start()
    try:
        yield made
    finally:
        made.server.close()


def show_everything(made: StatusServer) -> None:
    """Show one partition in each state, errors, pauses, intents and hostile words."""
    clock = made.clock
    reading = status(clock, "clicks", 0, 1_254_330_118)
    uploading = replace(
        status(clock, "clicks", 1, 1_254_102_004),
        sealed=OffsetRange(1_254_102_004, 1_254_150_215),
        sealed_batches=1,
        in_work=True,
        pause=Pause.UPLOAD,
    )
    following = replace(status(clock, "orders", 0, 88_120), intent_end=90_000, known_end=2_088_540)
    held = replace(status(clock, "orders", 1, 91_004), pause=Pause.LIMITS, known_end=391_004)
    lost = LedgerLost(
        "orders/2: no entry, but objects exist; rebuild it from the objects with"
        f" 'secor offsets recover' {HOSTILE}"
    )
    stopped = replace(
        status(clock, "orders", 2, 0),
        state=ReadingState.STOPPED,
        error=lost,
        committed=None,
        next_offset=None,
        batch_opened=None,
        again_at=clock.monotonic() + 41,
    )
    waiting = replace(
        status(clock, LONGEST, 12, 5),
        state=ReadingState.WAITING,
        committed=None,
        next_offset=None,
        known_end=None,
        batch_opened=None,
        again_at=clock.monotonic() + 4,
    )
    made.board.show([reading, uploading, following, held, stopped, waiting], ledger_up=True)
    made.board.committed(reading.topic_partition, 301.0)
    made.board.committed(held.topic_partition, 120.0)
    made.failed(held, Unavailable("s3.internal:443: 503 Slow Down, after 5 tries"))
    made.failed(stopped, lost)
    made.failed(waiting, DiskFull("/var/lib/secor/clicks-backup: No space left on device"))
