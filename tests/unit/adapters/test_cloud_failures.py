from __future__ import annotations

import pytest
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    PermissionDeniedError,
    PreconditionError,
)

from secor.adapters.clouds.failures import AZURE, GCS, Provider, translated
from secor.core.errors import (
    AccessDenied,
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    SecorError,
    StopPartition,
    Unavailable,
)


def text(status: int, code: str = "", *, retries: str = "") -> str:
    """A text of obstore: the sentence, the answer, then the insides."""
    body = f"<Error>\n  <Code>{code}</Code>\n  <Message>as it says\nRequestId:1</Message></Error>"
    return (
        "Generic MicrosoftAzure error: Error performing PUT http://h/c/k?sv=1&sig=SIGNED in 3ms"
        f"{retries} - Server returned non-2xx status code: {status} Phrase: {body if code else ''}"
        "\n\nDebug source:\nGeneric {\n    uri: http://h/c/k?sv=1&sig=SIGNED,\n}"
    )


def translate(
    error: BaseError | FileNotFoundError | ValueError, *, writes: bool, provider: Provider = AZURE
) -> SecorError:
    with (
        pytest.raises(SecorError) as raised,
        translated(provider, "put abfss://c@a/k", writes=writes),
    ):
        raise error
    assert "abfss://c@a/k" in str(raised.value)
    assert "SIGNED" not in str(raised.value)
    assert "Debug" not in str(raised.value)
    return raised.value


@pytest.mark.parametrize(
    ("error", "reading", "writing"),
    [
        (AlreadyExistsError(text(409, "BlobAlreadyExists")), AlreadyExists, AlreadyExists),
        (PreconditionError(text(412)), AlreadyExists, AlreadyExists),
        (AlreadyExistsError(text(409, "ContainerBeingDeleted")), Unavailable, Unavailable),
        (FileNotFoundError(text(404, "NoSuchKey")), NotFound, AccessDenied),
        (FileNotFoundError(text(404)), NotFound, AccessDenied),
        (FileNotFoundError(text(404, "ContainerNotFound")), AccessDenied, AccessDenied),
        (GenericError(text(404, "NoSuchBucket")), AccessDenied, AccessDenied),
        (PermissionDeniedError(text(403, "AuthorizationFailure")), AccessDenied, AccessDenied),
        (GenericError(text(400, "InvalidMetadata")), AccessDenied, AccessDenied),
        (GenericError(text(413, "RequestBodyTooLarge")), AccessDenied, AccessDenied),
        (GenericError(text(501)), AccessDenied, AccessDenied),
        (GenericError(text(429)), Unavailable, OutcomeUnknown),
        (GenericError(text(408)), Unavailable, OutcomeUnknown),
        (GenericError(text(500, "InternalError")), Unavailable, OutcomeUnknown),
        (GenericError(text(503, "ServerBusy")), Unavailable, OutcomeUnknown),
        (GenericError("Generic: HTTP error: error sending request"), Unavailable, OutcomeUnknown),
        (ValueError("Could not parse path: empty"), StopPartition, StopPartition),
    ],
    ids=lambda value: str(value)[-60:] if isinstance(value, Exception) else value.__name__,
)
def test_each_answer_says_what_the_caller_does(
    error: BaseError | FileNotFoundError | ValueError,
    reading: type[SecorError],
    writing: type[SecorError],
) -> None:
    assert type(translate(error, writes=False)) is reading
    assert type(translate(error, writes=True)) is writing


def test_the_servers_own_words_are_told() -> None:
    told = str(translate(GenericError(text(403, "AuthorizationFailure")), writes=True))
    assert "AuthorizationFailure: as it says" in told
    assert "account_key" in told
    assert "Storage Blob Data Contributor" in told


def test_a_missing_container_is_told_in_the_clouds_word() -> None:
    error = GenericError(text(404, "NoSuchBucket"))
    assert "make the bucket" in str(translate(error, writes=False, provider=GCS))
    error = GenericError(text(404, "ContainerNotFound"))
    assert "make the container" in str(translate(error, writes=False))


def test_too_large_an_object_names_the_setting() -> None:
    assert "policy.max_bytes" in str(translate(GenericError(text(413)), writes=True))


@pytest.mark.parametrize("answer", [" - HTTP error: error sending request", " - status code: 503"])
def test_a_key_that_speaks_of_credentials_is_no_failed_token(answer: str) -> None:
    error = GenericError(
        f"Generic GCS error: Error performing PUT http://h/secor/credentials/0 in 5s{answer}"
    )
    assert type(translate(error, writes=True, provider=GCS)) is OutcomeUnknown


def test_without_a_token_nothing_was_written() -> None:
    out_of_reach = GenericError(
        "Generic GCS error: Error performing token request: Error performing GET"
        " http://metadata/token in 5s - HTTP error: error sending request"
    )
    error = translate(out_of_reach, writes=True, provider=GCS)
    assert type(error) is Unavailable
    assert "service_account" in str(error)
    refused = GenericError(
        "Generic GCS error: Error performing token request: Error performing GET"
        " http://metadata/token in 5s - Server returned non-2xx status code: 403 Forbidden: no"
    )
    error = translate(refused, writes=True, provider=GCS)
    assert type(error) is AccessDenied
    assert "no token could be had" in str(error)


def test_a_certificate_that_is_not_trusted_names_the_setting() -> None:
    error = GenericError(
        "Generic GCS error: HTTP error: error sending request\n\nDebug source:\nHttp { source:"
        " Custom { error: InvalidCertificate(UnknownIssuer) } }"
    )
    told = translate(error, writes=True, provider=GCS)
    assert type(told) is AccessDenied
    assert "UnknownIssuer" in str(told)
    assert "ca_bundle of [store.gcs]" in str(told)
