"""Two modules know the client's insides, and one guard knows all that they use."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.consumer.fetcher import Fetcher

from secor.adapters.kafka import guard, insides
from secor.core.errors import ConfigurationError

ADAPTER = Path(insides.__file__).parent
PUBLIC = {"kafka", "kafka.admin", "kafka.errors", "kafka.structs"}
INSIDES = {ADAPTER / "insides.py", ADAPTER / "fetch_requests.py"}
OTHERS = [path for path in sorted(ADAPTER.glob("*.py")) if path not in INSIDES]


def underscored(path: Path) -> Iterator[str]:
    """Give the underscore attributes that a module reads of what is not its own object."""
    tree = ast.parse(path.read_text())
    own = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    own |= {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            of_self = isinstance(node.value, ast.Name) and node.value.id == "self"
            if not (of_self and node.attr in own) and not node.attr.startswith("__"):
                yield node.attr


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.name)
def test_no_other_module_reaches_for_the_clients_insides(path: Path) -> None:
    assert list(underscored(path)) == []
    imported = {
        node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kafka"
    }
    assert imported <= PUBLIC


def test_the_guard_names_every_private_attribute_that_is_used() -> None:
    used = {name for path in INSIDES for name in underscored(path)}
    tree = ast.parse((ADAPTER / "insides.py").read_text())
    # What a class of ours overrides is called by the client, by its own name for it.
    for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) if node.bases):
        used |= {
            part.name
            for part in kind.body
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            if part.name.startswith("_") and not part.name.startswith("__")
        }
    guarded = {name for table in (guard.OF_CLASSES, guard.OF_CONSUMER) for name in table.split()}
    assert len(used) > 20
    assert used <= guarded


def consumer() -> Any:
    """Return all that the guard asks of a consumer."""
    made = SimpleNamespace()
    for line in guard.OF_CONSUMER.strip().splitlines():
        part, _, attributes = line.partition(":")
        holder = made.__dict__.setdefault(part, SimpleNamespace()) if part else made
        for attribute in attributes.split():
            holder.__dict__.setdefault(attribute, SimpleNamespace())
    return made


def test_the_installed_client_is_taken() -> None:
    guard.check(consumer())


def test_another_client_is_refused_with_what_it_lacks_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = consumer()
    del other._fetcher._session_handlers
    monkeypatch.delattr(Fetcher, "_parse_fetched_data")
    with pytest.raises(ConfigurationError) as refused:
        guard.check(other)
    assert "no Fetcher._parse_fetched_data, KafkaConsumer._fetcher._session_handlers" in str(
        refused.value
    )
    assert f"pip install 'kafka-python=={insides.VERSION}'" in str(refused.value)


def test_the_pinned_version_is_the_one_that_the_guard_recommends() -> None:
    setup = (ADAPTER.parents[2] / "setup.py").read_text()
    assert f'"kafka-python=={insides.VERSION}"' in setup


def test_two_requests_for_a_partition_differ_where_a_field_of_them_does() -> None:
    insides.compare_fetches_at_once()
    asked = dict.fromkeys(insides.FETCH_FIELDS, 1)
    one = insides.FetchPartition(**asked)
    assert one == insides.FetchPartition(**asked)
    assert one != object()
    for name in insides.FETCH_FIELDS:
        assert one != insides.FetchPartition(**{**asked, name: 2}), name


def test_a_request_for_a_partition_has_no_field_that_is_not_compared() -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(Fetcher._create_fetch_requests)))
    (made,) = (
        call
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "_FetchPartition"
    )
    assert {keyword.arg for keyword in made.keywords} == set(insides.FETCH_FIELDS)
    assert not made.args
