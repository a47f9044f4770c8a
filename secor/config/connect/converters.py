"""Converters of values and keys: the decoder, its registry of schemas, what cannot be read."""

from __future__ import annotations

from secor.config.translation.draft import Draft

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"

_INTEGERS = tuple(
    f"org.apache.kafka.connect.converters.{name}Converter" for name in ("Long", "Integer", "Short")
)

_BY_REGISTRY = {
    "io.confluent.connect.avro.AvroConverter": "avro",
    "io.confluent.connect.json.JsonSchemaConverter": "json",
    "io.confluent.connect.protobuf.ProtobufConverter": "protobuf",
}
_REGISTRY = "schema.registry."
_AWS = "com.amazonaws.services.schemaregistry.kafkaconnect"
_BY_GLUE = {
    f"{_AWS}.AWSKafkaAvroConverter": "avro",
    f"{_AWS}.jsonschema.JsonSchemaConverter": "json",
    f"{_AWS}.protobuf.ProtobufSchemaConverter": "protobuf",
}
_REGISTERED = {
    **{name: (decoder, "confluent") for name, decoder in _BY_REGISTRY.items()},
    **{name: (decoder, "glue") for name, decoder in _BY_GLUE.items()},
}
"""The decoder and the framing of converters with a registry."""

_TEXT_KEYS = "a key is JSON with the columns of the rows' key, or the text of the only one"
_NO_COLUMNS = "Keys only say which rows messages without a value delete."

_PLACES = ("region", "endpoint")
"""Settings of Glue's converters that say where it is."""

_UNNEEDED = {
    "messages name their schema themselves": (
        *("subject.name.strategy", "value.subject.name.strategy", "key.subject.name.strategy"),
        *("auto.register.schemas", "use.latest.version", "latest.compatibility.strict"),
        *("registry.name", "schemaName", "schemaAutoRegistrationEnabled", "compatibility"),
    ),
    "schemas are kept in memory": ("schemas.cache.size", "schemas.cache.config", "cacheSize"),
    "messages are read as their schema says": ("schemas.enable", "schema.enable", "avroRecordType"),
    "text is UTF-8": ("encoding", "converter.encoding"),
}
"""Settings of converters that nothing needs, by the reason."""


def convert_values(draft: Draft) -> None:
    """Set the decoder of ``value.converter``; what is unknown is left to a person."""
    converter = draft.value("value.converter")
    # A connector without one has the worker's, which is not in its file.  JSON is the usual one,
    # and the report asks a person to look.
    if converter in ("", JSON):
        _json(draft, converter)
    elif converter in _REGISTERED:
        _registered(draft, "value", "parser")
    else:
        draft.unsupported("write [parser] by hand: docs/parsing.md", "value.converter")
        draft.set("parser.decoder", "json")
    rest_of_converter(draft)


def convert_keys(draft: Draft, *, changes_rows: bool) -> None:
    """Set how keys are read: they say which rows messages without a value delete.

    Where rows are only appended nobody reads keys.
    """
    converter = draft.value("key.converter")
    if not changes_rows or not converter:
        return
    if converter in (STRING, BYTES):
        draft.unneeded(_TEXT_KEYS, "key.converter")
    elif converter in (JSON, *_INTEGERS, *_REGISTERED):
        if converter in _INTEGERS:
            draft.set("parser.key.decoder", "integer", "key.converter")
        elif converter == JSON:
            draft.set("parser.key.decoder", "json", "key.converter")
            draft.unneeded(
                "keys are read with and without a schema", "key.converter.schemas.enable"
            )
        else:
            _registered(draft, "key", "parser.key")
        draft.set("parser.key.field", "none", note=_NO_COLUMNS)
    else:
        draft.unsupported("write [parser.key] by hand: docs/parsing.md", "key.converter")
    rest_of_converter(draft, "key", "parser.key")


def rest_of_converter(draft: Draft, side: str = "value", section: str = "parser") -> None:
    """Report the settings of a converter that nothing has mapped."""
    for why, names in _UNNEEDED.items():
        given = [f"{side}.converter.{name}" for name in names]
        draft.unneeded(why, *(name for name in given if name not in draft.outcomes))
    for name in draft.properties:
        if name.startswith(f"{side}.converter.") and name not in draft.outcomes:
            draft.unsupported(f"write [{section}] by hand: docs/parsing.md", name)


def convert_errors(draft: Draft) -> None:
    """Set what becomes of messages that cannot be read."""
    draft.copy("parser.dead_letter_topic", "errors.deadletterqueue.topic.name")
    if draft.value("errors.tolerance").lower() == "all":
        # The same as the sink's: with "all" it goes on though every single message is bad.
        note = "bad messages stop nothing; 0.5 would stop a partition when half of them are bad"
        draft.set("parser.max_bad_ratio", 1.0, "errors.tolerance", note=note)
    why = (
        "bad messages are in quarantine, and more than parser.max_bad_ratio stop the partition;"
        " parser.max_bad_messages = 0 stops it at the first"
    )
    draft.unneeded(why, "errors.tolerance")


