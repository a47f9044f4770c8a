"""Translation of obstore's errors into this program's.

Its errors have few classes and long texts: the first paragraph says what happened, with the
server's answer; then come the insides of the error.  Addresses may hold a signature, so the
texts are taken apart, and the errors themselves are never shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from secor.core.errors import (
    AccessDenied,
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    SecorError,
    StopPartition,
    Unavailable,
)
from secor.core.text import mask_urls


@dataclass(frozen=True, slots=True)
class Provider:
    """One cloud's words and habits.

    ``section`` is the configuration's, ``container`` what holds objects, ``credentials`` the
    settings to look at when they are refused, ``rights`` what to allow.  ``sorted_listings``
    : listings come sorted by key in every kind of account.  ``underscores``: names
    of metadata have underscores where ours have hyphens.
    """

    section: str
    container: str
    credentials: str
    rights: str
    sorted_listings: bool
    underscores: bool

    def encode(self, metadata: Mapping[str, str]) -> dict[str, str]:
        """Return metadata as this cloud takes it."""
        if not self.underscores:
            return {name.lower(): value for name, value in metadata.items()}
        return {name.lower().replace("-", "_"): value for name, value in metadata.items()}

    def decode(self, metadata: Mapping[str, str]) -> dict[str, str]:
        """Return metadata with our names."""
        if not self.underscores:
            return {name.lower(): value for name, value in metadata.items()}
        return {name.lower().replace("_", "-"): value for name, value in metadata.items()}


GCS = Provider(
    section="[store.gcs]",
    container="bucket",
    credentials="service_account, service_account_key or token",
    rights="storage.objects.create, get, list and delete (the role Storage Object User)",
    sorted_listings=True,
    underscores=False,
)

AZURE = Provider(
    section="[store.azure]",
    container="container",
    credentials="account_key, sas_token, or tenant_id, client_id and client_secret",
    rights="reading, creating, listing and deleting blobs (the role Storage Blob Data Contributor)",
    # With hierarchical namespaces a directory's blobs come before a neighbour's "name-...".
    sorted_listings=False,
    # Names have to be identifiers of C#.
    underscores=True,
)


_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<\n]+)")
_QUERY = re.compile(r"\?[^\s\"']+")
_TOKEN = re.compile(r"token request|credential", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://\S+")
_CERTIFICATE = re.compile(r"invalid peer certificate: (\w+)|InvalidCertificate\((\w+)")

_NO_CONTAINER = frozenset({"NoSuchBucket", "ContainerNotFound"})
_NO_ACCOUNT = re.compile(r"dns error|failed to lookup address")
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_CONFLICT_FOR_NOW = frozenset({"ContainerBeingDeleted", "AccountBeingCreated", "OperationAborted"})


@contextmanager
def translated(provider: Provider, doing: str, *, writes: bool = False) -> Iterator[None]:
    """Turn obstore's errors into ours; ``doing`` is such as ``put gs://bucket/key``.

    ``writes`` says that the call may take effect though its answer is lost: obstore repeats
    calls by itself and shows only the last failure, so every failure may hide a success.
    """
    try:
        yield
    except ValueError as error:  # a key with empty or dotted parts
        raise StopPartition(f"cannot {doing}: {error}; change the prefix or the layout") from error
    except (BaseError, FileNotFoundError) as error:
        # Without the cause: its text has signatures in it.
        raise _translate(error, provider, doing, writes) from None


def status_of(error: BaseException) -> int:
    """Return the HTTP status of the last answer, 0 where there was none."""
    match = _STATUS.search(str(error))
    return int(match[1]) if match else 0


def describe(error: BaseException) -> str:
    """Return what a person needs of an error's text: no insides, no queries of addresses."""
    text = str(error).partition("\n\nDebug source:")[0]
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code:
        return f"{code[1]}: {message[1].strip()}" if message else code[1]
    return mask_urls(_QUERY.sub("?...", " ".join(text.split())))


def _translate(
    error: BaseError | FileNotFoundError, provider: Provider, doing: str, writes: bool
) -> SecorError:
    text, status = f"cannot {doing}: {describe(error)}", status_of(error)
    code = _CODE.search(str(error))
    name = code[1] if code else ""
    if name in _NO_CONTAINER or (writes and isinstance(error, FileNotFoundError)):
        return AccessDenied(
            f"{text}; make the {provider.container}, or correct its name in {provider.section}"
        )
    if isinstance(error, FileNotFoundError):
        return NotFound(f"cannot {doing}: it does not exist")
    if isinstance(error, AlreadyExistsError | PreconditionError):
        if name in _CONFLICT_FOR_NOW:
            return Unavailable(text)
        return AlreadyExists(f"cannot {doing}: an object of this name exists")
    if not status:
        return _unanswered(error, provider, text, writes)
    if status in _PASSING or (status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED):
        if writes and not _without_token(error):
            return OutcomeUnknown(f"{text}; it may have been done all the same")
        return Unavailable(text)
    return AccessDenied(f"{text}; {_advice(error, status, provider)}")


def _without_token(error: BaseException) -> bool:
    """Return whether the request for a token failed; an object's key may hold the words too."""
    return _TOKEN.search(_ADDRESS.sub("", describe(error))) is not None


def _advice(error: BaseException, status: int, provider: Provider) -> str:
    settings = f"{provider.credentials} of {provider.section}"
    if _without_token(error):
        return f"no token could be had: check {settings}, or the identity of this machine"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"check {settings}, and allow {provider.rights}"
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return "let batches be smaller, by policy.max_bytes"
    return f"check the settings of {provider.section}"


def _unanswered(error: BaseException, provider: Provider, text: str, writes: bool) -> SecorError:
    """Return the error for a request without an answer: network, TLS, or missing credentials."""
    insides = str(error)
    certificate = _CERTIFICATE.search(insides)
    if certificate:
        reason = certificate[1] or certificate[2]
        return AccessDenied(
            f"{text}: the server's certificate cannot be trusted ({reason}): set ca_bundle of"
            f" {provider.section} to the file of its authority, or correct endpoint_url"
        )
    if _without_token(error):
        return Unavailable(f"{text}; without {provider.credentials} the machine's identity is used")
    if _NO_ACCOUNT.search(insides):
        text = f"{text} (the name of the server is not known: {provider.section} names it)"
    if writes:
        return OutcomeUnknown(f"{text}; it may have been done all the same")
    return Unavailable(text)
