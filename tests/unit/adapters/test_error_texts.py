"""No error of a library is told without its class, and none with a password."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import EndpointConnectionError, ProxyConnectionError

import secor.adapters
from secor.adapters.s3.failures import translated
from secor.core import errors
from secor.core.errors import Unavailable

ADAPTERS = Path(secor.adapters.__file__).parent
OWN = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
TOLD_BY_THEMSELVES = {"OSError", "MsgspecError", "error", "ValueError", "ImportError"}
TOLD_BY_THEMSELVES |= {"AttributeError", "UnicodeDecodeError", "RecursionError"}
"""The system's own errors, and those of parsers of texts: they always have a text."""

MODULES = [
    path
    for path in sorted(ADAPTERS.rglob("*.py"))
    # Its errors are described by a table of their own.
    if "iceberg" not in path.parts
]


def handled(handler: ast.ExceptHandler) -> set[str]:
    """Return the names of the classes that a handler takes."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(kind).rpartition(".")[2] for kind in kinds if kind is not None}


def bare(path: Path) -> Iterator[str]:
    """Give where a text has a library's error in it as it is."""
    for handler in ast.walk(ast.parse(path.read_text())):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        if handled(handler) <= OWN | TOLD_BY_THEMSELVES:
            continue
        for node in ast.walk(handler):
            if isinstance(node, ast.FormattedValue) and ast.unparse(node.value) == handler.name:
                yield f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ADAPTERS)))
def test_errors_of_libraries_are_told_by_error_text(path: Path) -> None:
    assert list(bare(path)) == []


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="http://me:se/cret@store:9000/bucket"),
        ProxyConnectionError(proxy_url="http://me:se/cret@proxy:3128", error="refused"),
    ],
)
def test_no_password_of_an_address_is_told(error: Exception) -> None:
    with pytest.raises(Unavailable) as told, translated("put s3://bucket/key"):
        raise error
    text = str(told.value)
    assert "cret" not in text
    assert "me:" not in text
    assert type(error).__name__ in text
