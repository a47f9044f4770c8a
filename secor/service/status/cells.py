"""Tables and cells of the status pages: values as people read them, escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class StatusRow:
    """A row of a table: its name, HTML of the other cells and of the notes below them."""

    name: str
    cells: Sequence[str]
    notes: Iterable[str] = ()
    anchor: str | None = None


def html_table(columns: Sequence[str], rows: Iterable[StatusRow]) -> Iterable[str]:
    """Yield the HTML of a table; names and columns are escaped here."""
    heads = "".join(f"<th>{escape(name)}</th>" for name in columns)
    yield f"<table><thead><tr>{heads}</tr></thead>"
    for row in rows:
        anchor = "" if row.anchor is None else f' id="{escape(row.anchor)}"'
        yield f"<tbody{anchor}><tr><td>{escape(row.name)}</td>"
        for name, cell in zip(columns[1:], row.cells, strict=True):
            # One element, for it is one cell of a grid on a telephone.
            yield f'<td data-name="{escape(name)}"><span>{cell}</span></td>'
        yield "</tr>"
        for note in row.notes:
            yield f'<tr><td class="note" colspan="{len(columns)}">{note}</td></tr>'
        yield "</tbody>"
    yield "</table>"


def html_tiles(tiles: Iterable[tuple[str, str]]) -> Iterable[str]:
    """Give a list of tiles: names as text, and values in HTML."""
    yield '<dl class="tiles">'
    for name, value in tiles:
        yield f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>"
    yield "</dl>"


def word(text: str, kind: str) -> str:
    """Return a word with a colour: ``well`` or ``bad``."""
    return f'<span class="{kind}">{escape(text)}</span>'


def parts(texts: Iterable[str]) -> str:
    """Join what may be broken between, but not within."""
    return ", ".join(f'<span class="part">{escape(text)}</span>' for text in texts)


def show_time(iso: str) -> str:
    """Return a time in ISO 8601 as people read it."""
    return escape(iso).replace("T", " ").replace("+00:00", " UTC")


def show_number(value: int | None) -> str:
    """Return a number, a dash for none."""
    return "–" if value is None else f"{value:,}"


def show_size(size: float) -> str:
    """Return bytes as people read them."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def ago(seconds: float) -> str:
    """Return seconds in their largest unit."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def sentence(text: str) -> str:
    """Return text that ends as a sentence does."""
    return escape(text if text.endswith((".", "!", "?")) else f"{text}.")
