"""Report of an import: what became of each property, and what is left to do."""

from __future__ import annotations

from collections.abc import Iterator

from secor.config.translation.draft import Draft, Outcome


def needs_a_person(draft: Draft) -> bool:
    """Tell whether something was left that only a person can settle."""
    left = (Outcome.UNSUPPORTED, Outcome.UNKNOWN)
    return any(outcome in left for outcome, _ in draft.outcomes.values())


def report(draft: Draft) -> Iterator[str]:
    """Yield the lines: the most pressing ones last, where a terminal shows them."""
    for outcome in (Outcome.MAPPED, Outcome.UNNEEDED, Outcome.UNKNOWN, Outcome.UNSUPPORTED):
        names = [name for name in draft.properties if draft.outcomes[name][0] is outcome]
        if not names:
            continue
        yield f"{outcome.value} ({len(names)})"
        yield from (
            _group_by_reason(draft, names) if outcome is Outcome.UNNEEDED else _each(draft, names)
        )
    empty = sum(outcome is Outcome.EMPTY for outcome, _ in draft.outcomes.values())
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
