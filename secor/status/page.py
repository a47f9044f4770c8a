"""``/``: the picture as plain HTML, readable on a phone; no script, nothing from outside."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

REFRESH = 5
"""Seconds after which the browser asks again."""

STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#888;--bad:#c22;--well:#283}
body{font:15px/1.4 system-ui,sans-serif;margin:1rem auto;max-width:75rem;padding:0 1rem}
h1{font-size:1.3rem;margin:.2rem 0}h2{font-size:1.1rem;margin:1.6rem 0 .4rem}
p{margin:.3rem 0}.soft{color:var(--soft)}.bad{color:var(--bad)}.well{color:var(--well)}
table{border-collapse:collapse;width:100%}
th,td{padding:.3rem .5rem;text-align:right;vertical-align:top}
th:first-child,td:first-child,.text{text-align:left}
th{font-weight:600;color:var(--soft);border-bottom:1px solid var(--line)}
td{font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
tbody{border-bottom:1px solid var(--line)}
code{font:13px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}
@media(max-width:46rem){
thead{display:none}tbody,tr,td{display:block}
tbody{padding:.5rem 0}td{text-align:left;padding:.1rem 0}
td[data-name]::before{content:attr(data-name) " ";display:inline-block;min-width:8.5rem;
color:var(--soft)}
tr:first-child td:first-child{font-weight:600}}
"""

_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (("Content-Security-Policy", _POLICY), ("Referrer-Policy", "no-referrer"))
"""Should anything slip through ``escape``, the browser still runs and fetches nothing."""

COLUMNS = (
    "topic partition",
    "state",
    "committed",
    "position",
    "log's end",
    "lag",
    "batch",
    "last upload",
)


def page(picture: Mapping[str, Any]) -> str:
    """Return the page of what ``secor.status.picture`` gives."""
    title = escape(f"{picture['group']}: secor")
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="refresh" content="{REFRESH}">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f'<link rel="icon" href="data:,"><title>{title}</title><style>{STYLE}</style>',
            "</head><body>",
            *_head(picture),
            *_partitions(picture["partitions"]),
            *_configuration(picture["configuration"]),
            "</body></html>\n",
        ]
    )


def _head(picture: Mapping[str, Any]) -> Iterable[str]:
    yield f"<h1>{escape(picture['group'])}</h1>"
    if not picture["alive"]:
        yield '<p class="bad">The loop stands still.</p>'
    elif picture["ready"]:
        yield '<p class="well">Ready.</p>'
    for reason in picture["waiting"]:
        yield f'<p class="bad">{escape(reason)}</p>'
    hindrance = picture["hindrance"]
    if hindrance is not None and hindrance["message"] is not None:
        yield (
            f"<p>For {_ago(hindrance['age'])}: {escape(hindrance['message'])}. "
            f"{escape(hindrance['remedy'])}</p>"
        )
    yield (
        f"<p>{len(picture['assigned'])} topic partitions, {picture['lag']:,} offsets behind; "
        f"{_size(picture['buffered_bytes'])} in memory, {_size(picture['local_bytes'])} in local "
        f"files; the ledger {'answers' if picture['ledger_up'] else 'does not answer'}.</p>"
    )
    yield (
        f'<p class="soft">{escape(picture["instance"])}, secor {escape(picture["version"])}, '
        f"since {escape(picture['started'])}. As of {escape(picture['at'])}, the loop's part "
        f'{_ago(picture["snapshot_age"])} old. <a href="/status.json">JSON</a> '
        '<a href="/metrics">metrics</a></p>'
    )


def _partitions(partitions: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    heads = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
    yield f"<h2>Topic partitions</h2><table><thead><tr>{heads}</tr></thead>"
    for one in partitions:
        cells = _cells(one)
        yield f"<tbody><tr><td>{cells[0]}</td>"
        for name, cell in zip(COLUMNS[1:], cells[1:], strict=True):
            yield f'<td data-name="{escape(name)}">{cell}</td>'
        yield "</tr>"
        for note in _notes(one):
            yield f'<tr><td class="text" colspan="{len(COLUMNS)}">{note}</td></tr>'
        yield "</tbody>"
    yield "</table>"


def _cells(one: Mapping[str, Any]) -> list[str]:
    state = escape(one["state"])
    if one["state"] == "stopped":
        state = f'<span class="bad">{state}</span>'
    lag = _number(one["lag"])
    if one["lag_seconds"]:
        lag += f", {_ago(one['lag_seconds'])}"
    upload = one["last_upload"]
    return [
        f"{escape(one['topic'])}/{one['partition']}",
        state,
        _number(one["committed"]),
        _number(one["position"]),
        _number(one["end"]),
        lag,
        _batch(one["batch"]),
        f"{_ago(upload['age'])} ago" if upload else "–",
    ]


def _batch(batch: Mapping[str, Any]) -> str:
    if batch["age"] is None:
        return "–"
    return (
        f"{batch['messages']:,} messages, {_size(batch['bytes'])}, {batch['files']} files, "
        f"{_ago(batch['age'])} old"
    )


def _notes(one: Mapping[str, Any]) -> Iterable[str]:
    if one["stopped"]:
        yield f'<span class="bad">Stopped: {escape(one["stopped"])}</span>'
    if one["again_in"] is not None:
        yield f"Looked at again in {_ago(one['again_in'])}."
    if one["paused"]:
        yield f"Paused: {escape(one['paused'])}."
    if one["follows_intent_to"] is not None:
        yield f"Follows an open intent up to offset {one['follows_intent_to']}."
    if one["sealed"]:
        start, end = one["sealed"]
        doing = "is being uploaded" if one["uploading"] else "waits for its upload"
        yield f"The batch [{start}, {end}) {doing}."
    error = one["last_error"]
    if error:
        yield (
            f"Last error, {_ago(error['age'])} ago ({escape(error['kind'])}): "
            f"{escape(error['message'])} <em>{escape(error['remedy'])}</em>"
        )


def _configuration(settings: Iterable[Mapping[str, str]]) -> Iterable[str]:
    yield "<h2>Configuration</h2>"
    for one in settings:
        given = "" if one["source"] != "default" else ' class="soft"'
        source = "" if one["source"] == "default" else f" # {one['source']}"
        yield f"<p{given}><code>{escape(one['key'])} = {escape(one['value'] + source)}</code></p>"


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _ago(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
