"""Confluent's own serialisers, and the content of the registry with which they register."""

from __future__ import annotations

from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.fakes.registry import Registry

IN_HEADERS = {"schema.id.serializer": header_schema_id_serializer}


class Confluent:
    """Serialisers of one application; ``client`` is the library's own fake, or one of a server."""

    def __init__(self, client: Any = None) -> None:
        self.client = client or SchemaRegistryClient.new_client({"url": "mock://"})
        self.headers: list[tuple[str, bytes]] = []

    def avro(self, schema: str, **settings: Any) -> AvroSerializer:
        return AvroSerializer(self.client, schema, conf=settings)

    def json(self, schema: Any, **settings: Any) -> JSONSerializer:
        return JSONSerializer(schema, self.client, conf=settings)

    def protobuf(self, message: Any, **settings: Any) -> ProtobufSerializer:
        conf = {"use.deprecated.format": False, **settings}
        return ProtobufSerializer(message, self.client, conf)

    def write(self, serializer: Any, value: Any, topic: str = "orders", key: bool = False) -> bytes:
        """Serialise a value; ``headers`` are those that its record would have."""
        self.headers = []
        field = MessageField.KEY if key else MessageField.VALUE
        written = serializer(value, SerializationContext(topic, field, self.headers))
        assert isinstance(written, bytes)
        return written

    def copy_to(self, registry: Registry) -> None:
        """Have a fake registry answer with what has been registered."""
        for subject in self.client.get_subjects():
            for version in self.client.get_versions(subject):
                known = self.client.get_version(subject, version)
                registry.register(
                    known.schema_id,
                    known.schema.schema_str,
                    kind=known.schema.schema_type,
                    subject=subject,
                    version=version,
                    guid=known.guid,
                    references=[
                        {"name": it.name, "subject": it.subject, "version": it.version}
                        for it in known.schema.references or ()
                    ],
                )
