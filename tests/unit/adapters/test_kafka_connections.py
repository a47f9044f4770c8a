"""What connections to brokers receive, and the frames in which responses are collected."""

from __future__ import annotations

import random
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka.protocol import parser
from kafka.protocol.frame import KafkaBytes

from secor.adapters.kafka import connections, insides
from secor.adapters.kafka.connections import Receiver
from tests.certificates import Authority

TURN = 1 << 20


def receive(receiver: Receiver, transport: SimpleNamespace) -> tuple[bytes, Exception | None]:
    data, error = receiver.receive(transport)
    return bytes(data), error


@pytest.fixture
def ends() -> Iterator[tuple[SimpleNamespace, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        yield SimpleNamespace(_sock=near), far


def test_all_that_has_come_is_received(ends: tuple[SimpleNamespace, socket.socket]) -> None:
    transport, far = ends
    receiver = Receiver()
    assert receive(receiver, transport) == (b"", None)
    far.send(b"one")
    far.send(b"two")
    assert receive(receiver, transport) == (b"onetwo", None)
    assert receive(receiver, transport) == (b"", None)


def test_what_came_before_the_end_is_received_before_the_end_is_told(
    ends: tuple[SimpleNamespace, socket.socket],
) -> None:
    transport, far = ends
    receiver = Receiver()
    far.send(b"last")
    far.close()
    assert receive(receiver, transport) == (b"last", None)
    received, error = receive(receiver, transport)
    assert received == b""
    assert "disconnected" in str(error)


def test_what_came_before_an_error_is_received_before_it_is_told() -> None:
    class Broken:
        def __init__(self) -> None:
            self.answers: list[bytes] = [b"some"]

        def recv_into(self, buffer: memoryview, _most: int) -> int:
            if not self.answers:
                raise ConnectionResetError("reset by peer")
            data = self.answers.pop()
            buffer[: len(data)] = data
            return len(data)

    transport = SimpleNamespace(_sock=Broken())
    receiver = Receiver()
    assert receive(receiver, transport) == (b"some", None)
    received, error = receive(receiver, transport)
    assert received == b""
    assert "reset by peer" in str(error)


def test_more_than_a_turn_takes_comes_in_several(
    ends: tuple[SimpleNamespace, socket.socket],
) -> None:
    transport, far = ends
    whole = random.Random(1).randbytes(3 * TURN + 7)
    sender = threading.Thread(target=far.sendall, args=(whole,))
    sender.start()
    receiver = Receiver()
    received = bytearray()
    while len(received) < len(whole):
        data, error = receiver.receive(transport)
        assert error is None
        assert len(data) <= TURN
        received += data
    sender.join(60)
    assert received == whole


def test_nothing_that_tls_has_decrypted_is_left(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.issue("broker", hosts=("localhost",)))
    client = ssl.create_default_context(cafile=str(authority.path))
    near, far = socket.socketpair()
    whole = random.Random(2).randbytes(3 * TURN + 7)

    def serve() -> None:
        with server.wrap_socket(far, server_side=True) as encrypted:
            encrypted.sendall(whole)
            encrypted.unwrap()

    thread = threading.Thread(target=serve)
    thread.start()
    with client.wrap_socket(near, server_hostname="localhost") as encrypted:
        encrypted.setblocking(False)
        receiver = Receiver()
        received = bytearray()
        while len(received) < len(whole):
            data, error = receiver.receive(SimpleNamespace(_sock=encrypted))
            assert error is None
            assert encrypted.pending() == 0
            received += data
        encrypted.setblocking(True)
        encrypted.unwrap()
    thread.join(60)
    assert received == whole


def frames(whole: bytes, cuts: list[int]) -> list[bytes]:
    """Return what the client's parser makes of bytes that come in such pieces."""
    protocol = parser.KafkaProtocol()
    responses: list[bytes] = []

    def keep(frame: KafkaBytes) -> None:
        begin = bytes(frame.read(4))
        frame.seek(2)
        assert bytes(frame.read()) == begin[2:] + bytes(frame)[4:]
        assert bytes(frame.read()) == b""
        responses.append(bytes(frame))

    protocol._process_response = keep
    for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        protocol.receive_bytes(memoryview(whole)[begin:end])
    return responses


def test_frames_hold_the_responses_however_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "KafkaBytes", parser.KafkaBytes)
    chance = random.Random(3)
    responses = [chance.randbytes(size) for size in (4, 5, 1000, 70_000, 4, 31)]
    whole = b"".join(len(response).to_bytes(4, "big") + response for response in responses)
    for kind in (KafkaBytes, connections.ResponseFrame):
        parser.KafkaBytes = kind
        for cuts in (0, 1, 7, 200):
            places = sorted(chance.sample(range(1, len(whole)), cuts))
            assert frames(whole, places) == responses, (kind, places)


def test_the_client_collects_responses_in_our_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "KafkaBytes", KafkaBytes)
    insides.collect_responses_in(connections.ResponseFrame)
    protocol = parser.KafkaProtocol()
    kinds: list[type] = []
    protocol._process_response = lambda frame: kinds.append(type(frame))
    protocol.receive_bytes(b"\0\0\0\2ok")
    assert kinds == [connections.ResponseFrame]
