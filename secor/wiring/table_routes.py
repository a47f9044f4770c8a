"""Routes of messages to tables, and the settings of their rows, from the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from secor.config.model import Config
from secor.config.table_routes import TableRoute, parts_of
from secor.config.tables import Rows
from secor.parsing.pipeline import Pipeline
from secor.tables.hudi import INSERT_KEY
from secor.tables.rows.encodings import Encodings
from secor.tables.rows.new_tables import new_table
from secor.tables.rows.routing import Route, TableSettings
from secor.tables.rows.row_changes import ChangeSettings, Mode
from secor.tables.rows.schema_changes import TextTypes
from secor.tables.rows.staged_rows import changes_root
from secor.tables.rows.unavailable_values import DEBEZIUM_DEFAULT
from secor.tables.staging.table_version import RowSettings
from secor.wiring.parsers import filter_of, pipeline_for

if TYPE_CHECKING:
    from secor.verify.tables import RoutedOffsets


def routes_of(config: Config, topic: str) -> list[Route]:
    """Return the routes that messages of a topic may take, in the order of the configuration."""
    return [route_of(table, config.rows) for table in config.tables if table.takes(topic)]


def routing_parser(config: Config, topic: str) -> tuple[Pipeline, RoutedOffsets]:
    """Return what notes in which tables the messages of a topic belong; it makes no rows.

    What it gives are the messages that are bad before they are fitted to a table.
    """
    from secor.verify.tables import RoutedOffsets

    skip = config.rows.unrouted == "skip"
    routed = RoutedOffsets(routes_of(config, topic), skip_unrouted=skip)
    parser = config.for_topic(topic).parser
    return pipeline_for(parser, typed=True, distribution=routed, limited=False), routed


def route_of(table: TableRoute, rows: Rows | None = None) -> Route:
    """Return a route of the configuration."""
    selector = None
    if table.field is not None:
        selector = filter_of(
            table.field, table.equals, table.one_of, table.matches, negated=table.negated
        )
    rows = Rows() if rows is None else rows
    mode: Mode = table.mode
    # Hudi knows rows by a key.  Where rows are only added, it is the message's place in Kafka, so
    # that a write that is repeated adds no row twice.
    if table.format == "hudi" and mode == "append":
        mode = "insert"
    settings = TableSettings(
        auto_create=table.auto_create,
        evolve=table.evolve,
        optional_columns=table.optional_columns,
        names=rows.names,
        numbers=rows.numbers,
        any_text=rows.text_columns == "any",
        partition_by=table.partition_by,
        schema_file=table.schema_file,
        location=table.location,
        properties=table.properties,
        changes=ChangeSettings(
            mode=mode,
            key=INSERT_KEY if mode == "insert" else table.key,
            operation_field=table.operation_field,
            upserts=table.upserts,
            deletes=table.deletes,
            unavailable_value=_unavailable_value(table),
            truncate=table.truncate,
            keep_deletes=table.keep_deletes,
        ),
        text_types=_text_types(table),
        encodings=_encodings(table),
        units=table.units,
    )
    return Route(tuple(parts_of(table.table)), settings, selector)


def _text_types(table: TableRoute) -> TextTypes:
    """Return the types that the engine which writes a table cannot read."""
    if table.format == "hudi":
        return frozenset({"time", "uuid"})
    return frozenset() if table.mode == "append" else frozenset({"time"})


def _encodings(table: TableRoute) -> Encodings | None:
    if table.encodings is None:
        return None
    return Encodings(
        table.decimal_handling_mode,
        table.time_precision_mode,
        table.binary_handling_mode,
        table.time_units,
    )


def _unavailable_value(table: TableRoute) -> str:
    """Return the placeholder; Debezium's own for its envelopes, none else, unless one is named."""
    if table.unavailable_value is not None:
        return table.unavailable_value
    envelopes = table.mode == "cdc" and table.operation_field is None
    return DEBEZIUM_DEFAULT if envelopes else ""


def check_new_table(table: TableRoute) -> None:
    """Raise ``ConfigurationError`` for a table that could never be made as it is declared."""
    from secor.adapters.iceberg.partition_terms import check_declared

    route = route_of(table)
    new = new_table(route.settings, None)
    if new is not None:
        check_declared(table.table, new.schema, table.partition_by)


def row_settings(config: Config) -> RowSettings:
    """Return what holds for the rows of all tables."""
    rows = config.rows
    return RowSettings(
        extra_fields=rows.extra_fields,
        case_sensitive=rows.case_sensitive,
        any_text=rows.text_columns == "any",
        metadata_columns=_metadata_columns(config),
        row_group_rows=rows.row_group_rows,
        stripe_rows=rows.stripe_rows,
        block_rows=rows.block_rows,
        changes_root=changes_root(config.output.prefix),
        group=config.group.name,
    )


def _metadata_columns(config: Config) -> tuple[str, ...]:
    """Return the columns of origin; rows that Hudi inserts are identified by them."""
    columns = config.rows.metadata_columns
    if config.table_format == "hudi" and any(table.mode == "append" for table in config.tables):
        columns = (*columns, *(name for name in INSERT_KEY if name not in columns))
    return columns
