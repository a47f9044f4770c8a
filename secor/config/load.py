"""Loading of a TOML file and the environment: a valid configuration, or all faults at once."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from secor.config import environment as variables
from secor.config import schema
from secor.config.environment import expand
from secor.config.fault_messages import fault_message, syntax_message
from secor.config.schema import Step
from secor.config.values import Section
from secor.core.errors import ConfigurationError
from secor.core.text import how_many

if TYPE_CHECKING:
    from secor.config.model import Config

ROUNDS = 10
"""The most passes of correcting a faulty tree and checking again, for hidden faults."""


Root = TypeVar("Root", bound=Section)


def load(path: Path, environment: Mapping[str, str]) -> Config:
    """Read the TOML file at ``path`` with the variables of ``environment`` over it.

    ``${NAME}`` in a text of the file is a variable, too.  Nothing is opened but the file.
    Raises ``ConfigurationError`` with every fault: its dotted key, what is wrong, and what is
    allowed.
    """
    if is_restore(path):
        raise ConfigurationError(
            f"{path}: is a restore job (group.kind); 'secor config check' and the commands of"
            " 'secor restore' read it"
        )
    from secor.config.model import Config

    config, sources = load_as(Config, path, environment)
    return config.with_sources(sources, variables.stray_variables(environment))


def is_restore(path: Path) -> bool:
    """Return whether the file is the job of a restore.  Raises ``ConfigurationError``."""
    group = _read(path).get("group")
    return isinstance(group, dict) and group.get("kind") == "restore"


def load_as(
    root: type[Root], path: Path, environment: Mapping[str, str]
) -> tuple[Root, dict[str, str]]:
    """Read a configuration of another kind, as ``load`` does; also return where keys came from."""
    unset: dict[str, str] = {}
    tree = expand(_read(path), environment, unset)
    is_empty = not tree
    sources = dict.fromkeys(map(_dotted_key, _leaves(tree, root)), "file")
    given, unknown = variables.read(environment, root)
    for variable in given:
        if _set(tree, variable.key, variable.value):
            _forget(sources, _dotted_key(variable.key))
            leaves = _leaves(variable.value, root, variable.key)
            sources |= dict.fromkeys(map(_dotted_key, leaves), f"environment {variable.name}")
    config, faults = validate_as(root, tree)
    unset = {key: message for key, message in unset.items() if _of_file(sources, key)}
    faults = {
        key: message + _from(sources, key)
        for key, message in faults.items()
        if not any(reference.startswith(f"{key}.") for reference in unset)  # reported there
    }
    # Last, so that "not set" replaces what the text of the reference itself is refused for.
    faults |= unknown | unset
    if config is None or faults:
        hint = "\n  the file is empty: 'secor config init' writes one to begin with" * is_empty
        raise ConfigurationError(report_faults(path, faults) + hint)
    return config, sources


def validate(tree: Mapping[str, Any]) -> tuple[Config | None, dict[str, str]]:
    """Return the configuration of a tree of tables, or its faults by dotted key."""
    from secor.config.model import Config

    return validate_as(Config, tree)


def validate_as(root: type[Root], tree: Mapping[str, Any]) -> tuple[Root | None, dict[str, str]]:
    """Return the configuration of a tree of tables, or its faults by dotted key.

    A fault hides others, such as those between two keys of one table: what is wrong is
    corrected and the tree is checked again.
    """
    config: Root | None = None
    faults: dict[str, str] = {}
    missing: set[str] = set()
    # A copy: the faults are shown with the values that the person wrote.
    corrected = deepcopy(dict(tree))
    for _ in range(ROUNDS):
        try:
            config = root.model_validate(corrected)
        except ValidationError as error:
            for detail in error.errors():
                steps = _steps(detail)
                if detail["type"] == "missing":
                    missing.add(_dotted_key(steps))
                if not _inherited(tree, steps, faults):
                    faults.setdefault(_dotted_key(steps), fault_message(detail, steps, root))
                _correct(corrected, steps, root)
        else:
            break
    # A missing table is reported by the keys that it needs.
    absent = {key for key in missing if any(fault.startswith(f"{key}.") for fault in faults)}
    faults = {key: message for key, message in faults.items() if key not in absent}
    return (None if faults else config), faults


def _read(path: Path) -> dict[str, Any]:
    try:
        # Editors of other systems put a byte order mark in front, which TOML does not have.
        return tomllib.loads(path.read_text("utf-8-sig"))
    except IsADirectoryError as error:
        raise ConfigurationError(f"{path}: is a directory; name a configuration file") from error
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be read ({error.strerror}); name a configuration file"
        ) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(
            f"{path}: is not TOML, which is UTF-8 text (see line {line}): save it as UTF-8"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: is not TOML: {syntax_message(error)}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{path}: its values are nested too deep") from error


def report_faults(where: object, faults: Mapping[str, str]) -> str:
    """Return what is wrong with the configuration ``where``, a line for each dotted key."""
    lines = [f"{where}: {how_many(len(faults), 'fault')} in the configuration"]
    lines += [f"  {key}: {message}" for key, message in sorted(faults.items())]
    return "\n".join(lines)


def _from(sources: Mapping[str, str], key: str) -> str:
    where = sources.get(key, "")
    return f" (from the {where})" if where.startswith("environment") else ""


def _of_file(sources: Mapping[str, str], key: str) -> bool:
    """Return whether a value, or the array that it is in, is the file's, not a variable's."""
    while key and key not in sources:
        key = key.rpartition(".")[0]
    return not sources.get(key, "file").startswith("environment")


def _steps(detail: ErrorDetails) -> tuple[Step, ...]:
    inner = detail.get("ctx", {}).get("key", "")
    below = (int(step) if step.isdigit() else step for step in inner.split(".") if step)
    return (*detail["loc"], *below)


def _inherited(tree: Mapping[str, Any], steps: Sequence[Step], faults: Mapping[str, str]) -> bool:
    """Return whether a topic rule only repeats a fault of the general tables."""
    if len(steps) < 4 or steps[0] != "topics":
        return False
    here: Any = tree
    for step in steps:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return _dotted_key(steps[2:]) in faults
    return False


def _correct(tree: dict[str, Any], steps: Sequence[Step], root: type[Section]) -> None:
    """Take a faulty value away; put one where one is missing."""
    if "transforms" in steps[:-2]:
        # What is left of a faulty transform would have faults that nobody wrote.
        end = steps.index("transforms") + 2
        harmless = {"kind": "filter", "field": "x", "exists": True}
        _set_at(tree, steps[:end], harmless)
        return
    here: Any = tree
    for step in steps[:-1]:
        if isinstance(here, dict):
            here = here.setdefault(step, {})
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            here = here[step]
        else:
            return
    last = steps[-1] if steps else ""
    example = schema.example_at(steps, root)
    if isinstance(here, dict) and last in here and example is None:
        # Away with it, so that its default is checked with the others: a value in its place could
        # have faults of its own.
        del here[last]
    elif isinstance(here, dict):
        here[last] = {} if schema.section_at(steps, root) else example
    elif isinstance(here, list) and isinstance(last, int) and last < len(here):
        # The others keep their places, so that their faults keep their keys.
        here[last] = {"match": ""} if steps[:-1] == ("topics",) else ""


def _set_at(tree: Any, steps: Sequence[Step], value: object) -> None:
    """Put a value where one is."""
    for step in steps[:-1]:
        tree = tree[step]
    tree[steps[-1]] = value


def _set(tree: dict[str, Any], key: Sequence[str], value: object) -> bool:
    here: Any = tree
    for step in key[:-1]:
        here = here.setdefault(step, {})
        if not isinstance(here, dict):
            return False
    here[key[-1]] = value
    return True


def _forget(sources: dict[str, str], key: str) -> None:
    for name in [name for name in sources if name == key or name.startswith(key + ".")]:
        del sources[name]


def _leaves(
    value: object, root: type[Section], before: tuple[Step, ...] = ()
) -> Iterator[tuple[Step, ...]]:
    """Yield the keys below a value: into tables and into ``[[topics]]``, not into arrays."""
    if isinstance(value, dict) and _is_section(before, root):
        for key, inner in value.items():
            yield from _leaves(inner, root, (*before, key))
    elif isinstance(value, list) and before == ("topics",):
        for index, inner in enumerate(value):
            yield from _leaves(inner, root, (*before, index))
    else:
        yield before


def _is_section(steps: Sequence[Step], root: type[Section]) -> bool:
    """Return whether a table at ``steps`` is a section, not a value such as ``store.s3.tags``."""
    return schema.section_at(steps, root) is not None


def _dotted_key(steps: Sequence[Step]) -> str:
    return ".".join(map(str, steps))
