"""Printing of an imported configuration as TOML that says where each value came from."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from secor.config.show import toml_value
from secor.config.translation.draft import Draft, Line

_SECTIONS = (
    "group",
    "kafka",
    "ledger",
    "ledger.zookeeper",
    "store",
    "store.s3",
    "store.gcs",
    "store.azure",
    "output",
    "parser",
    "policy",
    "catalog",
    "rows",
    "commit",
    "finalize",
    "local",
    "metrics",
)

_WIDTH = 100


def render(draft: Draft, about: str) -> str:
    """Return the file, which begins with the comment ``about``.  Secrets are not in it."""
    blocks = [about]
    for section in _SECTIONS:
        lines = [line for line in draft.lines if line.key.rpartition(".")[0] == section]
        if lines:
            blocks.append("\n".join([f"[{section}]", *_lines(lines, f"{section}.")]))
    blocks += ["\n".join(["[[tables]]", *_lines(route, "")]) for route in draft.tables]
    for match, lines in draft.rules.items():
        head = ["[[topics]]", f"match = {toml_value(match)}"]
        blocks.append("\n".join([*head, *_lines(lines, "")]))
    return "\n\n".join(blocks) + "\n"


def _lines(lines: list[Line], section: str) -> Iterator[str]:
    for line in lines:
        if line.note:
            yield f"# {line.note}"
        setting = f"{line.key.removeprefix(section)} = {toml_value(line.value)}"
        whole = f"{setting}  # {', '.join(line.names)}" if line.names else setting
        if len(whole) <= _WIDTH:
            yield whole
            continue
        names = textwrap.wrap(", ".join(line.names), _WIDTH - 2, break_on_hyphens=False)
        yield from (f"# {part}" for part in names)
        yield setting
