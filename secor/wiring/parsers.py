"""From the settings of ``[parser]`` to a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from secor.config.decoders import OF_DECODERS, DecoderSettings
from secor.config.parser import Parser
from secor.config.transforms import Transform
from secor.core.errors import ConfigurationError
from secor.core.model import SCHEMA
from secor.parsing.decoders import DECODERS, make_decoder
from secor.parsing.decoders.keyed import KeyedDecoder
from secor.parsing.decoders.keys import KeyReader, make_key_decoder
from secor.parsing.determinism import DeterminismCheck
from secor.parsing.layout import Layout
from secor.parsing.pipeline import (
    Count,
    Distribution,
    Pipeline,
    RowFaults,
    Step,
    TimestampFaults,
    stream_of,
)
from secor.parsing.placement import ByLayout, ByMessage, Placement
from secor.parsing.plugins import (
    ColumnPlugin,
    MessagePlaces,
    identity_of,
    load_plugin,
)
from secor.parsing.quarantine_limits import BadLimits
from secor.parsing.registry import RegisteredSchema, SchemaId, SchemaRegistry
from secor.parsing.rows import Decoder, Schema, SchemaGrowth
from secor.parsing.timestamps import TimeReader
from secor.parsing.transforms import Drop, Filter, Mask, Rename, RouteTransform
from secor.parsing.undecoded import COLUMNS, RAW, NoDecoder
from secor.parsing.zones import Zone

if TYPE_CHECKING:
    from secor.adapters.glue import GlueSchemas

NAMES = ("message_class", "descriptor_set", "schema_file", "registry_cafile", "registry_certfile")
"""Settings that name what decoders are made from."""


def pipeline_for(
    parser: Parser,
    *,
    typed: bool,
    schema: Schema | None = None,
    growth: SchemaGrowth | None = None,
    origin: bool = False,
    columns: Sequence[str] = SCHEMA.names,
    timestamp_faults: TimestampFaults | None = None,
    row_faults: RowFaults | None = None,
    count: Count | None = None,
    distribution: Distribution | None = None,
    limited: bool = True,
    keep_nulls_in: Collection[str] = (),
) -> Pipeline:
    """Make the parser of a topic; see ``Pipeline``.  Raises ``ConfigurationError``.

    Without ``schema``, ``keep_nulls_in`` names the fields that keep the null members of objects.
    Unless ``limited``, any number of messages may be bad, and none waits for its schema.
    """
    if not limited:
        unlimited: dict[str, Any] = {"max_bad_ratio": None, "max_bad_messages": None}
        unlimited["key"] = parser.key.model_copy(update={"registry_wait": 0.0})
        unlimited["registry_wait"] = 0.0
        parser = parser.model_copy(update=unlimited)
    plugins = [step.plugin for step in parser.transforms if step.plugin is not None]
    plugins += [parser.plugin] if parser.plugin is not None else []
    plugins += [f"decoder {parser.decoder}"] if parser.decoder not in (*DECODERS, "none") else []
    return Pipeline(
        _decoder(parser, schema.null_keeping_names if schema is not None else keep_nulls_in),
        [_step(transform) for transform in parser.transforms],
        distribution or _placement(parser),
        typed=typed,
        schema=schema,
        growth=growth,
        origin=origin,
        columns=columns,
        timestamp_faults=timestamp_faults,
        row_faults=row_faults,
        max_message_bytes=None if parser.decoder == "none" else parser.max_message_bytes,
        limits=BadLimits(parser.max_bad_ratio, parser.max_bad_messages, parser.bad_window),
        check=DeterminismCheck(f"plug-in {', '.join(plugins)}") if plugins else None,
        count=count,
    )


def unusable(parser: Parser, *, typed: bool) -> dict[str, str]:
    """Return by its key what of a parser cannot be made on this machine, and why.

    That is what its settings only name: schema files, descriptor sets, classes.  Unless
    ``typed``, fields are not stored: what a plug-in over columns changes would not show.
    """
    makes: dict[str, Callable[[], object]] = {
        _named_file(parser): lambda: _value_decoder(parser, ()),
        f"key.{_named_file(parser.key)}": lambda: key_reader(parser),
    }
    for index, transform in enumerate(parser.transforms):
        makes[f"transforms.{index}.plugin"] = partial(_checked_step, transform, typed=typed)
    makes["plugin"] = lambda: _placement(parser)
    faults = {}
    for key, make in makes.items():
        try:
            make()
        except ConfigurationError as error:
            faults[key] = str(error)
    return faults


def _named_file(settings: DecoderSettings) -> str:
    """Return the key of what a decoder is made from; it is the decoder's own where that is all."""
    named = [
        name for name in NAMES if settings.decoder in OF_DECODERS[name] and getattr(settings, name)
    ]
    return (named or ["decoder"])[0]


def _checked_step(transform: Transform, *, typed: bool) -> Step:
    step = _step(transform)
    if isinstance(step, ColumnPlugin) and not typed and not step.for_layout_only:
        raise ConfigurationError(
            f"plug-in {transform.plugin}: what it changes would not show, because the format writes"
            " messages as they came: use a format of decoded fields, or parser.plugin, which may"
            " give the value to store; if it makes fields for the layout alone, its class says so"
            " with for_layout_only = True"
        )
    return step


