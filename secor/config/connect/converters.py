"""Converters of values: the decoder, its registry of schemas, and what cannot be read."""

from __future__ import annotations

from secor.config.translation.draft import Draft

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"

_BY_REGISTRY = {
    "io.confluent.connect.avro.AvroConverter": "avro",
    "io.confluent.connect.json.JsonSchemaConverter": "json",
    "io.confluent.connect.protobuf.ProtobufConverter": "protobuf",
}
_REGISTRY = "value.converter.schema.registry."
_AWS = "com.amazonaws.services.schemaregistry.kafkaconnect"
_BY_GLUE = {
    f"{_AWS}.AWSKafkaAvroConverter": "avro",
    f"{_AWS}.jsonschema.JsonSchemaConverter": "json",
    f"{_AWS}.protobuf.ProtobufSchemaConverter": "protobuf",
}
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
    """Set the decoder of ``value.converter``; what cannot be told is a person's to do."""
    converter = draft.value("value.converter")
    if converter in ("", JSON):
        _json(draft, converter)
    elif converter in _BY_REGISTRY:
        draft.set("parser.decoder", _BY_REGISTRY[converter], "value.converter")
        draft.set("parser.framing", "confluent", "value.converter")
        _registry(draft)
    elif converter in _BY_GLUE:
        draft.set("parser.decoder", _BY_GLUE[converter], "value.converter")
        draft.set("parser.framing", "glue", "value.converter")
        _glue(draft)
    else:
        draft.unsupported("write [parser] by hand: docs/parsing.md", "value.converter")
        draft.set("parser.decoder", "json")
    rest_of_converter(draft)


def rest_of_converter(draft: Draft) -> None:
    """Report the settings of ``value.converter`` that nothing has mapped."""
    for why, names in _UNNEEDED.items():
        given = [f"value.converter.{name}" for name in names]
        draft.unneeded(why, *(name for name in given if name not in draft.outcomes))
    for name in draft.properties:
        if name.startswith("value.converter.") and name not in draft.outcomes:
            draft.unsupported("write [parser] by hand: docs/parsing.md", name)


def convert_errors(draft: Draft) -> None:
    """Set what becomes of messages that cannot be read."""
    draft.copy("parser.dead_letter_topic", "errors.deadletterqueue.topic.name")
    if draft.value("errors.tolerance").lower() == "all":
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


def _glue(draft: Draft) -> None:
    region, endpoint = (f"value.converter.{name}" for name in ("region", "endpoint"))
    if draft.value(endpoint):
        draft.copy("parser.registry_url", endpoint)
    elif draft.value(region):
        address = f"https://glue.{draft.value(region)}.amazonaws.com"
        draft.copy("parser.registry_url", region, address)
    else:
        draft.fault(region, "is empty: name the region of AWS Glue, by -D value.converter.region=…")
    draft.unneeded("the address has the region", region)


def _registry(draft: Draft) -> None:
    first, comma, _ = draft.value(f"{_REGISTRY}url").partition(",")
    if not first:
        why = f"is empty: name the registry of schemas, by -D {_REGISTRY}url=…"
        draft.fault(f"{_REGISTRY}url", why)
    draft.copy("parser.registry_url", f"{_REGISTRY}url", first.strip())
    if comma:
        draft.todo(f"{_REGISTRY}url has several addresses: parser.registry_url is the first one")
    for name in (f"{_REGISTRY}basic.auth.user.info", "value.converter.basic.auth.user.info"):
        user, colon, _ = draft.value(name).partition(":")
        draft.secret("parser.registry_password", name, "the password in")
        if user and colon and not user.startswith("$"):
            draft.set("parser.registry_username", user)
        elif draft.value(name):
            draft.todo(f"set parser.registry_username to the user in {name}")
    for name in (f"{_REGISTRY}bearer.auth.token", "value.converter.bearer.auth.token"):
        draft.secret("parser.registry_token", name)
    for kind in ("basic", "bearer"):
        for source in (f"{_REGISTRY}{kind}", f"value.converter.{kind}"):
            if draft.value(f"{source}.auth.credentials.source") in ("USER_INFO", "STATIC_TOKEN"):
                why = "whatever is set is sent"
                draft.unneeded(why, f"{source}.auth.credentials.source")
    for store, key in (("truststore", "cafile"), ("keystore", "certfile")):
        kind, location = (f"{_REGISTRY}ssl.{store}.{name}" for name in ("type", "location"))
        if draft.value(kind).upper() == "PEM":
            draft.copy(f"parser.registry_{key}", location)
            draft.unneeded("certificates are files in PEM", kind)
        else:
            draft.unsupported(f"write a file in PEM and set parser.registry_{key} to it", location)
        draft.unneeded("PEM files need none", f"{_REGISTRY}ssl.{store}.password")
