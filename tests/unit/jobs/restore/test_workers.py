"""The threads of a restore end before its connections are closed."""

from __future__ import annotations

import threading
import time

import pytest

from secor.jobs.restore.run import Workers


def test_what_is_in_work_ends_before_stop_returns() -> None:
    began, ended = threading.Event(), threading.Event()

    def work_once() -> bool:
        began.set()
        time.sleep(0.1)
        ended.set()
        return True

    workers = Workers(work_once, 2)
    assert began.wait(5)
    workers.stop(5.0)
    assert ended.is_set()
    ended.clear()
    time.sleep(0.2)
    assert not ended.is_set()
    assert not workers.crashed


def test_who_is_late_finds_closed_connections_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    began, closed = threading.Event(), threading.Event()

    def work_once() -> bool:
        began.set()
        closed.wait(5)
        raise RuntimeError("the connection is closed")

    workers = Workers(work_once, 1)
    assert began.wait(5)
    workers.stop(0.05)
    closed.set()
    workers.stop(5.0)
    assert len(workers.crashed) == 1
    assert not told


def test_what_escapes_while_they_run_is_kept_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)

    def work_once() -> bool:
        raise RuntimeError("a fault")

    workers = Workers(work_once, 1)
    for _ in range(100):
        if told:
            break
        time.sleep(0.01)
    assert len(workers.crashed) == len(told) == 1
