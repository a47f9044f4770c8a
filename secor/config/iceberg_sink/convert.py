"""Translation of a connector's settings into a configuration of a table group."""

from __future__ import annotations

import re
import tomllib

from secor.config.iceberg_sink import catalog, routes
from secor.config.iceberg_sink.sink_settings import row_of, transform_of
from secor.config.load import validate
from secor.config.translation.draft import Draft, Outcome
from secor.config.translation.jaas import copy_jaas
from secor.config.translation.properties import Properties
from secor.config.translation.render import render
from secor.core.errors import ConfigurationError

_ABOUT = (
    "# Made by secor config import of {source}, which was the Iceberg sink's for Kafka Connect.",
    "# Behind each value stand the settings that it came from; what is not here has the default",
    "# that config/table.toml explains.",
)
_JSON = "org.apache.kafka.connect.json.JsonConverter"
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

_TRANSFORM = re.compile(r"transforms\..+\.type")

_OF_KAFKA = {
    "security.protocol": "kafka.security_protocol",
    "sasl.mechanism": "kafka.sasl_mechanism",
    "sasl.kerberos.service.name": "kafka.sasl_kerberos_service_name",
    "client.id": "kafka.client_id",
}
_MILLISECONDS = (
    ("iceberg.control.commit.interval-ms", "commit.interval", "5m"),
    ("iceberg.control.commit.timeout-ms", "commit.timeout", None),
)


def convert(properties: Properties, source: str) -> tuple[str, Draft]:
    """Return the TOML file, and what became of each setting.

    ``source`` names where they came from.  Raises ``ConfigurationError`` with everything that
    makes a valid configuration impossible.
    """
    draft = Draft(properties)
    for converter in (_group, _kafka, _parser, catalog.convert, routes.convert, _commit):
        converter(draft)
    for name in properties:
        if name not in draft.outcomes:
            draft.outcomes[name] = _default_outcome(draft, name)
    draft.todo(
        "stop the connector, wait for its last commit, and set where the new group begins:"
        " secor offsets set (docs/tables.md, From the Iceberg sink)"
    )
    faults = list(draft.faults)
    text = render(draft, "\n".join(_ABOUT).format(source=source))
    if not faults:
        _, messages = validate(tomllib.loads(text))
        faults = [f"{key}: {fault}" for key, fault in messages.items()]
    if faults:
        head = f"{source}: no configuration of ours can be made of it"
        raise ConfigurationError("\n  ".join([head, *faults]))
    return text, draft


def _default_outcome(draft: Draft, name: str) -> tuple[Outcome, str]:
    row = row_of(name)
    if row is None:
        return Outcome.UNKNOWN, ""
    if not draft.value(name):
        return Outcome.EMPTY, ""
    if row.outcome is None:
        return Outcome.UNNEEDED, "it changes nothing with these settings"
    transform = transform_of(draft.value(name)) if _TRANSFORM.fullmatch(name) else None
    here = row.here if transform is None else transform.here
    return row.outcome, here.replace("`", "")


def _group(draft: Draft) -> None:
    name = draft.value("name") or "iceberg"
    draft.set("group.name", re.sub(r"[^A-Za-z0-9._-]", "_", name), "name")
    draft.set("group.kind", "table", "connector.class")
    draft.set("output.prefix", f"secor/{re.sub(r'[^A-Za-z0-9_-]', '_', name)}", "name")


def _kafka(draft: Draft) -> None:
    servers = "iceberg.kafka.bootstrap.servers"
    if text := draft.value(servers):
        listed = [part.strip() for part in text.split(",") if part.strip()]
        draft.set("kafka.bootstrap_servers", listed, servers)
    else:
        draft.set("kafka.bootstrap_servers", ["localhost:9092"])
        draft.todo("set kafka.bootstrap_servers, as bootstrap.servers of the Connect worker says")
    topics = [topic.strip() for topic in draft.value("topics").split(",") if topic.strip()]
    if topics:
        draft.set("kafka.topics", topics, "topics")
    elif draft.value("topics.regex"):
        draft.copy("kafka.topics_pattern", "topics.regex")
    else:
        draft.fault("topics", "neither topics nor topics.regex says which topics")
    for name in [it for it in draft.properties if it.startswith("iceberg.kafka.")]:
        own = name.removeprefix("iceberg.kafka.")
        if own in _OF_KAFKA:
            draft.copy(_OF_KAFKA[own], name)
        elif own == "sasl.jaas.config":
            copy_jaas(draft, name)
        elif name != servers:
            draft.unsupported("write it by hand: [kafka], see docs/security.md", name)
    protocol = "iceberg.kafka.security.protocol"
    if draft.value(protocol).startswith("SASL_") and not draft.value(
        "iceberg.kafka.sasl.mechanism"
    ):
        draft.set("kafka.sasl_mechanism", "GSSAPI", note="Kafka's default")
    draft.copy("kafka.reset", "consumer.override.auto.offset.reset")
    draft.copy("kafka.client_rack", "consumer.override.client.rack")
    instance = "consumer.override.group.instance.id"
    draft.copy("kafka.group_instance_id", instance)
    if draft.value(instance):
        draft.todo("give each process a kafka.group_instance_id of its own")


def _parser(draft: Draft) -> None:
    converter = draft.value("value.converter")
    if converter in ("", _JSON):
        draft.set("parser.decoder", "json", "value.converter")
        if not converter:
            why = "the connector names no value.converter, so the Connect worker's is used"
            draft.todo(f"set parser.decoder as messages are written (JSON here): {why}")
        why = "JSON is read as it is"
        if draft.flag("value.converter.schemas.enable", default=bool(converter)):
            why = "messages that are {schema, payload} are their payload, with the schema's types"
        draft.unneeded(why, "value.converter.schemas.enable")
    elif converter in _BY_REGISTRY:
        draft.set("parser.decoder", _BY_REGISTRY[converter], "value.converter")
        draft.set("parser.framing", "confluent", "value.converter")
        _registry(draft)
    elif converter in _BY_GLUE:
        draft.set("parser.decoder", _BY_GLUE[converter], "value.converter")
        draft.set("parser.framing", "glue", "value.converter")
        region, endpoint = (f"value.converter.{name}" for name in ("region", "endpoint"))
        if draft.value(endpoint):
            draft.copy("parser.registry_url", endpoint)
        else:
            address = f"https://glue.{draft.value(region)}.amazonaws.com"
            draft.copy("parser.registry_url", region, address)
        draft.unneeded("the address has the region", region)
    else:
        draft.unsupported("write [parser] by hand: docs/parsing.md", "value.converter")
        draft.set("parser.decoder", "json")
    for name in draft.properties:
        if name.startswith("value.converter.") and name not in draft.outcomes:
            draft.unsupported("write [parser] by hand: docs/parsing.md", name)
    draft.copy("parser.dead_letter_topic", "errors.deadletterqueue.topic.name")


def _registry(draft: Draft) -> None:
    first, comma, _ = draft.value(f"{_REGISTRY}url").partition(",")
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


def _commit(draft: Draft) -> None:
    for name, key, default in _MILLISECONDS:
        number = draft.number(name)
        if number is not None:
            draft.set(key, f"{number}ms", name)
        elif default is not None:
            draft.set(key, default, note="the sink's default")
    draft.copy_number("commit.threads", "iceberg.control.commit.threads", zero=False)
