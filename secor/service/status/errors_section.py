"""What is wrong now, above everything else on the page: servers, then errors of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from secor.core.text import how_many
from secor.service.status.cells import ago, sentence, show_time, word

NAMED = 10
"""Topic partitions of an error that are named without a click."""

Picture = Mapping[str, Any]


def errors_section(picture: Picture) -> Iterable[str]:
    """Give a list of ``servers`` that fail and of ``errors``; nothing when all is well."""
    failing = [server for server in picture["servers"] if server["answers"] is False]
    messages = {server["last_error"]["message"] for server in failing if server["last_error"]}
    lines = [
        *map(_server, failing),
        *(
            _error(error, f"error-{number}", is_shown=error["message"] in messages)
            for number, error in enumerate(picture["errors"])
        ),
    ]
    if lines:
        yield '<ul class="errors">'
        yield from (f"<li>{line}</li>" for line in lines)
        yield "</ul>"


def _server(server: Picture) -> str:
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
    """``is_shown`` says that a server failed with it, which stands above."""
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
