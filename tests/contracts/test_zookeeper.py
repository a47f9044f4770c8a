"""What only ZooKeeper has: nodes, sessions, connections, ACLs."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import OPEN_ACL_UNSAFE

from secor.adapters.ledger_codec import encode_intent
from secor.adapters.zookeeper import ZooKeeperLedger
from secor.adapters.zookeeper.exchanges import Exchange
from secor.core.errors import (
    AccessDenied,
    ConfigurationError,
    LeaseLost,
    LedgerCorrupt,
    OutcomeUnknown,
    Refused,
    Unavailable,
)
from secor.core.model import Entry, Intent, TopicPartition
from secor.core.ports import Lease
from secor.sandbox import Sandbox
from secor.sandbox.state import free_port
from secor.sandbox.zookeeper import ZooKeeperServer
from tests.contracts.kafka_group import PATIENCE
from tests.contracts.ledgers import ZooKeeperLedgers, client_of, cut, eventually

KEY = TopicPartition("clicks", 0)
INTENT = Intent(100, 200, "f" * 32, "process 1", 1790000000.5, "backup/clicks")


@pytest.fixture
def ledgers(sandbox: Sandbox) -> Iterator[ZooKeeperLedgers]:
    with ExitStack() as opened:
        yield ZooKeeperLedgers(sandbox.zookeeper, opened)


def test_java_secors_offset_is_read_and_ours_stands_as_java_secor_writes_it(
    ledgers: ZooKeeperLedgers,
) -> None:
    ledgers.raw.create(ledgers.offset_path, b"4711", makepath=True)
    lease = ledgers.process().lease(KEY, PATIENCE)
    entry = lease.read()
    assert entry == Entry(4711)
    lease.commit(entry, 4800, "topic-id-1")
    assert ledgers.raw.get(ledgers.offset_path)[0] == b"4800"


def test_an_intent_is_json_in_its_own_node_and_gone_after_the_commit(
    ledgers: ZooKeeperLedgers,
) -> None:
    lease = ledgers.process().lease(KEY, PATIENCE)
    entry = lease.record(lease.read(), INTENT)
    assert ledgers.raw.get(ledgers.intent_path)[0].decode() == encode_intent(INTENT)
    assert ledgers.raw.get(ledgers.offset_path)[0] == b"100"
    lease.commit(entry, 200, None)
    assert not ledgers.raw.exists(ledgers.intent_path)


def test_an_offset_that_another_program_moved_is_not_overwritten(
    ledgers: ZooKeeperLedgers,
) -> None:
    lease = ledgers.process().lease(KEY, PATIENCE)
    entry = lease.record(lease.read(), INTENT)
    ledgers.raw.set(ledgers.offset_path, b"150")
    with pytest.raises(Refused):
        lease.commit(entry, 200, None)
    assert lease.read() == Entry(150, INTENT)
    ledgers.raw.delete(ledgers.offset_path)
    with pytest.raises(Refused):
        lease.commit(entry, 200, None)
    assert lease.read() == Entry(None, INTENT)


def test_an_empty_node_is_no_entry_that_never_was(ledgers: ZooKeeperLedgers) -> None:
    ledgers.write_garbage(b"")
    with pytest.raises(LedgerCorrupt, match=ledgers.offset_path):
        ledgers.process().read(KEY)


def test_a_damaged_intent_names_its_node(ledgers: ZooKeeperLedgers) -> None:
    ledgers.raw.create(ledgers.intent_path, b"\xff", makepath=True)
    with pytest.raises(LedgerCorrupt, match=ledgers.intent_path):
        ledgers.process().read(KEY)


def test_an_operator_settles_what_cannot_be_read(ledgers: ZooKeeperLedgers) -> None:
    ledgers.write_garbage(b"192.168.0.7")
    ledgers.raw.create(ledgers.intent_path, b"{", makepath=True)
    operator = ledgers.process()
    lease = operator.lease(KEY, PATIENCE)
    assert lease.overwrite(300, None) == Entry(300)
    assert operator.entries() == {KEY: Entry(300)}
    lease.commit(lease.read(), 400, None)
    assert operator.entries() == {KEY: Entry(400)}


def test_a_group_without_entries_has_none_to_list(ledgers: ZooKeeperLedgers) -> None:
    assert ledgers.process().entries() == {}


def test_a_closed_ledger_is_not_healthy(ledgers: ZooKeeperLedgers) -> None:
    process = ledgers.process()
    lease = process.lease(KEY, PATIENCE)
    assert process.healthy()
    process.close()
    assert not process.healthy()
    assert not lease.held()
    lease.release()
    with pytest.raises(LeaseLost):
        lease.commit(Entry(None), 1, None)
    with pytest.raises(Unavailable):
        process.read(KEY)
    eventually(lambda: not ledgers.raw.get_children(ledgers.lock_path), "freed")


def test_groups_do_not_lock_each_other_out(ledgers: ZooKeeperLedgers) -> None:
    first = ledgers.process().lease(KEY, 0.0)
    second = ledgers.process(group="other").lease(KEY, 0.0)
    assert first.held()
    assert second.held()


def test_a_lock_wait_ends_and_names_the_holder(ledgers: ZooKeeperLedgers) -> None:
    ledgers.process().lease(KEY, PATIENCE)
    other = ledgers.process()
    began = time.monotonic()
    with pytest.raises(LeaseLost, match=r"is held by process \d+ on "):
        other.lease(KEY, 0.3)
    assert time.monotonic() - began >= 0.3
    eventually(lambda: len(ledgers.raw.get_children(ledgers.lock_path)) == 1, "left the queue")


def test_a_waiting_process_gets_the_lock_when_it_is_given_back(ledgers: ZooKeeperLedgers) -> None:
    lease = ledgers.process().lease(KEY, PATIENCE)
    other = ledgers.process()
    got: list[bool] = []
    waiting = threading.Thread(target=lambda: got.append(other.lease(KEY, PATIENCE).held()))
    waiting.start()
    eventually(lambda: len(ledgers.raw.get_children(ledgers.lock_path)) == 2, "queued up")
    assert not got
    lease.release()
    waiting.join(PATIENCE)
    assert got == [True]


def test_nothing_is_left_of_a_lock_at_rest(ledgers: ZooKeeperLedgers) -> None:
    process = ledgers.process()
    for _ in range(3):
        process.lease(KEY, PATIENCE).release()
    eventually(lambda: not ledgers.raw.get_children(ledgers.lock_path), "released")


def test_the_last_commit_takes_the_locks_node_along(ledgers: ZooKeeperLedgers) -> None:
    lease = ledgers.process().lease(KEY, PATIENCE)
    lease.finish(lease.read(), 100, None)
    assert not ledgers.raw.get_children(ledgers.lock_path)


def test_a_first_entry_is_made_where_nothing_is_or_all_but_the_entry(
    ledgers: ZooKeeperLedgers,
) -> None:
    process = ledgers.process()
    for _ in range(2):
        before = process.read(KEY)
        assert before == Entry(None)
        process.lease(KEY, PATIENCE).finish(before, 100, "topic-id-1")
        ledgers.raw.delete(ledgers.offset_path)
        ledgers.raw.delete(f"{ledgers.root}/secor/backup/topics/clicks/0")


def test_a_first_epoch_is_made_with_its_commit_and_written_over_where_somebody_made_it(
    ledgers: ZooKeeperLedgers,
) -> None:
    process, other = ledgers.process(), ledgers.process()
    begun = process.lease(KEY, PATIENCE).finish(process.read(KEY), 100, None)
    ledgers.raw.create(f"{ledgers.root}/secor/backup/epochs/clicks/0", b"", makepath=True)
    lease = process.lease(KEY, PATIENCE)
    with pytest.raises(Refused):
        lease.commit(begun, 200, None, 7)
    lease.release()
    for offset in (200, 300):
        entry = process.read(KEY)
        process.lease(KEY, PATIENCE).finish(entry, offset, None, 7)
        assert other.read(KEY).leader_epoch == 7
    ledgers.raw.delete(f"{ledgers.root}/secor/backup/epochs/clicks/0")
    other.lease(KEY, PATIENCE).finish(other.read(KEY), 400, None, 8)
    assert process.read(KEY).leader_epoch == 8


def test_a_locks_directory_is_made_again_where_somebody_deletes_nodes(
    ledgers: ZooKeeperLedgers,
) -> None:
    process = ledgers.process()
    entry = process.lease(KEY, PATIENCE).finish(process.read(KEY), 100, None)
    for path in (ledgers.lock_path, ledgers.lock_path.rpartition("/")[0], f"{ledgers.root}/secor"):
        ledgers.raw.delete(path, recursive=True)
        lease = process.lease(KEY, PATIENCE)
        assert lease.read() == entry
        lease.release()


def test_a_holder_that_wrote_while_another_one_queued_up_is_heard(
    ledgers: ZooKeeperLedgers,
) -> None:
    lease = ledgers.process().lease(KEY, PATIENCE)
    entry = lease.commit(lease.read(), 100, None)
    other = ledgers.process()
    got: list[Entry] = []
    waiting = threading.Thread(target=lambda: got.append(other.lease(KEY, PATIENCE).read()))
    waiting.start()
    eventually(lambda: len(ledgers.raw.get_children(ledgers.lock_path)) == 2, "queued up")
    lease.finish(lease.record(entry, INTENT), 200, None)
    waiting.join(PATIENCE)
    assert got == [Entry(200)]


def test_a_deleted_lock_node_fences_its_owner(ledgers: ZooKeeperLedgers) -> None:
    lease = ledgers.process().lease(KEY, PATIENCE)
    before = lease.commit(lease.read(), 100, None)
    for name in ledgers.raw.get_children(ledgers.lock_path):
        ledgers.raw.delete(f"{ledgers.lock_path}/{name}")
    with pytest.raises(LeaseLost):
        lease.record(before, INTENT)
    assert lease.read() == before


def test_a_lease_outlives_a_lost_connection_but_gives_no_right_meanwhile(
    ledgers: ZooKeeperLedgers,
) -> None:
    process = ledgers.process()
    lease = process.lease(KEY, PATIENCE)
    entry = lease.commit(lease.read(), 100, None)
    states: list[bool] = []
    client_of(process).add_listener(lambda _: states.append(lease.held()))
    cut(process)
    eventually(lambda: len(states) >= 2 and lease.held(), "reconnected")
    assert states[0] is False
    assert lease.record(entry, INTENT) == Entry(100, INTENT)


def test_a_lease_ends_with_its_session_and_another_can_be_taken(ledgers: ZooKeeperLedgers) -> None:
    process = ledgers.process()
    lease = process.lease(KEY, PATIENCE)
    entry = lease.commit(lease.read(), 100, None)
    ledgers.expire(process)
    eventually(lambda: not lease.held(), "noticed")
    eventually(process.healthy, "connected again")
    assert not lease.held()
    with pytest.raises(LeaseLost):
        lease.record(entry, INTENT)
    lease.release()
    again = process.lease(KEY, PATIENCE)
    assert again.record(again.read(), INTENT) == Entry(100, INTENT)


def test_a_lock_released_without_a_connection_is_free_soon_after_it_is_back(
    ledgers: ZooKeeperLedgers, sandbox: Sandbox
) -> None:
    process = ledgers.process()
    lease = process.lease(KEY, PATIENCE)
    server = sandbox.servers["zookeeper"]
    server.pause()
    try:
        client_of(process)._connection._socket.shutdown(2)
        eventually(lambda: not process.healthy(), "noticed")
        began = time.monotonic()
        lease.release()
        assert time.monotonic() - began < 20  # the server does not answer at all
    finally:
        server.resume()
    assert ledgers.process().lease(KEY, PATIENCE).held()


def record_for_ever(lease: Lease, entry: Entry) -> None:
    while True:
        entry = lease.record(entry, INTENT)


def test_a_server_that_does_not_answer_leaves_a_writes_outcome_unknown(
    ledgers: ZooKeeperLedgers, sandbox: Sandbox
) -> None:
    process = ledgers.process(session_timeout=4.0)
    lease = process.lease(KEY, PATIENCE)
    entry = lease.commit(lease.read(), 100, None)
    server = sandbox.servers["zookeeper"]
    server.pause()
    try:
        with pytest.raises(OutcomeUnknown):
            record_for_ever(lease, entry)  # a signal takes a moment to stop every thread
        with pytest.raises(Unavailable):
            process.read(KEY)
    finally:
        server.resume()
    settled = read_back(process)
    assert settled in (Entry(100), Entry(100, INTENT))


def test_a_commit_whose_answer_was_lost_is_found_when_read_back(
    ledgers: ZooKeeperLedgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = ledgers.process()
    lease = process.lease(KEY, PATIENCE)
    entry = lease.record(lease.read(), INTENT)
    client = client_of(process)
    read_response = client._connection._read_response

    def lose(*arguments: Any) -> Any:
        monkeypatch.setattr(client._connection, "_read_response", read_response)
        eventually(lambda: not ledgers.raw.exists(ledgers.intent_path), "committed")
        client._connection._socket.shutdown(2)
        return None

    monkeypatch.setattr(client._connection, "_read_response", lose)
    with pytest.raises(OutcomeUnknown):
        lease.commit(entry, 200, None)
    assert read_back(process) == Entry(200)


def test_a_last_commit_whose_answer_was_lost_leaves_no_lock(
    ledgers: ZooKeeperLedgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = ledgers.process()
    lease = process.lease(KEY, PATIENCE)
    entry = lease.record(lease.read(), INTENT)
    client = client_of(process)
    write = client._connection._write

    def lose(*_: Any) -> None:
        monkeypatch.setattr(client._connection, "_write", write)
        client._connection._socket.shutdown(2)  # before it is sent: nothing is written

    monkeypatch.setattr(client._connection, "_write", lose)
    with pytest.raises(OutcomeUnknown):
        lease.finish(entry, 200, None)
    lease.release()
    assert not lease.held()
    assert read_back(process) == Entry(100, INTENT)
    eventually(lambda: not ledgers.raw.get_children(ledgers.lock_path), "freed")


def read_back(process: ZooKeeperLedger) -> Entry:
    found: list[Entry] = []

    def read() -> bool:
        try:
            found.append(process.read(KEY))
        except Unavailable:
            return False
        return True

    eventually(read, "read back")
    return found[0]


def test_an_entry_is_read_as_it_stood_at_one_moment(
    ledgers: ZooKeeperLedgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = ledgers.process().lease(KEY, PATIENCE)
    entry = lease.record(lease.read(), INTENT)
    reader = ledgers.process()
    session = reader._session
    send = session._send

    def send_in_two(requests: list[bytes]) -> Any:
        monkeypatch.setattr(session, "_send", send)
        first = send(requests[:2])
        first.get(1, PATIENCE)
        done = lease.commit(entry, 200, None)
        lease.record(done, replace(INTENT, start=200, end=300))
        return TwoExchanges(first, 2, send(requests[2:]))

    monkeypatch.setattr(session, "_send", send_in_two)
    assert reader.read(KEY) == Entry(200, replace(INTENT, start=200, end=300))


class TwoExchanges:
    """The answers of two exchanges, ``count`` in the first, as if they were one."""

    def __init__(self, first: Exchange, count: int, second: Exchange) -> None:
        self._first, self._count, self._second = first, count, second

    def get(self, index: int, timeout: float) -> bytes:
        if index < self._count:
            return self._first.get(index, timeout)
        return self._second.get(index - self._count, timeout)


def test_the_trust_is_half_of_what_the_server_grants(ledgers: ZooKeeperLedgers) -> None:
    asked = 100_000.0
    process = ledgers.process(session_timeout=asked)
    assert 0 < process.lease(KEY, PATIENCE).trust < asked / 100


def test_every_node_of_a_user_is_closed_to_others(ledgers: ZooKeeperLedgers) -> None:
    mine = ledgers.process(username="secor", password="right", acl="creator")
    lease = mine.lease(KEY, PATIENCE)
    lease.commit(lease.record(lease.read(), INTENT), 200, "topic-id-1")
    paths = list(nodes(ledgers, client_of(mine)))
    assert ledgers.offset_path in paths
    for path in paths:
        acls, _ = client_of(mine).get_acls(path)
        assert {acl.id.scheme for acl in acls} == {"digest"}, path
    stranger = ledgers.process(username="secor", password="wrong")
    with pytest.raises(AccessDenied, match="check the username, the password"):
        stranger.read(KEY)
    with pytest.raises(AccessDenied):
        stranger.lease(KEY, 0.0)


def nodes(ledgers: ZooKeeperLedgers, client: Any) -> Iterator[str]:
    todo = [ledgers.root]
    while todo:
        path = todo.pop()
        yield path
        todo += [f"{path}/{name}" for name in client.get_children(path)]


def test_nodes_are_open_unless_asked_otherwise(ledgers: ZooKeeperLedgers) -> None:
    lease = ledgers.process().lease(KEY, PATIENCE)
    lease.commit(lease.read(), 100, None)
    assert ledgers.raw.get_acls(ledgers.offset_path)[0] == OPEN_ACL_UNSAFE


def test_a_chroot_stands_in_front_of_everything_and_is_made(ledgers: ZooKeeperLedgers) -> None:
    hosts, root = ledgers.address, ledgers.root
    ledgers.address = f"{hosts}{root}/chroot"
    lease = ledgers.process(root="/root").lease(KEY, PATIENCE)
    lease.commit(lease.read(), 100, None)
    path = f"{root}/chroot/root/consumers/backup/offsets/clicks/0"
    assert ledgers.raw.get(path)[0] == b"100"


def test_an_ensemble_that_is_not_there_is_told_in_one_line() -> None:
    port = free_port()
    with pytest.raises(Unavailable) as caught:
        ZooKeeperLedger(f"127.0.0.1:{port}", root="", group="g", connect_timeout=0.5)
    assert f"127.0.0.1:{port} did not answer in 0.5 s" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("hosts", "options", "fault"),
    [
        ("", {}, "bad hostname"),
        ("127.0.0.1:port", {}, "Port"),
        ("127.0.0.1", {"acl": "nobody"}, "must be open or creator"),
        ("127.0.0.1", {"acl": "creator"}, "needs a username"),
    ],
)
def test_what_cannot_work_is_refused_before_connecting(
    hosts: str, options: dict[str, str], fault: str
) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        ZooKeeperLedger(hosts, root="", group="g", connect_timeout=0.5, **options)  # type: ignore[arg-type]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """A server whose data may be lost: none that other tests have sessions with."""
    server = ZooKeeperServer(
        folder=tmp_path / "zookeeper", log=tmp_path / "log", port=free_port(), tick=500
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()


def commit_again(lease: Lease, first: int, last: int) -> None:
    entry = lease.read()
    for offset in range(first, last):
        entry = lease.commit(entry, offset, None)


def test_a_server_that_was_wiped_is_read_again_without_a_restart(
    own_server: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as opened:
        ledgers = ZooKeeperLedgers(own_server.address, opened)
        process = ledgers.process(session_timeout=1.0)
        lease = process.lease(KEY, PATIENCE)
        commit_again(lease, 100, 120)
        own_server.stop()
        shutil.rmtree(own_server.folder / "data")
        own_server.start()
        assert read_back(process) == Entry(None)
        assert not lease.held()
        again = process.lease(KEY, PATIENCE)
        again.commit(again.read(), 7, None)
        assert process.read(KEY) == Entry(7)
    assert "connections without an answer" in caplog.text


def test_a_server_that_was_restored_from_a_backup_tells_what_stood_in_it(
    own_server: ZooKeeperServer, tmp_path: Path
) -> None:
    with ExitStack() as opened:
        ledgers = ZooKeeperLedgers(own_server.address, opened)
        process = ledgers.process(session_timeout=1.0)
        lease = process.lease(KEY, PATIENCE)
        commit_again(lease, 100, 103)
        lease.release()  # its session may end while the server is out
        own_server.stop()
        shutil.copytree(own_server.folder / "data", tmp_path / "backup")
        own_server.start()
        assert read_back(process) == Entry(102)
        lease = process.lease(KEY, PATIENCE)
        commit_again(lease, 103, 150)
        own_server.stop()
        shutil.rmtree(own_server.folder / "data")
        shutil.copytree(tmp_path / "backup", own_server.folder / "data")
        own_server.start()
        assert read_back(process) == Entry(102)
        assert not lease.held()
        assert process.lease(KEY, PATIENCE).held()
