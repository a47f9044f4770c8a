"""Run a command under the system call filter of a service unit, as systemd would.

``python confined.py UNIT COMMAND ...``; needs libseccomp, which systemd itself needs.
"""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from pathlib import Path

PR_SET_NO_NEW_PRIVS = 38
PR_SET_MDWE = 65
"""Of Linux 6.3: no memory that is written and run, as MemoryDenyWriteExecute=."""

ALLOW = 0x7FFF0000
REFUSE = 0x00050000 | errno.EPERM


def members(group: str) -> set[str]:
    """Return the system calls of a group such as ``@system-service``."""
    said = subprocess.run(
        ["systemd-analyze", "--no-pager", "syscall-filter", group],
        capture_output=True,
        text=True,
        check=True,
    )
    found = set()
    for line in said.stdout.splitlines()[1:]:
        name = line.strip()
        if name.startswith("@"):
            found |= members(name)
        elif name and not name.startswith("#"):
            found.add(name)
    return found


def allowed(unit: str) -> set[str]:
    """Return what ``SystemCallFilter=`` lets through: groups only, the first one is a list."""
    found = members("@default")
    for line in unit.splitlines():
        key, _, value = line.partition("=")
        if key == "SystemCallFilter":
            named = set().union(*(members(group) for group in value.lstrip("~").split()))
            found = found - named if value.startswith("~") else found | named
    return found


def confine(unit: str) -> None:
    """Confine this process and what it becomes."""
    libc = ctypes.CDLL(None, use_errno=True)
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(REFUSE))
    for name in sorted(allowed(unit)):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # known to this libseccomp, on this architecture
            assert seccomp.seccomp_rule_add(context, ALLOW, number, 0) == 0, name
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    if "\nMemoryDenyWriteExecute=yes\n" in unit and libc.prctl(PR_SET_MDWE, 1, 0, 0, 0) != 0:
        assert ctypes.get_errno() == errno.EINVAL, "an older kernel does not know it"
    assert seccomp.seccomp_load(context) == 0


if __name__ == "__main__":
    confine(Path(sys.argv[1]).read_text())
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - becoming the command is the point
