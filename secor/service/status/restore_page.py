"""``/`` and ``/status.json`` of a daemon that restores: its job and its source partitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from secor.service.status.cells import StatusRow, ago, html_table, sentence, show_number, word
from secor.service.status.document import document

COLUMNS = ("source", "state", "next offset", "archived to", "left")


@dataclass(frozen=True, slots=True)
class RestoreRow:
    """One source partition of this process; ``remedy`` is what to do about ``error``."""

    source: str
    phase: str
    next_offset: int | None
    end: int
    left: int
    error: str | None = None
    remedy: str | None = None
    again_in: float | None = None


@dataclass(frozen=True, slots=True)
class RestoreStatus:
    """The status of one daemon of a job; ``seconds`` since its start."""

    job: str
    version: str
    state: str
    exactly_once: str
    alive: bool
    seconds: float
    messages: int
    transactions: int
    open_transaction: float
    rows: tuple[RestoreRow, ...]

    @property
    def left(self) -> int:
        """Offsets that are left in the source partitions of this process."""
        return sum(row.left for row in self.rows)

    @property
    def rate(self) -> float:
        """Messages a second since the start."""
        return self.messages / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {**asdict(self), "left": self.left, "rate": round(self.rate, 1)}


def restore_page(status: RestoreStatus) -> str:
    """Return the page."""
    return document(
        f"{status.job}: secor restore",
        [
            f"<h1>{escape(status.job)}</h1>",
            f'<p class="soft">secor {escape(status.version)}, one daemon of a restore, for ',
            f'{ago(status.seconds)}. <a href="/status.json">JSON</a> ',
            '<a href="/metrics">metrics</a></p><dl class="tiles">',
            *(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in _tiles(status)),
            "</dl><h2>Source partitions</h2>",
            *_table(status.rows),
        ],
    )


def _tiles(status: RestoreStatus) -> Iterable[tuple[str, str]]:
    running = status.state == "running"
    job = word(status.state, "well" if running else "bad")
    yield "job", job if status.alive else word("stuck", "bad")
    yield "source partitions", f"{len(status.rows):,}"
    yield "offsets left", show_number(status.left)
    yield "messages written", show_number(status.messages)
    yield "messages a second", f"{status.rate:,.0f}"
    if status.exactly_once == "disabled":
        yield "transactions", word("none: messages may be there twice", "bad")
        return
    yield "transactions", show_number(status.transactions)
    yield "open transaction", ago(status.open_transaction)


def _table(rows: Iterable[RestoreRow]) -> Iterable[str]:
    shown = list(rows)
    if not shown:
        yield "<p>None are assigned.</p>"
        return
    yield from html_table(COLUMNS, map(_row, shown))


def _row(row: RestoreRow) -> StatusRow:
    state = word(row.phase, "bad") if row.error else escape(row.phase)
    cells = (state, show_number(row.next_offset), show_number(row.end), show_number(row.left))
    if not row.error:
        return StatusRow(row.source, cells)
    again = "" if row.again_in is None else f" It is tried again in {ago(row.again_in)}."
    note = f"{sentence(row.error)} <em>{escape(row.remedy or '')}</em>{again}"
    return StatusRow(row.source, cells, (note,))
