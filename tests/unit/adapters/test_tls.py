"""Handshakes that fail, in memory: each says what is wrong and what to do."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from secor.adapters import tls
from secor.core.errors import ConfigurationError
from tests.certificates import Authority

NAMES = tls.Names("AUTHORITY", "CERTIFICATE", "UNCHECKED", "PLAIN")


@dataclass(frozen=True)
class Sides:
    """A client that trusts ``ours``, and a server of it."""

    ours: Authority
    foreign: Authority
    client: ssl.SSLContext
    server: ssl.SSLContext


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    ours, foreign = Authority(tmp_path, "ours"), Authority(tmp_path, "foreign")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(ours.issue("server", hosts=("here",)))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(ours.path)
    return Sides(ours, foreign, client, server)


def failure(sides: Sides, host: str = "here") -> ssl.SSLError | None:
    """Shake hands and read once, as a client does; return what the client gets to see."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = sides.client.wrap_bio(to_client, to_server, server_hostname=host)
    server = sides.server.wrap_bio(to_server, to_client, server_side=True)
    shaken = False
    for _ in range(5):
        try:
            client.read() if shaken else client.do_handshake()
            shaken = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            return error
        with suppress(ssl.SSLError):  # the client is told by an alert
            server.do_handshake()
    return None


def advice(sides: Sides, host: str = "here") -> str | None:
    error = failure(sides, host)
    return None if error is None else tls.advice(error, NAMES)


def test_a_handshake_that_succeeds_has_nothing_to_say(sides: Sides) -> None:
    assert failure(sides) is None


def test_an_unknown_authority_is_named_with_the_setting(sides: Sides) -> None:
    sides.server.load_cert_chain(sides.foreign.issue("server", hosts=("here",)))
    assert "AUTHORITY" in (advice(sides) or "")


@pytest.mark.parametrize("host", ["elsewhere", "127.0.0.1"])
def test_a_certificate_for_another_name_is_told_as_that(sides: Sides, host: str) -> None:
    told = advice(sides, host) or ""
    assert "UNCHECKED" in told
    assert host in told


def test_an_expired_certificate_of_the_server_is_to_be_renewed_there(sides: Sides) -> None:
    sides.server.load_cert_chain(sides.ours.issue("late", hosts=("here",), days=-1))
    assert "renew it there" in (advice(sides) or "")


@pytest.mark.parametrize("shown", ["nothing", "foreign", "expired"])
def test_a_client_certificate_that_is_refused_names_the_setting(sides: Sides, shown: str) -> None:
    sides.server.verify_mode = ssl.CERT_REQUIRED
    sides.server.load_verify_locations(sides.ours.path)
    if shown == "foreign":
        sides.client.load_cert_chain(sides.foreign.issue("client"))
    if shown == "expired":
        sides.client.load_cert_chain(sides.ours.issue("client", days=-1))
    assert "CERTIFICATE" in (advice(sides) or "")


def test_an_answer_in_plain_text_is_told_as_that(sides: Sides) -> None:
    incoming = ssl.MemoryBIO()
    incoming.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    client = sides.client.wrap_bio(incoming, ssl.MemoryBIO(), server_hostname="here")
    with pytest.raises(ssl.SSLError) as caught:
        client.do_handshake()
    assert "PLAIN" in (tls.advice(caught.value, NAMES) or "")


def test_no_version_in_common_is_told_as_that(sides: Sides) -> None:
    sides.client.maximum_version = ssl.TLSVersion.TLSv1_2
    sides.server.minimum_version = ssl.TLSVersion.TLSv1_3
    assert "no TLS version" in (advice(sides) or "")


def test_what_is_wrapped_is_found_and_what_is_not_of_tls_may_pass(sides: Sides) -> None:
    error = failure(sides, "elsewhere")
    assert "UNCHECKED" in (tls.advice(OSError("it failed", error), NAMES) or "")
    assert tls.advice(OSError("it failed"), NAMES) is None
    assert tls.advice(ssl.SSLEOFError(8, "EOF occurred"), NAMES) is None


def test_files_that_cannot_be_used_are_named(sides: Sides, tmp_path: Path) -> None:
    absent, pair = str(tmp_path / "absent.pem"), str(sides.ours.issue("client"))
    tls.client_context("X", authorities=str(sides.ours.path), certificate=pair)
    tls.client_context("X", authorities=str(tmp_path))
    with pytest.raises(ConfigurationError, match=rf"TLS to X: .*{absent}"):
        tls.client_context("X", authorities=absent)
    with pytest.raises(ConfigurationError, match=pair):
        tls.client_context("X", authorities=pair, certificate=str(sides.ours.path), key=pair)
