"""Report of an import: what became of each property, and what is left to do."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Callable, Iterator

from secor.config.load import validate
from secor.config.show import toml_value
from secor.config.translation.draft import Draft, Line, PropertyOutcome
from secor.core.errors import ConfigurationError

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
    "parser.key",
    "policy",
    "catalog",
    "rows",
    "commit",
    "hudi",
    "finalize",
    "local",
    "metrics",
)

_WIDTH = 100


def finish(
    draft: Draft, about: str, source: str, rest: Callable[[str], tuple[PropertyOutcome, str]]
) -> tuple[str, Draft]:
    """Return the file, which begins with the comment ``about``, and what became of each property.

    ``rest`` says what to report of a property that no converter has looked at.  Raises
    ``ConfigurationError`` with everything that makes a valid configuration impossible, by the
    properties' names; ``source`` names where they came from.
    """
    for name in draft.properties:
        if name not in draft.outcomes:
            empty = not draft.value(name)
            draft.outcomes[name] = (PropertyOutcome.EMPTY, "") if empty else rest(name)
    _refuse(source, draft.faults)
    text = render(draft, about)
    _, faults = validate(tomllib.loads(text))
    _refuse(source, [f"{_origin(draft, key)}: {fault}" for key, fault in faults.items()])
    return text, draft


def _refuse(source: str, faults: list[str]) -> None:
    if faults:
        head = f"{source}: no configuration of ours can be made of it"
        raise ConfigurationError("\n  ".join([head, *faults]))


def _origin(draft: Draft, key: str) -> str:
    """Name a faulty key by the properties that it came from."""
    steps = key.split(".")
    lines = draft.lines
    if len(steps) > 1 and steps[1].isdigit():
        several = {"topics": list(draft.rules.values()), "tables": draft.tables}
        if steps[0] in several:
            lines, steps = several[steps[0]][int(steps[1])], steps[2:]
    own = ".".join(steps)
    names = dict.fromkeys(
        name for line in lines if own in (line.key, "match") for name in line.names
    )
    return f"{key} (from {', '.join(names)})" if names else key


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


def needs_a_person(draft: Draft) -> bool:
    """Return whether something was left that only a person can settle."""
    left = (PropertyOutcome.UNSUPPORTED, PropertyOutcome.UNKNOWN)
    return any(outcome in left for outcome, _ in draft.outcomes.values())


def report(draft: Draft) -> Iterator[str]:
    """Yield the lines: the most pressing ones last, where a terminal shows them."""
    for outcome in (
        PropertyOutcome.MAPPED,
        PropertyOutcome.UNNEEDED,
        PropertyOutcome.UNKNOWN,
        PropertyOutcome.UNSUPPORTED,
    ):
        names = [name for name in draft.properties if draft.outcomes[name][0] is outcome]
        if not names:
            continue
        yield f"{outcome.value} ({len(names)})"
        yield from (
            _group_by_reason(draft, names)
            if outcome is PropertyOutcome.UNNEEDED
            else _each(draft, names)
        )
    empty = sum(outcome is PropertyOutcome.EMPTY for outcome, _ in draft.outcomes.values())
    if empty:
        yield f"empty, so as good as not there ({empty})"
    yield from _oddities(draft)
    if draft.todos:
        yield "still to be done"
        yield from (f"  - {todo}" for todo in dict.fromkeys(draft.todos))


def _each(draft: Draft, names: list[str]) -> Iterator[str]:
    for name in names:
        why = draft.outcomes[name][1]
        yield f"  {name} ({draft.properties.place(name)})" + (f": {why}" if why else "")


def _group_by_reason(draft: Draft, names: list[str]) -> Iterator[str]:
    reasons = dict.fromkeys(draft.outcomes[name][1] for name in names)
    for why in reasons:
        listed = ", ".join(name for name in names if draft.outcomes[name][1] == why)
        yield f"  {why}: {listed}"


def _oddities(draft: Draft) -> Iterator[str]:
    again = list(draft.properties.without_effect())
    if again:
        yield (
            "written more than once: Java Secor takes the first, also where an included file has"
            " it, and so does this"
        )
        for name, ignored in again:
            first = draft.properties.place(name)
            yield f"  {name}: {ignored.place} never counted, {first} does ({_display(draft, name)})"
    if draft.properties.ignored:
        yield "lines that Java Secor passes over"
        yield from (f"  {line}" for line in draft.properties.ignored)


def _display(draft: Draft, name: str) -> str:
    if any(word in name for word in ("secret", "password", "token", "jaas", ".key")):
        return "not shown"
    return draft.properties.text(name) or "empty"