def routed_streams(parser: Parser, topic: str) -> Mapping[str, str]:
    """Return the topics to which messages of ``topic`` may go, by their output streams."""
    targets = [name for step in parser.transforms if step.kind == "route" for name in step.targets]
    return {stream_of(target): target for target in targets if target != topic}


def decoder_of(parser: Parser) -> Decoder:
    """Return what decodes messages, for a look at fields.  Raises ``ConfigurationError``."""
    return _decoder(parser)


def _decoder(parser: Parser, keep_nulls_in: Collection[str] = ()) -> Decoder:
    values = _value_decoder(parser, keep_nulls_in)
    keys = key_reader(parser, keep_nulls_in)
    if keys is None or not keys.gives_fields:
        return values
    return KeyedDecoder(values, keys)


def key_reader(parser: Parser, keep_nulls_in: Collection[str] = ()) -> KeyReader | None:
    """Return what reads the keys of messages; None where they are not read."""
    key = parser.key
    if key.decoder == "none":
        return None
    settings = key.settings_of_decoder()
    if key.framing == "glue" and key.registry_url is not None:
        settings["registry"] = _glue_registry(key.registry_url, settings)
    names = _decoded_names(parser, keep_nulls_in)
    decoder = make_key_decoder(key.decoder, keep_nulls_in=names, **settings)
    return KeyReader(decoder, key.field, key.prefix, parser.max_message_bytes)


def _value_decoder(parser: Parser, keep_nulls_in: Collection[str]) -> Decoder:
    if parser.decoder == "none":
        by_plugin = any(step.kind == "plugin" for step in parser.transforms)
        return NoDecoder(COLUMNS if by_plugin else RAW)
    settings = parser.settings_of_decoder()
    if parser.framing == "glue" and parser.registry_url is not None:
        settings["registry"] = _glue_registry(parser.registry_url, settings)
    names = _decoded_names(parser, keep_nulls_in)
    return make_decoder(parser.decoder, keep_nulls_in=names, **settings)


def _decoded_names(parser: Parser, columns: Collection[str]) -> frozenset[str]:
    """Return the names of fields that may become such columns, also those that are renamed."""
    names = {name.lower() for name in columns}
    # Backwards, from the column's name to the name that the decoder sees.
    for transform in reversed(parser.transforms):
        if transform.kind == "rename" and (transform.to or "").lower() in names:
            field = (transform.field or "").lower()
            names |= {field, field.rpartition(".")[2]}
    return frozenset(names)


def _glue_registry(url: str, settings: dict[str, Any]) -> SchemaRegistry:
    from secor.adapters.glue import GlueSchemas  # boto3 takes long to import

    keys = {
        "access_key": settings.pop("username", None),
        "secret_key": settings.pop("password", None),
    }
    return SchemaRegistry(_GlueSource(GlueSchemas(url, **keys)), wait=settings.pop("wait"))


class _GlueSource:
    """AWS Glue's schemas for decoders."""

    def __init__(self, schemas: GlueSchemas) -> None:
        self._schemas = schemas
        self.url = schemas.url

    def fetch(self, schema_id: SchemaId) -> RegisteredSchema:
        """See ``SchemaSource``."""
        return RegisteredSchema(*self._schemas.schema(str(schema_id)))


def _placement(parser: Parser) -> Placement:
    if parser.plugin is not None:
        plugin = load_plugin(parser.plugin, "place", parser.plugin_settings)
        return ByMessage(MessagePlaces(plugin, identity_of(parser.plugin, parser.plugin_settings)))
    zone = Zone(parser.time_zone)
    time_format = "ms" if parser.time_field is None else parser.time_format
    reader = TimeReader(time_format, zone, accept_zero=parser.time_zero == "accept")
    return ByLayout(Layout(parser.layout, zone), reader, parser.time_field)


def _step(transform: Transform) -> Step:
    field = transform.field or ""
    match transform.kind:
        case "drop":
            return Drop(field)
        case "rename":
            return Rename(field, transform.to or "")
        case "mask":
            salt = transform.salt.get_secret_value() if transform.salt is not None else ""
            return Mask(field, transform.value, salt.encode())
        case "filter":
            return filter_of(
                field,
                transform.equals,
                transform.one_of,
                transform.matches,
                negated=transform.negated,
            )
        case "route":
            return RouteTransform(transform.targets, transform.field)
        case "plugin":
            path = transform.plugin or ""
            plugin = load_plugin(path, "apply", transform.settings)
            return ColumnPlugin(plugin, path, identity_of(path, transform.settings))


def filter_of(
    field: str,
    equals: object,
    one_of: Sequence[object] | None,
    matches: str | None,
    *,
    negated: bool,
) -> Filter:
    """Return what selects messages by a field; without any condition it must have a value."""
    values = one_of if equals is None else (equals,)
    return Filter(field, None if values is None else tuple(values), matches, negated)
