"""``[parser]`` and ``[parser.key]``: how values and keys of messages are decoded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from secor.config.transforms import check_place
from secor.config.values import Maybe, Secret, Section, fault, parse_duration
from secor.core import installing
from secor.core.errors import ConfigurationError
from secor.core.installing import offered
from secor.parsing.decoders import DECODERS, MAX_ELEMENTS, make_decoder, unknown

FRAMED = ("avro", "json", "protobuf")
"""The decoders of messages that serialisers of a registry may have framed."""

PLAIN_KEYS = ("text", "bytes", "integer")
"""Decoders of keys that have no settings."""

_OF_SCHEMAS = ("schema_file", "registry_url", "descriptor_set", "message_class")
"""Settings that say where schemas are."""

_TLS = ("registry_cafile", "registry_certfile", "registry_keyfile")
_ACCESS = ("registry_username", "registry_password", "registry_token", *_TLS)

OF_DECODERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "schema_file": ("avro",),
        **dict.fromkeys(
            ("registry_url", *_ACCESS, "registry_wait", "registry_use_id", "framing"), FRAMED
        ),
        "message": ("protobuf",),
        "descriptor_set": ("protobuf",),
        "message_class": ("protobuf", "thrift"),
        "encoding": ("protobuf",),
        "protocol": ("thrift",),
        "names": ("thrift",),
        "pattern": ("regex",),
        "max_elements": ("json",),
    }
)
"""The settings that only some decoders have."""


class DecoderSettings(Section):
    """A decoder and its own settings."""

    decoder: str = Field(
        default="json",
        description='How to read values: "json", "messagepack", "avro", "protobuf", "thrift",'
        ' "regex", or "none": the field value has the bytes; with parser.plugin that is the'
        " default. Installed packages may offer others (docs/parsing.md).",
        examples=["avro"],
    )
    decoder_settings: dict[str, Any] = Field(
        default_factory=dict,
        description="Settings of a decoder that an installed package offers.",
        examples=[{"strict": True}],
    )
    schema_file: Maybe[str] = Field(
        default=None,
        description="avro: a file with the schema; with a registry, messages are converted to it.",
        examples=["/etc/secor/clicks.avsc"],
    )
    registry_url: Maybe[str] = Field(
        default=None,
        description="avro, protobuf, json: a registry of schemas.",
        examples=["https://registry:8081"],
    )
    registry_username: Maybe[str] = Field(
        default=None, description="Registry: the user.", examples=["secor"]
    )
    registry_password: Maybe[Secret] = Field(
        default=None, description="Registry: the password.", examples=["${REGISTRY_PASSWORD}"]
    )
    registry_token: Maybe[Secret] = Field(
        default=None, description="Registry: a bearer token.", examples=["${REGISTRY_TOKEN}"]
    )
    registry_cafile: Maybe[str] = Field(
        default=None, description="Registry: authorities to trust (PEM).", examples=["ca.pem"]
    )
    registry_certfile: Maybe[str] = Field(
        default=None, description="Registry: a client certificate (PEM).", examples=["client.pem"]
    )
    registry_keyfile: Maybe[str] = Field(
        default=None, description="Registry: the certificate's key (PEM).", examples=["client.key"]
    )
    registry_wait: Annotated[float, Field(ge=0), BeforeValidator(parse_duration)] = Field(
        default=60.0,
        description="Messages with an id that the registry does not know wait so long for it,"
        " then go into quarantine.",
    )
    registry_use_id: Maybe[Literal["globalId", "contentId"]] = Field(
        default=None, description="Apicurio: the kind of its ids in front of values."
    )
    framing: Maybe[Literal["confluent", "apicurio", "glue", "none"]] = Field(
        default=None,
        description="The serialiser that has put an id in front of values, or into a record"
        " header; each has a parser.registry_url of its own (docs/parsing.md, Schema registry)."
        ' "confluent" is the default with parser.registry_url; "none": values are bare.',
    )
    message: Maybe[str] = Field(
        default=None,
        description="protobuf without a registry: full name of the message in descriptor_set.",
        examples=["acme.Click"],
    )
    descriptor_set: Maybe[str] = Field(
        default=None,
        description="protobuf without a registry: a descriptor set (protoc --include_imports -o).",
        examples=["/etc/secor/clicks.desc"],
    )
    message_class: Maybe[str] = Field(
        default=None,
        description="protobuf without a registry, thrift: a class that the compiler made,"
        ' "package.module:Class", instead of the keys above.',
        examples=["acme.clicks_pb2:Click"],
    )
    encoding: Literal["binary", "json"] = Field(
        default="binary", description='protobuf: "binary", or "json" by protobuf\'s rules.'
    )
    protocol: Literal["binary", "compact"] = Field(
        default="binary", description="thrift: how values are written."
    )
    names: dict[str, str] = Field(
        default_factory=dict,
        description="thrift: names for paths of field ids.",
        examples=[{"1": "user"}],
    )
    pattern: Maybe[str] = Field(
        default=None,
        description="regex: an expression (RE2) whose groups (?P<name>...) become fields.",
        examples=["(?P<host>\\S+) (?P<status>\\d+)"],
    )
    max_elements: int = Field(
        default=MAX_ELEMENTS,
        ge=1,
        description="json: a message with more values goes into quarantine undecoded.",
    )

    def check_decoder(self, further: Collection[str] = ("none",)) -> None:
        """Refuse settings that do not go together; ``further`` decoders have none of their own."""
        own = self.decoder in DECODERS or self.decoder in further
        if not own and self.decoder not in offered(installing.DECODERS):
            raise fault(unknown(self.decoder, further), "decoder")
        if own and self.decoder_settings:
            raise fault("is for decoders that packages offer", "decoder_settings")
        for key, decoders in OF_DECODERS.items():
            default = type(self).model_fields[key].get_default(call_default_factory=True)
            if self.decoder not in decoders and getattr(self, key) != default:
                others = ", ".join(decoders)
                raise fault(f"decoder {self.decoder} has no such setting, only {others}", key)
        if self.decoder == "avro" and not self.schema_file and not self.registry_url:
            raise fault("avro needs this, or parser.schema_file", "registry_url")
        self._check_registry()
        if self.decoder == "protobuf":
            self._check_protobuf()
        if self.decoder == "regex" and self.pattern is None:
            raise fault("regex needs an expression with groups such as (?P<time>...)", "pattern")
        if self.message_class is not None:
            check_place(self.message_class, "message_class")
        if self.names and self.message_class:
            raise fault("the class has names, too; take one of them away", "names")
        if self.decoder == "regex" or self.names:
            key = "names" if self.names else "pattern"
            try_to_make(key, lambda: make_decoder(self.decoder, **self.settings_of_decoder()))

    def _check_protobuf(self) -> None:
        by_set = self.message is not None and self.descriptor_set is not None
        if self.registry_url:
            for key in ("message", "descriptor_set", "message_class"):
                if getattr(self, key) is not None:
                    raise fault("the registry has the types of messages: remove this", key)
            if self.encoding != "binary":
                raise fault("messages framed for a registry are binary: remove this", "encoding")
        elif by_set == (self.message_class is not None):
            ways = "message and descriptor_set, or message_class, or registry_url"
            raise fault(f"give either {ways}", "message")

    def _check_registry(self) -> None:
        from secor.parsing.registry_server import check_address

        given = [key for key in _ACCESS if getattr(self, key) is not None]
        if not self.registry_url:
            if given:
                raise fault("is for a registry: give registry_url, too", given[0])
            return
        address = self.registry_url
        try_to_make("registry_url", lambda: check_address(address))
        self._check_framing(address)
        if self.registry_username is None and self.registry_password is not None:
            raise fault("is missing, and there is a password", "registry_username")
        if self.registry_username is not None and self.registry_token is not None:
            raise fault("there is registry_username, too: keep one of them", "registry_token")
        if self.registry_keyfile is not None and self.registry_certfile is None:
            raise fault("the key needs its certificate", "registry_certfile")
        if not address.startswith("https:"):
            for key in _TLS:
                if getattr(self, key) is not None:
                    raise fault("is for TLS: registry_url begins with http:", key)

    def _check_framing(self, address: str) -> None:
        if self.registry_use_id is not None and self.framing != "apicurio":
            raise fault('is for framing = "apicurio"', "registry_use_id")
        if self.framing == "apicurio" and "/apis/registry/" not in address:
            why = "is not Apicurio's own interface, such as http://registry:8080/apis/registry/v3"
            raise fault(f'{why}; with /apis/ccompat/v7, use framing = "confluent"', "registry_url")
        if self.framing == "glue":
            for key in ("registry_token", *_TLS):
                if getattr(self, key) is not None:
                    raise fault("is not for AWS Glue, which has its own credentials", key)

    def settings_of_decoder(self) -> dict[str, Any]:
        """Return the settings of the decoder as ``make_decoder`` names them."""
        if self.decoder_settings:
            return dict(self.decoder_settings)
        own = {key for key, decoders in OF_DECODERS.items() if self.decoder in decoders}
        given = {key: getattr(self, key) for key in own if getattr(self, key) is not None}
        for key in ("registry_password", "registry_token"):
            if key in given:
                given[key] = given[key].get_secret_value()
        names = {"registry_url": "registry"}
        return {names.get(key, key.removeprefix("registry_")): given[key] for key in sorted(given)}


class KeyDecoding(DecoderSettings):
    """``[parser.key]``: how the keys of messages are read, and the fields that they become."""

    decoder: str = Field(
        default="none",
        description='How to read keys: "text", "bytes" as they are, "integer" as'
        ' Kafka\'s serialisers write it, or as values: "json" (also'
        ' text and numbers), "avro" (also those of one type), "protobuf" and the others. "none":'
        " not at all. Its settings are those of [parser]; without a registry and schemas of their"
        " own, keys in avro and protobuf, and those with parser.key.framing, have the registry of"
        " [parser].",
        examples=["json"],
    )
    field: Maybe[str] = Field(
        default="key",
        description='The field that has the whole key. "none": keys become no fields, and only'
        " say which row a message without a value deletes.",
        examples=["id"],
    )
    prefix: Maybe[str] = Field(
        default=None,
        description="The fields of keys that are objects become fields of the message, with this"
        ' in front of their names; "" is nothing. A message with another value under'
        " such a name goes into quarantine.",
        examples=["key_"],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check_decoder(("none", *PLAIN_KEYS))
        if self.decoder == "none":
            for name in ("field", "prefix"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise fault("keys are not read: give parser.key.decoder, too", name)
        if self.field is not None and (not self.field or "." in self.field):
            raise fault("is one name, without dots", "field")
        return self

    def has(self, path: str) -> bool:
        """Return whether a dotted path may be a field of keys."""
        if self.decoder == "none":
            return False
        return self.prefix is not None or path.partition(".")[0] == self.field


def with_registry_of_values(parser: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``[parser]`` with its registry for keys, too, where these name nothing else."""
    key = parser.get("key")
    if not isinstance(key, dict) or not parser.get("registry_url"):
        return parser
    framed = key.get("framing", "none") != "none"
    if key.get("decoder") not in ("avro", "protobuf") and not (framed and key.get("decoder")):
        return parser
    if key.get("framing") == "none" or any(key.get(name) for name in _OF_SCHEMAS):
        return parser
    names = ("registry_url", *_ACCESS, "registry_wait", "registry_use_id", "framing")
    return {**parser, "key": {**{word: parser[word] for word in names if word in parser}, **key}}


def groups_of(pattern: str | None) -> Collection[str]:
    """Return the names of an expression's groups."""
    if pattern is None:
        return ()
    from secor.parsing.decoders.regex import RegexDecoder

    return RegexDecoder(pattern).names


def try_to_make(key: str, make: Callable[[], Any]) -> Any:
    """Make what a setting describes, to see whether it can be made."""
    try:
        return make()
    except ConfigurationError as error:
        raise fault(str(error), key) from error
