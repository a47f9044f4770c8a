"""Giving back a part of a file's room on disk, which Python has no function for."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

# Of Linux's falloc.h.
_KEEP_SIZE, _PUNCH_HOLE = 1, 2


def punch_hole(descriptor: int, position: int, length: int) -> None:
    """Let so many bytes from ``position`` on take no room, and be read as zeros.

    Where the system or the file system cannot, they keep their room.
    """
    fallocate = _fallocate()
    if fallocate is not None:
        fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, position, length)


@cache
def _fallocate() -> Any:
    """Return the C library's function; None where there is none, as on macOS."""
    if os.uname().sysname != "Linux":
        return None
    library = ctypes.CDLL(None)
    # fallocate64 takes 64 bits on every machine; musl has the other name, with 64 bits.
    function = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return function
