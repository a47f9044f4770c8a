"""What a table has of a case, and the same case in a table group's table; differences of both."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from secor.config.iceberg_sink.convert import convert
from secor.config.show import toml_value
from secor.config.translation.properties import Occurrence, Properties
from secor.sandbox import Sandbox
from tests.conformance.message_cases import NAMESPACE, Case
from tests.integration.daemons import Daemon, run_secor, wait_until, write_config

GROUP = "messages"


@dataclass
class Outcome:
    """The columns of a table, its rows by their number, and why others are not there.

    ``failure`` ended the sink's task, ``alone``: with no other case beside it.
    """

    columns: dict[str, str] = field(default_factory=dict)
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    failure: str = ""
    alone: bool = False


def outcome_of(catalog: Catalog, case: Case) -> Outcome:
    """Read the table of a case, if there is one."""
    try:
        table = catalog.load_table(f"{NAMESPACE}.{case.table}")
    except NoSuchTableError:
        return Outcome()
    columns = {
        column.name: re.sub(r"\b\d+: ", "", str(column.field_type))
        + (" required" if column.required else "")
        for column in table.schema().fields
    }
    rows = {row["n"]: row for row in table.scan().to_arrow().to_pylist()}
    return Outcome(columns, rows)


def run_group(
    folder: Path, sandbox: Sandbox, sink: Mapping[str, str], corpus: Sequence[Case]
) -> tuple[Catalog, dict[tuple[str, int], str]]:
    """Store cases, each in a topic of its table's name, by the configuration that the import
    makes of the sink's.

    Returns the catalog, and the reasons of messages in quarantine by table and number.
    """
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{folder / 'catalog.db'}",
        "warehouse": f"s3://{sandbox.s3.bucket}/{GROUP}-tables",
    }
    s3 = sandbox.s3
    store = {
        "s3.endpoint": s3.endpoint_url,
        "s3.region": s3.region,
        "s3.access-key-id": s3.access_key,
        "s3.secret-access-key": s3.secret_key,
    }
    opened = load_catalog("secor", **catalog, **store)
    config = write_group(folder, sandbox, sink, [case.table for case in corpus], catalog)
    count = sum(len(case.bodies) for case in corpus)
    daemon = Daemon(config, folder / "run.log")
    try:
        wait_until(lambda: _is_read(config), "the group has read everything")
        finished = run_secor("quarantine", "cat", str(config))
        refused = _refused(finished.stdout)
        wanted = count - len(refused)
        wait_until(lambda: _rows(opened, corpus) == wanted, f"the tables have {wanted} rows")
    finally:
        daemon.kill()
    return opened, refused


def _rows(catalog: Catalog, corpus: Sequence[Case]) -> int:
    """Return how many rows all tables have."""
    rows = 0
    for case in corpus:
        with suppress(NoSuchTableError):
            snapshot = catalog.load_table(f"{NAMESPACE}.{case.table}").current_snapshot()
            if snapshot is not None and snapshot.summary is not None:
                rows += int(snapshot.summary["total-records"] or 0)
    return rows


def write_group(
    folder: Path,
    sandbox: Sandbox,
    sink: Mapping[str, str],
    topics: Sequence[str],
    catalog: Mapping[str, str],
) -> Path:
    """Write the group's configuration: the import's tables and rows, on another catalog."""
    properties = Properties()
    for name, value in sink.items():
        properties.occurrences[name] = [Occurrence("sink", (value,))]
    text, _ = convert(properties, "sink")
    imported = tomllib.loads(text)
    routes = []
    for route in imported["tables"]:
        lines = [f"{key} = {toml_value(value)}" for key, value in route.items()]
        routes.append("\n".join(["[[tables]]", *lines]))
    place = [f"{key} = {json.dumps(value)}" for key, value in catalog.items()]
    return write_config(
        folder,
        sandbox,
        group=GROUP,
        topic="unused",
        ledger="kafka",
        settings={
            "group": {"name": GROUP, "kind": "table"},
            "kafka": {"topics": list(topics)},
            "parser": {**imported["parser"], "max_bad_ratio": "none"},
            "rows": imported.get("rows", {}),
            "commit": {"interval": "2s", "timeout": "10s"},
        },
        more="\n".join([*routes, "[catalog.properties]", *place]),
    )


def _is_read(config: Path) -> bool:
    finished = run_secor("progress", str(config), "--json")
    return bool(finished.stdout) and json.loads(finished.stdout)["lag"] == 0


def _refused(lines: str) -> dict[tuple[str, int], str]:
    refused = {}
    for line in lines.splitlines():
        message = json.loads(line)
        value = json.loads(message["value"]) if isinstance(message["value"], str) else {}
        value = value.get("payload", value) if "schema" in value and "t" not in value else value
        table = str(value["t"]).removeprefix(f"{NAMESPACE}.")
        refused[table, value["n"]] = message["reason"]
    return refused


def differences(case: Case, sink: Outcome, ours: Outcome) -> tuple[str, str] | None:
    """Return what both have where they differ, as text; None if they are equal."""
    names = [it for it in dict.fromkeys([*sink.columns, *ours.columns]) if it not in ("t", "n")]
    differing = [name for name in names if _column(case, sink, name) != _column(case, ours, name)]
    if not differing and _fate(case, sink) == _fate(case, ours):
        return None
    return _summary(case, sink, differing), _summary(case, ours, differing)


def _column(case: Case, outcome: Outcome, name: str) -> str:
    if name not in outcome.columns:
        return ""
    numbers = range(len(case.bodies))
    values = [_shown(outcome.rows[it].get(name)) if it in outcome.rows else "–" for it in numbers]
    return f"`{name}` {outcome.columns[name]}: {', '.join(values)}"


def _fate(case: Case, outcome: Outcome) -> list[bool]:
    return [number in outcome.rows for number in range(len(case.bodies))]


def _summary(case: Case, outcome: Outcome, names: Sequence[str]) -> str:
    parts = [_column(case, outcome, name) for name in names]
    if outcome.failure:
        parts = [f"the task fails ({outcome.failure})"]
    elif not outcome.rows and not outcome.refused:
        parts = ["no row"]
    reasons = dict.fromkeys(outcome.refused.values())
    for reason in reasons:
        numbers = [str(it + 1) for it, why in outcome.refused.items() if why == reason]
        parts.append(f"message {', '.join(numbers)} in quarantine: {reason}")
    return "; ".join(part for part in parts if part) or "no such column"


def _shown(value: Any) -> str:
    text = "null" if value is None else repr(value)
    text = text.replace("datetime.", "").replace("zoneinfo.ZoneInfo(key='UTC')", "UTC")
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)})"
