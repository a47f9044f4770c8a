"""``/``: the picture as plain HTML, readable on a phone; no script, nothing from outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from secor.core.text import how_many
from secor.service.status.cells import (
    Row,
    ago,
    html_table,
    parts,
    sentence,
    show_number,
    show_size,
    show_time,
    word,
)
from secor.service.status.style import STYLE
from secor.service.status.table_section import table_section

REFRESH = 5
"""Seconds after which the browser asks again."""

COLUMNS = (
    "topic partition",
    "state",
    "committed",
    "position",
    "log's end",
    "lag",
    "open batch",
    "last upload",
)

Picture = Mapping[str, Any]


def page(picture: Picture) -> str:
    """Return the page of what ``secor.service.status.picture`` gives."""
    title = escape(f"{picture['group']}: secor")
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="refresh" content="{REFRESH}">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f'<link rel="icon" href="data:,"><title>{title}</title><style>{STYLE}</style>',
            "</head><body>",
            *_head(picture),
            *_tables(picture),
            *_partitions(picture["partitions"]),
            *_configuration(picture["configuration"]),
            "</body></html>\n",
        ]
    )


def _head(picture: Picture) -> Iterable[str]:
    yield f"<h1>{escape(picture['group'])}</h1>"
    yield (
        f'<p class="soft">{escape(picture["instance"])}, secor {escape(picture["version"])}, '
        f"decoder: {escape(picture['decoder'])}, since {show_time(picture['started'])}. "
        f"As of {show_time(picture['at'])}, the loop's part "
        f'{ago(picture["snapshot_age"])} old. <a href="/status.json">JSON</a> '
        '<a href="/metrics">metrics</a></p>'
    )
    for reason in picture["waiting"]:
        yield f'<p class="bad">{escape(reason)}</p>'
    hindrance = picture["hindrance"]
    if hindrance is not None and hindrance["message"] is not None:
        yield (
            f"<p>For {ago(hindrance['age'])}: {sentence(hindrance['message'])} "
            f"<em>{escape(hindrance['remedy'])}</em></p>"
        )
    stopped = [partition for partition in picture["partitions"] if partition["stopped"]]
    if stopped:
        links = (
            f'<a href="#{escape(_name(partition))}">{escape(_name(partition))}</a>'
            for partition in stopped
        )
        yield f'<p class="bad">Stopped: {", ".join(links)}</p>'
    yield '<dl class="tiles">'
    for name, value in _tiles(picture):
        yield f"<div><dt>{name}</dt><dd>{value}</dd></div>"
    yield "</dl>"


def _tiles(picture: Picture) -> Iterable[tuple[str, str]]:
    partitions = picture["partitions"]
    ready = word("ready", "well") if picture["ready"] else word("not ready", "bad")
    yield "this process", ready if picture["alive"] else word("stands still", "bad")
    words = {True: "answers", False: word("does not answer", "bad"), None: "–"}
    # At the start nobody knows yet.
    yield "ledger", words[picture["ledger_up"]]
    states = Counter(partition["state"] for partition in partitions)
    yield "topic partitions", f"{len(partitions):,}"
    for state, count in states.items():
        if state != "reading":
            yield f"of them {escape(state)}", f"{count:,}"
    yield "offsets behind", show_number(picture["lag"])
    waits = [partition["oldest_uncommitted"] for partition in partitions]
    yield "oldest not stored", ago(max((it for it in waits if it is not None), default=0))
    yield "in memory", show_size(picture["buffered_bytes"])
    yield "in local files", show_size(picture["local_bytes"])


def _tables(picture: Picture) -> Iterable[str]:
    if picture["coordination"] is not None:
        yield from table_section(picture["coordination"], picture["tables"])


def _partitions(partitions: Sequence[Picture]) -> Iterable[str]:
    yield "<h2>Topic partitions</h2>"
    if not partitions:
        yield "<p>None are assigned.</p>"
        return
    yield from html_table(
        COLUMNS,
        (
            Row(_name(partition), _cells(partition), _notes(partition), anchor=_name(partition))
            for partition in partitions
        ),
    )


def _name(partition: Picture) -> str:
    return f"{partition['topic']}/{partition['partition']}"


def _cells(partition: Picture) -> list[str]:
    upload = partition["last_upload"]
    behind = [show_number(partition["lag"])]
    if partition["lag_seconds"]:
        behind.append(ago(partition["lag_seconds"]))
    return [
        _state(partition),
        show_number(partition["committed"]),
        show_number(partition["position"]),
        show_number(partition["end"]),
        parts(behind),
        _batch(partition["batch"]),
        f"{ago(upload['age'])} ago" if upload else "–",
    ]


def _state(partition: Picture) -> str:
    if partition["state"] == "stopped":
        return word("stopped", "bad")
    texts = [partition["state"]]
    if partition["paused"]:
        texts.append("paused")
    if partition["uploading"]:
        texts.append("uploading")
    return parts(texts)


def _batch(batch: Picture) -> str:
    if batch["age"] is None:
        return "–"
    return parts(
        [
            how_many(batch["messages"], "message"),
            show_size(batch["bytes"]),
            how_many(batch["files"], "file"),
            f"{ago(batch['age'])} old",
        ]
    )


def _notes(partition: Picture) -> Iterable[str]:
    error = partition["last_error"]
    if partition["stopped"]:
        yield f'<span class="bad">Stopped: {escape(partition["stopped"])}</span>'
    if partition["again_in"] is not None:
        yield f"Looked at again in {ago(partition['again_in'])}."
    if partition["paused"]:
        yield f"Paused: {escape(partition['paused'])}."
    if partition["follows_intent_to"] is not None:
        yield (
            "Open intent of an earlier process: the batch ends exactly at "
            f"{show_number(partition['follows_intent_to'])}."
        )
    if partition["sealed"]:
        yield _sealed(partition)
    if error:
        again = error["message"] == partition["stopped"]
        message = "as above." if again else sentence(error["message"])
        yield (
            f"Last error at {show_time(error['at'])}, {ago(error['age'])} ago "
            f"({escape(error['kind'])}): {message} <em>{escape(error['remedy'])}</em>"
        )


def _sealed(partition: Picture) -> str:
    start, end = map(show_number, partition["sealed"])
    age = partition["oldest_uncommitted"]
    old = "" if age is None else f" It is {ago(age)} old."
    if partition["uploading"]:
        return f"The batch [{start}, {end}) is being uploaded under an intent of this process.{old}"
    return f"The batch [{start}, {end}) waits for its upload.{old}"


def _configuration(settings: Sequence[Mapping[str, str]]) -> Iterable[str]:
    given = [setting for setting in settings if setting["source"] != "default"]
    yield '<h2>Configuration</h2><p class="soft">Durations in seconds, sizes in bytes.</p>'
    yield '<div class="set">'
    for setting in given:
        line = f"{setting['key']} = {setting['value']}"
        source = escape(f"# {setting['source']}")
        yield f'<p><code>{escape(line)} <span class="soft">{source}</span></code></p>'
    yield '</div><h2>Defaults</h2><div class="unset">'
    for setting in settings:
        if setting["source"] == "default":
            yield f"<p><code>{escape(setting['key'])} = {escape(setting['value'])}</code></p>"
    yield "</div>"
