"""Checks of what a configuration only names: files and classes on this machine."""

from __future__ import annotations

from secor.config.model import Config, Output, Parser
from secor.core.errors import ConfigurationError


def require_referenced_files(config: Config) -> None:
    """Raise ``ConfigurationError`` with all that cannot be used, if something cannot."""
    faults = unusable_references(config)
    if faults:
        lines = [f"  {key}: {why}" for key, why in faults.items()]
        text = "what the configuration names cannot be used on this machine"
        raise ConfigurationError("\n".join([text, *lines]))


def unusable_references(config: Config) -> dict[str, str]:
    """Return by dotted key what cannot be used, and why.

    Schema files, descriptor sets, generated classes and plug-ins, of the general settings and
    of each rule for topics; a fault that several share is reported once.  Modules are imported and
    plug-ins made; no server is asked.
    """
    if config.group.kind == "backup":
        return {}
    from secor.wiring.parsers import unusable  # a backup group needs none of it

    cases = [("", config.output, config.parser)]
    cases += [
        (f"topics.{index}.", rule.output, rule.parser) for index, rule in enumerate(config.topics)
    ]
    unusable_files: dict[str, str] = {}
    for before, output, parser in cases:
        typed = config.group.kind == "table" or output.stores_fields
        faults = {f"parser.{key}": why for key, why in unusable(parser, typed=typed).items()}
        if config.group.kind == "partition":
            faults = faults or _unusable_schema(config, output, parser)
        new = {
            before + key: why for key, why in faults.items() if why not in unusable_files.values()
        }
        unusable_files |= new
    return unusable_files | _unusable_tables(config)


def _unusable_tables(config: Config) -> dict[str, str]:
    """See that a catalog can be opened, and that new tables fit their schema files."""
    if not config.tables:
        return {}
    from secor.wiring.table_catalogs import check_catalog
    from secor.wiring.table_routes import check_new_table

    unusable: dict[str, str] = {}
    try:
        check_catalog(config)
    except ConfigurationError as error:
        unusable["catalog.properties"] = str(error)
    for index, table in enumerate(config.tables):
        try:
            check_new_table(table)
        except ConfigurationError as error:
            unusable[f"tables.{index}"] = str(error)
    return unusable


def _unusable_schema(config: Config, output: Output, parser: Parser) -> dict[str, str]:
    """Make a whole plan with a parser that can be made: the rest is the declared schema."""
    from secor.wiring.plans import plan_for

    alone = config.model_copy(update={"output": output, "parser": parser, "topics": ()})
    try:
        plan_for(alone, "topic")
    except ConfigurationError as error:
        return {"output": str(error)}
    return {}
