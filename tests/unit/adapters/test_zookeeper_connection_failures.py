"""Why an ensemble is not reached, from what kazoo's tries ended with."""

from __future__ import annotations

import ssl
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import SessionExpiredError
from kazoo.protocol.connection import ConnectionDropped

from secor.adapters.zookeeper.options import Options, TlsHandler
from secor.adapters.zookeeper.session import Contact
from secor.core.errors import ConfigurationError

HOSTS = "one:2181,two:2181/logs"


class Tries:
    """A client whose tries to connect end as they are told."""

    def __init__(self, *, use_tls: bool = True) -> None:
        handler = SimpleNamespace(timeout_exception=TimeoutError)
        self._session_id: int | None = None
        self._connection: Any = SimpleNamespace(handler=handler, _connect=self._fail)
        self.now = 1000.0
        self.contact = Contact(self, Options(hosts=HOSTS, use_tls=use_tls), lambda: self.now)
        self._cause: OSError | None = None

    def fail(
        self, host: str, cause: OSError | None, how: type[Exception] = ConnectionDropped
    ) -> None:
        self._cause = cause
        with pytest.raises(how):
            self._connection._connect(host, "127.0.0.1", 2181)

    def _fail(self, _host: str, _address: str, _port: int) -> None:
        try:
            if self._cause is not None:
                raise self._cause
        except OSError as error:
            raise ConnectionDropped("socket connection error") from error
        raise ConnectionDropped("socket connection broken")


def untrusted() -> ssl.SSLError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = 20, "unable to get local issuer certificate"
    return error


def test_it_is_refused_only_when_every_server_refuses() -> None:
    tries = Tries()
    assert tries.contact.refusal() is None
    tries.fail("one", untrusted())
    tries.fail("two", ConnectionRefusedError())
    assert tries.contact.refusal() is None
    assert "ledger.zookeeper.tls_ca" in tries.contact.hint()
    tries.fail("two", untrusted())
    assert "ledger.zookeeper.tls_ca" in (tries.contact.refusal() or "")


def test_a_server_that_takes_a_connection_and_closes_it_may_want_tls() -> None:
    tries = Tries(use_tls=False)
    tries.fail("one", None)
    assert "use_tls = true" in tries.contact.hint()
    assert tries.contact.refusal() is None


def test_one_that_closes_it_in_the_handshake_may_not_know_tls() -> None:
    tries = Tries()
    tries.fail("one", ssl.SSLEOFError(8, "EOF occurred"))
    assert "use_tls = false" in tries.contact.hint()


def test_nobody_who_listens_is_no_question_of_tls() -> None:
    tries = Tries(use_tls=False)
    tries.fail("one", ConnectionRefusedError())
    assert tries.contact.hint() == (
        "check ledger.zookeeper.hosts, the network, and that a server is running there"
    )


def test_files_that_vanish_while_they_are_renewed_are_tried_again() -> None:
    def vanished() -> ssl.SSLContext:
        raise ConfigurationError("absent.pem")

    with pytest.raises(OSError, match=r"absent\.pem"):
        TlsHandler(vanished).create_connection(("127.0.0.1", 1), "localhost", 1.0)


def test_a_session_whose_connections_are_all_closed_is_given_up_after_its_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries = Tries(use_tls=False)
    tries._session_id = 4711
    for second in range(20):
        tries.now = 1000.0 + second
        tries.fail("one", None)
    tries.now = 1020.0
    tries.fail("one", ConnectionResetError(), SessionExpiredError)
    assert "closed 21 connections without an answer in 20 s" in caplog.text
    tries.fail("one", None)


def test_few_connections_that_were_closed_are_no_reason_to_give_a_session_up() -> None:
    tries = Tries(use_tls=False)
    tries._session_id = 4711
    for second in (0, 30, 60, 90):
        tries.now = 1000.0 + second
        tries.fail("one", None)


def test_servers_that_are_out_and_clients_without_a_session_have_nothing_to_give_up() -> None:
    tries = Tries(use_tls=False)
    for second in range(60):
        tries.now = 1000.0 + second
        tries.fail("one", None)
    tries._session_id = 4711
    for second in range(60, 120):
        tries.now = 1000.0 + second
        tries.fail("one", ConnectionRefusedError())
