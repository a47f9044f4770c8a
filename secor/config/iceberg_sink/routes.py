"""The sink's tables and how messages find them, as ``[[tables]]``."""

from __future__ import annotations

import re

from secor.config.translation.draft import Draft, Line, PropertyOutcome

_TABLE_SETTING = re.compile(r"iceberg\.table\.(?P<table>.+)\.(?P<key>[a-z-]+)")
_WITH_COLUMN_FIRST = re.compile(r"(bucket|truncate)\(\s*([^(),]+?)\s*,\s*(\d+)\s*\)")

UPSERTS, OPERATION = "iceberg.tables.upsert-mode-enabled", "iceberg.tables.cdc-field"
DELETES = ("D", "d", "DELETE", "delete", "Delete")


def convert(draft: Draft) -> None:
    """Translate ``iceberg.tables`` and all of it and of single tables."""
    field = draft.value("iceberg.tables.route-field")
    if draft.flag("iceberg.tables.dynamic-enabled"):
        names = ("iceberg.tables.dynamic-enabled", "iceberg.tables.route-field")
        if not field:
            draft.fault(names[0], "the sink wants iceberg.tables.route-field with it")
        table = f"{{fields.{field}}}"
        _route(draft, [_line(draft, "table", table, *names)], ())
        draft.todo(
            f"values of {field} are names of tables as they are; the sink makes them lower case"
        )
    else:
        _static(draft, field)
    _branch(draft)
    _merging(draft)
    if draft.flag("iceberg.tables.schema-case-insensitive"):
        draft.set("rows.case_sensitive", False, "iceberg.tables.schema-case-insensitive")


def changes_rows(draft: Draft) -> bool:
    """Return whether messages change rows, instead of only adding some."""
    return draft.flag(UPSERTS) or bool(draft.value(OPERATION))


def _static(draft: Draft, field: str) -> None:
    tables = [name.strip() for name in draft.value("iceberg.tables").split(",") if name.strip()]
    if not tables:
        draft.fault("iceberg.tables", "names no table, and dynamic-enabled is not set")
    if "iceberg.tables.dynamic-enabled" in draft.properties:
        draft.unneeded("tables are named in [[tables]]", "iceberg.tables.dynamic-enabled")
    for table in tables:
        lines = [_line(draft, "table", table, "iceberg.tables")]
        regex = f"iceberg.table.{table}.route-regex"
        if field and not draft.value(regex):
            why = f"{table}: the sink gives nothing to a table without route-regex, nor does this"
            draft.todo(why)
            continue
        if field:
            lines.append(_line(draft, "field", field, "iceberg.tables.route-field"))
            lines.append(_line(draft, "matches", draft.value(regex), regex))
        _route(draft, lines, (table,))
    if field:
        draft.todo(
            "messages that no table takes are in quarantine; the sink leaves them out: for that,"
            ' rows.unrouted = "skip"'
        )
    for name in draft.properties:
        match = _TABLE_SETTING.fullmatch(name)
        if match and match["table"] not in tables:
            draft.outcomes[name] = (
                PropertyOutcome.UNKNOWN,
                "iceberg.tables does not name this table",
            )


def _route(draft: Draft, lines: list[Line], tables: tuple[str, ...]) -> None:
    """Add what holds for all tables to a route."""
    names = [f"iceberg.table.{table}.partition-by" for table in tables]
    names.append("iceberg.tables.default-partition-by")
    makes = draft.flag("iceberg.tables.auto-create-enabled")
    _changes(draft, lines, tables)
    for name in names:
        if terms := draft.value(name):
            if makes:
                lines.append(_line(draft, "partition_by", partition_terms(terms), name))
            else:
                draft.unneeded("tables are not made here: auto-create-enabled is not set", name)
            break
    for key, name in (
        ("auto_create", "iceberg.tables.auto-create-enabled"),
        ("evolve", "iceberg.tables.evolve-schema-enabled"),
        ("optional_columns", "iceberg.tables.schema-force-optional"),
    ):
        if name in draft.properties:
            lines.append(_line(draft, key, draft.flag(name), name))
    why = "the sink reads integers of times and timestamps as milliseconds"
    lines.append(Line("units", {"*": "milliseconds"}, (), why))
    properties = _properties(draft, makes=makes)
    if properties:
        lines.append(properties)
    draft.tables.append(lines)


def _changes(draft: Draft, lines: list[Line], tables: tuple[str, ...]) -> None:
    """Add how messages change rows, where the sink's settings say that they do."""
    keys = [f"iceberg.table.{table}.id-columns" for table in tables]
    keys.append("iceberg.tables.default-id-columns")
    if not changes_rows(draft):
        draft.unneeded("rows are appended: nothing has to identify them", *keys)
        return
    lines.append(_line(draft, "mode", "upsert", UPSERTS, OPERATION))
    for name in keys:
        if columns := draft.value(name):
            key = [column.strip() for column in columns.split(",") if column.strip()]
            lines.append(_line(draft, "key", key, name))
            break
    if field := draft.value(OPERATION):
        lines.append(_line(draft, "operation_field", field, OPERATION))
        lines.append(Line("deletes", list(DELETES), (), "the sink takes all that begin with D"))


def _merging(draft: Draft) -> None:
    """Rows that are changed are merged by Spark, in a process of its own."""
    if changes_rows(draft):
        draft.set("commit.coordinator", "alone", UPSERTS, OPERATION)
        draft.todo(
            "run secor tables run, too, next to the daemons: it merges changed rows, with Spark"
        )
    if field := draft.value(OPERATION):
        draft.todo(
            f"{field}: list in deletes all values that delete; to insert a key that is there"
            " replaces its row, where the sink makes a second one"
        )


def _properties(draft: Draft, *, makes: bool) -> Line | None:
    """Return the properties of new tables: those of creation, and over them those of writers."""
    properties: dict[str, str] = {}
    names = []
    for prefix in ("iceberg.tables.auto-create-props.", "iceberg.tables.write-props."):
        for name in [key for key in draft.properties if key.startswith(prefix)]:
            if makes:
                properties[name.removeprefix(prefix)] = draft.value(name)
                names.append(name)
            else:
                why = "tables are not made here: set it as a property of the table itself"
                draft.unsupported(why, name)
    return _line(draft, "properties", properties, *names) if properties else None


def _branch(draft: Draft) -> None:
    """One branch is for all tables of a group."""
    default = "iceberg.tables.default-commit-branch"
    own = [
        name
        for name in draft.properties
        if (match := _TABLE_SETTING.fullmatch(name)) and match["key"] == "commit-branch"
    ]
    branches = {draft.value(name) for name in (default, *own) if draft.value(name)}
    if len(branches) == 1 and (draft.value(default) or len(own) == len(draft.tables)):
        draft.set("commit.branch", branches.pop(), default, *own)
    elif branches:
        draft.copy("commit.branch", default)
        why = "commit.branch is one for all tables of a group: give this table a group of its own"
        draft.unsupported(why, *own)


def partition_terms(text: str) -> list[str]:
    """Return partition terms as we write them: the number before the column."""
    terms = re.split(r",(?![^()]*\))", text)
    reordered = (_WITH_COLUMN_FIRST.sub(r"\1(\3, \2)", term.strip()) for term in terms)
    return [term for term in reordered if term]


def _line(draft: Draft, key: str, value: object, *names: str) -> Line:
    return Line(key, value, draft.mark_mapped(names, f"{key} of [[tables]]", value))
