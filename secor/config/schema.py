"""Which keys the configuration has, read from its models: secrets, sections, nearest names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr

from secor.config.values import Section

Step = str | int


def root_of(root: type[Section] | None) -> type[Section]:
    """Return ``root``, or the configuration of a group, which a restore does not load."""
    if root is not None:
        return root
    from secor.config.model import Config

    return Config


def section_at(steps: Sequence[Step], root: type[Section] | None = None) -> type[Section] | None:
    """Return the model of the table at ``steps`` below ``root``; None where there is no table."""
    here: Any = root_of(root)
    for step in steps:
        here = element_of(here) if isinstance(step, int) else type_at(here, step)
        if here is None:
            return None
    return here if isinstance(here, type) and issubclass(here, Section) else None


def element_of(annotation: Any) -> Any:
    """Return the type of the tables of an array of tables; None for other types."""
    element = get_args(annotation)[0] if get_origin(annotation) is tuple else None
    return element if isinstance(element, type) and issubclass(element, Section) else None


def type_at(section: Any, key: Step) -> Any:
    """Return the annotation of a section's key; None where there is no such key."""
    if not (isinstance(section, type) and issubclass(section, Section)):
        return None
    field = section.model_fields.get(str(key))
    return field.annotation if field else None


def example_at(steps: Sequence[Step], root: type[Section] | None = None) -> Any:
    """Return a value that corrects the key at ``steps``; None where it may as well be absent."""
    section = section_at(steps[:-1], root) if steps else None
    field = section.model_fields.get(str(steps[-1])) if section else None
    if field is None or not (field.is_required() or steps[-1] == "topics_pattern"):
        return None
    return field.examples[0] if field.examples else None


def members(annotation: Any) -> tuple[Any, ...]:
    """Return the types of a union, looking through ``Annotated``."""
    if get_origin(annotation) is Annotated:
        return members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return tuple(inner for part in get_args(annotation) for inner in members(part))
    return (annotation,)


def is_text(annotation: Any) -> bool:
    """Return whether a key holds text, so that its value must not be read as anything else."""
    return any(
        part in (str, SecretStr, Path) or get_origin(part) is Literal
        for part in members(annotation)
    )


def is_secret(steps: Sequence[Step], root: type[Section] | None = None) -> bool:
    """Return whether the key at ``steps`` is never to be shown."""
    section = section_at(steps[:-1], root) if steps else None
    return SecretStr in members(type_at(section, steps[-1])) if section else False


def every_key(
    section: type[Section] | None = None, before: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yield every key that holds a value, ``("kafka", "topics")``; ``topics`` counts as one."""
    for name, field in root_of(section).model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from every_key(inner, (*before, name))
        else:
            yield (*before, name)


def suggestion(steps: Sequence[Step], root: type[Section] | None = None) -> str:
    """Return what a person who wrote the unknown key at ``steps`` may have meant."""
    section, wrong = section_at(steps[:-1], root), str(steps[-1])
    known = list(section.model_fields) if section else []
    table = "".join(f"{step}." for step in steps[:-1])
    near = get_close_matches(wrong, known, n=1, cutoff=0.6)
    if near:
        return f"unknown key; did you mean {table}{near[0]}?"
    elsewhere = [".".join(path) for path in every_key(root) if path[-1] == wrong]
    if elsewhere:
        return f"unknown key here; did you mean {' or '.join(elsewhere)}?"
    return f"unknown key; known here: {', '.join(known)}"


def keys_of(name: str) -> tuple[str, ...]:
    """Return the keys of a section."""
    section = section_at((name,))
    assert section is not None
    return tuple(section.model_fields)