def _json(draft: Draft, converter: str) -> None:
    draft.set("parser.decoder", "json", "value.converter")
    if not converter:
        why = "the connector names no value.converter, so the Connect worker's is used"
        draft.todo(
            f"set parser.decoder as messages are written (JSON here): {why} (--worker reads it)"
        )
    why = "JSON is read as it is"
    if draft.flag("value.converter.schemas.enable", default=bool(converter)):
        why = "messages that are {schema, payload} are their payload, with the schema's types"
    draft.unneeded(why, "value.converter.schemas.enable")


def _registered(draft: Draft, side: str, section: str) -> None:
    """Set decoder, framing and registry; keys have those of values where nothing differs."""
    converter = f"{side}.converter"
    decoder, framing = _REGISTERED[draft.value(converter)]
    draft.set(f"{section}.decoder", decoder, converter)
    draft.set(f"{section}.framing", framing, converter)
    # [parser.key] has the registry of [parser] where it names none: said once, it stays the same.
    if side == "key" and _as_values(draft):
        same = [name for name in _of(draft, side) if _is_of_registry(name)]
        draft.mark_mapped(tuple(same), "parser.key", "the registry of [parser]")
    elif framing == "glue":
        _glue(draft, converter, section)
    else:
        _registry(draft, converter, section)


def _as_values(draft: Draft) -> bool:
    """Return whether the registry of keys is that of values, and so is what it asks for."""
    values = _REGISTERED.get(draft.value("value.converter"))
    keys = _REGISTERED[draft.value("key.converter")]
    return (
        values is not None
        and values[1] == keys[1]
        and all(
            draft.value(name) == draft.value(name.replace("key.", "value.", 1))
            for name in _of(draft, "key")
            if _is_of_registry(name)
        )
    )


def _of(draft: Draft, side: str) -> list[str]:
    return [name for name in draft.properties if name.startswith(f"{side}.converter.")]


def _is_of_registry(name: str) -> bool:
    return name.split(".", 2)[2].startswith(("schema.registry.", "basic.", "bearer.", *_PLACES))


def _glue(draft: Draft, converter: str, section: str) -> None:
    region, endpoint = (f"{converter}.{name}" for name in _PLACES)
    if draft.value(endpoint):
        draft.copy(f"{section}.registry_url", endpoint)
    elif draft.value(region):
        address = f"https://glue.{draft.value(region)}.amazonaws.com"
        draft.copy(f"{section}.registry_url", region, address)
    else:
        draft.fault(region, f"is empty: name the region of AWS Glue, by -D {region}=…")
    draft.unneeded("the address has the region", region)


def _registry(draft: Draft, converter: str, section: str) -> None:
    registry = f"{converter}.{_REGISTRY}"
    first, comma, _ = draft.value(f"{registry}url").partition(",")
    if not first:
        why = f"is empty: name the registry of schemas, by -D {registry}url=…"
        draft.fault(f"{registry}url", why)
    draft.copy(f"{section}.registry_url", f"{registry}url", first.strip())
    if comma:
        draft.todo(f"{registry}url has several addresses: {section}.registry_url is the first one")
    for name in (f"{registry}basic.auth.user.info", f"{converter}.basic.auth.user.info"):
        user, colon, _ = draft.value(name).partition(":")
        draft.secret(f"{section}.registry_password", name, "the password in")
        if user and colon and not user.startswith("$"):
            draft.set(f"{section}.registry_username", user)
        # A reference to the environment holds user and password together: they cannot be taken
        # apart.
        elif draft.value(name):
            draft.todo(f"set {section}.registry_username to the user in {name}")
    for name in (f"{registry}bearer.auth.token", f"{converter}.bearer.auth.token"):
        draft.secret(f"{section}.registry_token", name)
    for kind in ("basic", "bearer"):
        for source in (f"{registry}{kind}", f"{converter}.{kind}"):
            if draft.value(f"{source}.auth.credentials.source") in ("USER_INFO", "STATIC_TOKEN"):
                why = "whatever is set is sent"
                draft.unneeded(why, f"{source}.auth.credentials.source")
    for store, key in (("truststore", "cafile"), ("keystore", "certfile")):
        kind, location = (f"{registry}ssl.{store}.{name}" for name in ("type", "location"))
        setting = f"{section}.registry_{key}"
        if draft.value(kind).upper() == "PEM":
            draft.copy(setting, location)
            draft.unneeded("certificates are files in PEM", kind)
        else:
            draft.unsupported(f"write a file in PEM and set {setting} to it", location)
        draft.unneeded("PEM files need none", f"{registry}ssl.{store}.password")
