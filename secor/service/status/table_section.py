"""The tables on the page of a daemon, and the page of ``secor tables run``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from secor.core.text import how_many
from secor.service.status.cells import (
    StatusRow,
    ago,
    html_table,
    html_tiles,
    parts,
    sentence,
    show_number,
    show_size,
    show_time,
    word,
)
from secor.service.status.document import document

COLUMNS = ("table", "state", "last commit", "valid through", "staged", "conflicts")

SHOWN_OF_ID = 8
"""Characters of a commit's id on the page; ``/status.json`` has all of it."""

Picture = Mapping[str, Any]


def tables_page(picture: Picture) -> str:
    """Return the page of a process that only coordinates; see ``coordinator_picture``."""
    return document(
        f"{picture['group']}: secor tables",
        [
            f"<h1>{escape(picture['group'])}</h1>",
            f'<p class="soft">{escape(picture["instance"])}, secor {escape(picture["version"])}, ',
            f"secor tables run. As of {show_time(picture['at'])}. ",
            '<a href="/status.json">JSON</a> <a href="/metrics">metrics</a></p>',
            *(() if picture["alive"] else (f"<p>{word('stuck', 'bad')}</p>",)),
            *table_section(picture["coordination"], picture["tables"]),
        ],
    )


def table_section(coordination: Picture, tables: Sequence[Picture]) -> Iterable[str]:
    """Give the section of what ``secor.service.status.table_picture`` gives."""
    yield "<h2>Tables</h2>"
    wrong = [escape(table["table"]) for table in tables if table["state"] in ("stopped", "failed")]
    if wrong:
        yield f'<p class="bad">Stopped or failed: {", ".join(wrong)}</p>'
    error = coordination["cycles"]["error"]
    if error is not None:
        yield (
            f'<p><span class="bad">A cycle failed</span> {ago(error["age"])} ago: '
            f"{sentence(error['message'])} <em>{escape(error['remedy'])}</em></p>"
        )
    yield from html_tiles(_tiles(coordination))
    yield from _table(tables)


def _tiles(coordination: Picture) -> Iterable[tuple[str, str]]:
    here, cycles, staged = (coordination[item] for item in ("here", "cycles", "staged"))
    name = coordination["coordinator"]
    yield "coordinator", "this process" if here else "–" if name is None else escape(name)
    if coordination["heard_age"] is not None:
        yield "it was heard", f"{ago(coordination['heard_age'])} ago"
    if coordination["epoch"] is not None:
        yield "epoch", str(coordination["epoch"])
    if coordination["state"] is not None:
        yield "cycle", escape(coordination["state"])
    if cycles["last"] is not None:
        yield "last cycle", f"{ago(cycles['last']['age'])} ago"
    yield "complete commits", show_number(cycles["complete"])
    yield "partial commits", show_number(cycles["partial"])
    yield "failed cycles", show_number(cycles["failed"])
    yield "conflicts", show_number(coordination["conflicts"])
    if staged is not None:
        yield "staged", _staged(staged)


def _table(tables: Sequence[Picture]) -> Iterable[str]:
    if not tables:
        yield "<p>This process knows of none yet.</p>"
        return
    rows = (StatusRow(row["table"], _cells(row), _notes(row)) for row in tables)
    yield from html_table(COLUMNS, rows)


def _cells(table: Picture) -> list[str]:
    state, staged = table["state"], table["staged"]
    return [
        word(state, "bad") if state in ("stopped", "failed") else escape(state),
        _commit(table["last_commit"]),
        _valid_through(table),
        "–" if staged is None else _staged(staged),
        show_number(table["conflicts"]),
    ]


def _commit(commit: Picture | None) -> str:
    if commit is None:
        return "–"
    texts = [f"{ago(commit['age'])} ago"]
    if commit["rows"] is not None:
        texts.append(how_many(commit["rows"], "row"))
    return parts([*texts, commit["id"][:SHOWN_OF_ID]])


def _valid_through(table: Picture) -> str:
    if table["valid_through"] is None:
        return "–"
    behind = parts([f"{ago(table['valid_through_age'])} ago"])
    return f"{show_time(table['valid_through'])}, {behind}"


def _staged(staged: Picture) -> str:
    if not staged["batches"]:
        return "nothing"
    texts = [
        how_many(staged["files"], "file"),
        how_many(staged["rows"], "row"),
        show_size(staged["bytes"]),
    ]
    if staged["oldest_age"] is not None:
        texts.append(f"{ago(staged['oldest_age'])} old")
    return parts(texts)


def _notes(table: Picture) -> Iterable[str]:
    if table["why"] is not None:
        yield (
            f'<span class="bad">{escape(table["state"].capitalize())}:</span> '
            f"{sentence(table['why'])} <em>{escape(table['remedy'])}</em>"
        )
    for topic_partition, why in table["stopped_partitions"].items():
        yield (
            f'<span class="bad">{escape(topic_partition)} goes no further here:</span> '
            f"{sentence(why)}"
        )
