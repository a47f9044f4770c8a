"""Messages about wrong values of the configuration, in the words of TOML and of its reader."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date, time
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails

from secor.config import schema
from secor.config.schema import Step
from secor.config.values import Section
from secor.core.text import mask_urls

_INTEGER = "must be a whole number, such as 1000"
_NUMBER = "must be a number, such as 0.5"
_SWITCH = "must be true or false"
_TEXT = "must be text, in quotes"
_TIME = "must be a time, such as 2026-01-31T12:00:00Z"

_PLAIN = {
    "int_type": _INTEGER,
    "int_parsing": _INTEGER,
    "int_parsing_size": _INTEGER,
    "int_from_float": _INTEGER,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be finite",
    "bool_type": _SWITCH,
    "bool_parsing": _SWITCH,
    "string_type": _TEXT,
    "path_type": _TEXT,
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "string_too_long": "may have {max_length} characters at most",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}
"""What the library calls a fault, and what we do; with the values that the library adds."""

_HINTS = (
    (r"Invalid value", "text needs quotes, and each key a value"),
    (r"Illegal character '\\[nr]'", "a text ends with its quote on the line where it begins"),
    (r"Cannot overwrite a value", "a key is there twice: keep one"),
    (r"Cannot (?:declare|mutate)", "the table {table} is there twice: put its keys together"),
)


def fault_message(detail: ErrorDetails, steps: Sequence[Step], root: type[Section]) -> str:
    """Return what is wrong with the value at ``steps``, what is allowed, and what it is.

    Secrets, tables and arrays are not shown.
    """
    kind, given = detail["type"], detail["input"]
    if kind == "secor":
        return str(detail["ctx"]["message"])
    if kind == "missing":
        return _missing(steps, root)
    if kind == "extra_forbidden":
        return schema.suggestion(steps, root)
    if kind == "string_too_short":
        return "must not be empty"
    message, hint = _expected(detail, steps, root), ""
    if schema.is_secret(steps, root) or isinstance(given, dict | list):
        return message
    if kind == "literal_error":
        hint = _nearest(given, message)
    return f"{message}; it is {mask_urls(_as_toml(given))}{hint}"


def syntax_message(error: tomllib.TOMLDecodeError) -> str:
    """Return what TOML's parser says, with what to do about the commonest mistakes."""
    text = str(error)
    for expression, hint in _HINTS:
        if re.match(expression, text):
            table = ".".join(re.findall(r"'([^']*)'", text))
            return f"{text}: {hint.format(table=f'[{table}]')}"
    return text


def _missing(steps: Sequence[Step], root: type[Section]) -> str:
    example = schema.example_at(steps, root)
    if example is None:
        return "is missing and has no default"
    return f"is missing; write it as {steps[-1]} = {_as_toml(example)}"


def _expected(detail: ErrorDetails, steps: Sequence[Step], root: type[Section]) -> str:
    kind, given = detail["type"], detail.get("ctx", {})
    if kind in _PLAIN:
        return _PLAIN[kind].format_map(given)
    if kind == "literal_error":
        return f"must be {given['expected']}".replace("'", '"')
    if kind == "tuple_type":
        return _array(steps, root)
    if kind in ("model_type", "dict_type"):
        return _table(steps, root)
    return detail["msg"].replace("Input should be", "must be")


def _array(steps: Sequence[Step], root: type[Section]) -> str:
    annotation = schema.type_at(schema.section_at(steps[:-1], root), steps[-1])
    if schema.element_of(annotation) is None:
        return 'must be an array, such as ["a", "b"]'
    return f"must be an array of tables: write [[{_name(steps)}]] above the keys of each"


def _table(steps: Sequence[Step], root: type[Section]) -> str:
    if schema.section_at(steps, root) is None:
        return 'must be a table, such as {name = "value"}'
    inside = f"[[{_name(steps)}]]" if isinstance(steps[-1], int) else f"[{_name(steps)}]"
    return f"must be a table: write its keys below {inside}"


def _name(steps: Sequence[Step]) -> str:
    return ".".join(str(step) for step in steps if isinstance(step, str))


def _nearest(given: object, message: str) -> str:
    words: Mapping[str, str] = {word.lower(): word for word in re.findall('"([^"]+)"', message)}
    near = get_close_matches(str(given).lower(), words, 1)
    return f'; did you mean "{words[near[0]]}"?' if near else ""


def _as_toml(value: Any) -> str:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, str | bool | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
