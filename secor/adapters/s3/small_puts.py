"""Puts of small objects, at a fraction of the CPU that botocore takes for each.

For every object of a store botocore does nearly the same: it resolves the endpoint, serializes
the settings and parses an empty answer.  Here it does that once: the request of the first put
is a template for the others.  botocore still signs each request, sends it, repeats it, follows
it to another region, and parses every answer that is not a success.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from botocore.awsrequest import AWSPreparedRequest, AWSRequest
from botocore.endpoint import Endpoint
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserFactory

from secor.adapters.s3.multipart import encoded

if TYPE_CHECKING:
    from botocore.model import OperationModel
    from botocore.parsers import ResponseParser
    from mypy_boto3_s3 import S3Client

_PUT = "PutObject"
_CHECKSUM = "x-amz-checksum-crc32c"
_METADATA = "x-amz-meta-"
_CONTENT_SHA256 = "X-Amz-Content-SHA256"

_URL_FIELDS = ("url", "url_path", "auth_path")
"""Fields of a request that end with the key."""

_PER_OBJECT_FIELDS = (*_URL_FIELDS, "headers", "body", "context")
"""Fields of a request that differ from object to object."""


class SmallPuts:
    """Puts bytes into one bucket with the same settings; threads may share it."""

    def __init__(self, client: S3Client, parameters: Mapping[str, Any]) -> None:
        """``parameters`` are those of every ``put_object``, the bucket among them."""
        self._client = client
        self._parameters = parameters
        self._endpoint = _PutEndpoint(client)
        self._template: _Template | None = None
        client.meta.events.register_last(f"before-call.s3.{_PUT}", self._keep_template)

    def put(self, key: str, content: bytes, crc32c: int, metadata: Mapping[str, str]) -> None:
        """Put the object.  Raises what ``put_object`` raises."""
        template = self._template
        if template is None or not all(map(_is_plain, metadata.items())):
            self._client.put_object(
                Key=key,
                Body=content,
                ChecksumCRC32C=encoded(crc32c),
                Metadata=metadata,
                **self._parameters,
            )
            return
        headers = {_METADATA + name: value for name, value in metadata.items()}
        request = template.request(key, content, {_CHECKSUM: encoded(crc32c), **headers})
        answer, parsed = self._endpoint.make_request(template.model, request)
        self._client.meta.events.emit(
            f"after-call.s3.{_PUT}",
            http_response=answer,
            parsed=parsed,
            model=template.model,
            context=request["context"],
        )
        if request["context"]["s3_redirect"].get("redirected"):
            self._template = None  # botocore knows the bucket's region now
        if answer.status_code > HTTPStatus.IM_USED:
            raise ClientError(parsed, _PUT)

    def _keep_template(self, params: Mapping[str, Any], model: OperationModel, **_: object) -> None:
        """Make the template from botocore's first request; botocore's events call this."""
        if self._template is None:
            self._template = _Template.of(params, model)


def _is_plain(item: tuple[str, str]) -> bool:
    """Tell whether a name and its value need no encoding in a header."""
    name, value = item
    return name.isascii() and value.isascii()


@dataclass(frozen=True, slots=True)
class _Template:
    """What the requests of all puts have in common; ``url_prefixes`` are its URLs up to the key."""

    model: OperationModel
    url_prefixes: Mapping[str, str]
    headers: Mapping[str, str]
    shared: Mapping[str, Any]
    context: Mapping[str, Any]
    bucket: str

    @classmethod
    def of(cls, params: Mapping[str, Any], model: OperationModel) -> _Template | None:
        """Make a template from a request of botocore; None if that does not look as expected."""
        context = params["context"]
        redirect = context.get("s3_redirect", {})
        arguments = redirect.get("params", {})
        if not {"Bucket", "Key"} <= arguments.keys():
            return None
        path = _quoted(arguments["Key"])
        url_prefixes = {name: params[name] for name in _URL_FIELDS if name in params}
        if not all(url.endswith(f"/{path}") for url in url_prefixes.values()):
            return None
        per_object_headers = (_METADATA, _CHECKSUM, "expect")
        return cls(
            model=model,
            url_prefixes={name: url.removesuffix(path) for name, url in url_prefixes.items()},
            headers={
                name: value
                for name, value in params["headers"].items()
                if not name.lower().startswith(per_object_headers)
            },
            shared={
                name: value for name, value in params.items() if name not in _PER_OBJECT_FIELDS
            },
            # Without the arguments, which hold the first object's content.
            context={**context, "s3_redirect": {**redirect, "params": {}}},
            bucket=arguments["Bucket"],
        )

    def request(self, key: str, content: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the request for one object, which botocore may change."""
        path = _quoted(key)
        arguments = {"Bucket": self.bucket, "Key": key}
        context = {
            name: dict(value) if isinstance(value, dict) else value
            for name, value in self.context.items()
        }
        context["s3_redirect"]["params"] = context["input_params"] = arguments
        return {
            **self.shared,
            **{name: url + path for name, url in self.url_prefixes.items()},
            "headers": {**self.headers, **headers},
            "body": content,
            "context": context,
        }


def _quoted(key: str) -> str:
    """Return the key as botocore writes it into a URL."""
    return quote(key, safe="/~")


class _BodilessRequest(AWSRequest):
    """What is signed, without the body: botocore would inspect an unsigned body repeatedly."""

    body = ""


class _PutEndpoint(Endpoint):
    """Prepares a request with less copying; botocore's endpoint does everything else."""

    def __init__(self, client: S3Client) -> None:
        """Share the connections and the events of ``client``."""
        self._events = client.meta.events
        # botocore has no public way to the connections.
        connections = vars(client)["_endpoint"].http_session
        super().__init__(
            client.meta.endpoint_url, "s3", self._events, _ParserFactory(), connections
        )

    def create_request(
        self, params: Mapping[str, Any], operation_model: OperationModel | None = None
    ) -> AWSPreparedRequest:
        """Return the signed request."""
        method, url, content = params["method"], params["url"], params["body"]
        request = _BodilessRequest(method, url, params["headers"])
        request.context = params["context"]
        self._events.emit(f"request-created.s3.{_PUT}", request=request, operation_name=_PUT)
        # The two signers of botocore write the name in different cases.
        if request.headers.get(_CONTENT_SHA256) != "UNSIGNED-PAYLOAD":
            return super().create_request(params, operation_model)  # the body may be signed
        headers: dict[str, Any] = dict(request.headers.raw_items())
        headers["Content-Length"] = str(len(content))
        return AWSPreparedRequest(method, url, headers, content, False)  # type: ignore[arg-type]


class _Parser:
    """Parses as ``parser``, except for a success, of which a put needs only the status."""

    def __init__(self, parser: ResponseParser) -> None:
        self._parser = parser

    def parse(self, response: Mapping[str, Any], shape: Any) -> Any:
        """Return the parsed response.  botocore has already handled errors behind status 200."""
        if response["status_code"] == HTTPStatus.OK:
            return {"ResponseMetadata": {"HTTPStatusCode": HTTPStatus.OK}}
        return self._parser.parse(response, shape)


class _ParserFactory(ResponseParserFactory):
    """Creates parsers of this kind."""

    def create_parser(self, protocol_name: str) -> Any:
        """Return the parser of a protocol."""
        return _Parser(super().create_parser(protocol_name))
