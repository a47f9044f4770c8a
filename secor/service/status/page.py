"""``/``: the picture as plain HTML, readable on a phone; nothing from outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from secor.core.text import how_many
from secor.service.monitoring.lag import LONG
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
from secor.service.status.table_section import table_section

NAMED = 10
"""Topic partitions of an error that are named without a click."""


def errors_section(picture: Picture) -> Iterable[str]:
    """Give a list of ``servers`` that fail and of ``errors``; nothing when all is well."""
    failing = [server for server in picture["servers"] if server["answers"] is False]
    messages = {server["last_error"]["message"] for server in failing if server["last_error"]}
    lines = [
        *map(_failing_server, failing),
        *(
            _error(error, f"error-{number}", is_shown=error["message"] in messages)
            for number, error in enumerate(picture["errors"])
        ),
    ]
    if lines:
        yield '<ul class="errors">'
        yield from (f"<li>{line}</li>" for line in lines)
        yield "</ul>"


def _failing_server(server: Picture) -> str:
    name, error = server["server"], server["last_error"]
    since = f"since {show_time(server['failing_since'])} ({ago(server['failing_age'])})"
    begin = f"{word(name[0].upper() + name[1:], 'bad')}: no answer as it should {since}."
    if error is None:
        return begin
    return (
        f"{begin} {ago(error['age'])} ago: {sentence(error['message'])} "
        f"<em>{escape(error['remedy'])}</em>"
    )


def _error(error: Picture, anchor: str, *, is_shown: bool) -> str:
    """``is_shown`` says that a server failed with it, which is shown above."""
    names = error["partitions"]
    kind = f"stopped, {error['kind']}" if error["stopped"] else error["kind"]
    message = f"{sentence(error['message'])} <em>{escape(error['remedy'])}</em>"
    if is_shown:
        message = "as above."
    return (
        f"{word(kind, 'bad')} in {how_many(len(names), 'topic partition')} "
        f"since {show_time(error['since'])} ({ago(error['since_age'])}), "
        f"last {ago(error['age'])} ago: {message} {_links(names, anchor)}"
    )


def _links(names: list[str], anchor: str) -> str:
    links = [f'<a href="#{escape(name)}">{escape(name)}</a>' for name in names]
    shown, rest = ", ".join(links[:NAMED]), ", ".join(links[NAMED:])
    if not rest:
        return shown
    more = f"<summary>and {len(names) - NAMED:,} more</summary>"
    return f'{shown} <details id="{anchor}">{more} {rest}</details>'


LATE = 5.0
"""Seconds after which something is old that is renewed every second."""

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
    return document(
        f"{picture['group']}: secor",
        [
            *_head(picture),
            *_tables(picture),
            *_cluster(picture["cluster"]),
            *_partitions(picture["partitions"], picture["errors"]),
            *_configuration(picture["configuration"]),
        ],
    )


def _head(picture: Picture) -> Iterable[str]:
    yield f"<h1>{escape(picture['group'])}</h1>"
    yield (
        f'<p class="soft">{escape(picture["instance"])}, secor {escape(picture["version"])}, '
        f"decoder: {escape(picture['decoder'])}, running since {show_time(picture['started'])}. "
        f'As of {show_time(picture["at"])}. <a href="/status.json">JSON</a> '
        '<a href="/metrics">metrics</a></p>'
    )
    if picture["snapshot_age"] > LATE:
        yield (
            f'<p class="bad">The loop has reported nothing for {ago(picture["snapshot_age"])}: '
            "the topic partitions below are as of then.</p>"
        )
    for reason in picture["waiting"]:
        yield f'<p class="bad">{escape(reason)}</p>'
    hindrance = picture["hindrance"]
    if hindrance is not None and hindrance["message"] is not None:
        yield (
            f"<p>For {ago(hindrance['age'])}: {sentence(hindrance['message'])} "
            f"<em>{escape(hindrance['remedy'])}</em></p>"
        )
    yield from html_tiles(_tiles(picture))
    yield from errors_section(picture)


def _tiles(picture: Picture) -> Iterable[tuple[str, str]]:
    partitions = picture["partitions"]
    ready = word("ready", "well") if picture["ready"] else word("not ready", "bad")
    yield "this process", ready if picture["alive"] else word("stuck", "bad")
    for server in picture["servers"]:
        yield server["server"].removeprefix("the "), _server(server)
    yield "topic partitions", f"{len(partitions):,}"
    states = Counter(partition["state"] for partition in partitions)
    for state, count in states.items():
        if state != "reading":
            value = f"{count:,}"
            yield f"of them {state}", word(value, "bad") if state == "stopped" else value
    unknown = sum(partition["lag"] is None for partition in partitions)
    more = f", {unknown:,} not known" if unknown else ""
    yield "offsets behind", f"{picture['lag']:,}{more}"
    if picture["withheld"]:
        yield "behind open transactions", _withheld(picture["withheld"], partitions)
    waits = [partition["oldest_uncommitted"] for partition in partitions]
    oldest = max((wait for wait in waits if wait is not None), default=None)
    yield "oldest not stored", "–" if oldest is None else ago(oldest)
    yield "in memory", show_size(picture["buffered_bytes"])
    yield "in local files", show_size(picture["local_bytes"])


def _withheld(offsets: int, partitions: Sequence[Picture]) -> str:
    waiting = [partition["withheld"] for partition in partitions if partition["withheld"]]
    longest = max(part["seconds"] for part in waiting)
    text = f"{offsets:,}, for {ago(longest)}"
    return word(text, "bad") if longest >= LONG else text


def _server(server: Picture) -> str:
    if server["answers"] is None:
        return "–"  # at the start nobody knows yet
    if server["answers"]:
        now = server["answered_age"] <= LATE
        return word("answers", "well") if now else f"answered {ago(server['answered_age'])} ago"
    return word(f"fails for {ago(server['failing_age'])}", "bad")


def _tables(picture: Picture) -> Iterable[str]:
    if picture["coordination"] is not None:
        yield from table_section(picture["coordination"], picture["tables"])


def _cluster(kinds: Sequence[Picture]) -> Iterable[str]:
    if not kinds:
        return
    yield "<h2>Kept of the cluster</h2>"
    rows = (
        StatusRow(
            kind["kind"],
            ["never" if kind["age"] is None else f"{ago(kind['age'])} ago"],
            [f'<span class="bad">{sentence(kind["error"])}</span>'] if kind["error"] else [],
        )
        for kind in kinds
    )
    yield from html_table(("kind", "looked at"), rows)


def _partitions(partitions: Sequence[Picture], errors: Sequence[Picture]) -> Iterable[str]:
    yield "<h2>Topic partitions</h2>"
    if not partitions:
        yield "<p>None are assigned.</p>"
        return
    named = {name for error in errors for name in error["partitions"]}
    rows = ((_name(partition), partition) for partition in partitions)
    yield from html_table(
        COLUMNS,
        (
            StatusRow(
                name, _cells(partition), _notes(partition, is_named=name in named), anchor=name
            )
            for name, partition in rows
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


def _notes(partition: Picture, *, is_named: bool) -> Iterable[str]:
    """``is_named`` says that the error is above the table, once for all that have it."""
    error = partition["last_error"]
    if partition["stopped"]:
        since = partition["stopped_age"]
        how_long = "" if since is None else f" for {ago(since)}"
        as_above = is_named and error["message"] == partition["stopped"]
        why = "see above." if as_above else escape(partition["stopped"])
        yield f'<span class="bad">Stopped{how_long}: {why}</span>'
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
    if partition["withheld"]:
        waiting = partition["withheld"]
        offsets = how_many(waiting["offsets"], "offset waits", "offsets wait")
        yield f"For {ago(waiting['seconds'])} {offsets} behind {escape(waiting['behind'])}."
    if error and is_named and not partition["stopped"]:
        yield (
            f'<span class="bad">{escape(error["kind"])}</span> for {ago(error["since_age"])}, '
            f"last {ago(error['age'])} ago: see above."
        )
    elif error and not is_named:
        yield (
            f'<span class="soft">Over: {escape(error["kind"])}, {ago(error["age"])} ago: '
            f"{sentence(error['message'])}</span>"
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
