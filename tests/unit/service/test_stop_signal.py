"""A signal ends the wait, whatever it interrupts."""

from __future__ import annotations

import subprocess
import sys

BEGIN = """
import os, signal, threading, time
from secor.service.systemd import StopSignal
"""
ONE = """
stopping = StopSignal()
assert not stopping.is_set() and not stopping.wait(0)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
print(stopping.wait(60), stopping.is_set(), stopping.wait(60))
"""
STORM = """
stopping = StopSignal()
if not os.fork():
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        os.kill(os.getppid(), signal.SIGTERM)
    os._exit(0)
while os.waitpid(-1, os.WNOHANG) == (0, 0):
    stopping = StopSignal()
    stopping.wait(0.001)
print("ended")
"""


def printed(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_a_signal_ends_the_wait() -> None:
    assert printed(ONE) == "True True True"


def test_signals_that_interrupt_the_wait_and_one_another_block_nothing() -> None:
    assert printed(STORM) == "ended"
