"""Finish the bill of materials (CycloneDX) that ``scripts/release`` makes of an installed wheel.

``python tools/bill_of_materials.py BILL VERSIONS``: VERSIONS has lines such as ``lz4==4.4.5``.
It runs before anything is installed, so it needs the standard library only.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def normal(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked_versions(text: str) -> Mapping[str, str]:
    """Return the version of each package in the lines ``name==version ; where``."""
    pairs = (line.split()[0].split("==") for line in text.splitlines())
    return {normal(name): version for name, version in pairs}


def finish(bill: dict[str, Any], locked: Mapping[str, str]) -> None:
    """Take out where things were on this machine.

    Raises ``ValueError`` when Secor is not in the bill, or a version that is not locked is.
    """
    names = set()
    for component in bill["components"]:
        name, version = normal(component["name"]), component["version"]
        names.add(name)
        if name != "secor" and locked.get(name) != version:
            raise ValueError(f"{name} {version} is installed, and not what requirements.lock says")
        references = component.get("externalReferences", [])
        public = [each for each in references if not each["url"].startswith("file:")]
        component["externalReferences"] = public
    if "secor" not in names:
        raise ValueError("the bill does not name secor")


def main(bill_path: Path, versions_path: Path) -> None:
    """Finish a bill in its file.  Ends the process with a sentence when it is not right."""
    bill = json.loads(bill_path.read_text())
    try:
        finish(bill, locked_versions(versions_path.read_text()))
    except ValueError as error:
        sys.exit(str(error))
    bill_path.write_text(json.dumps(bill, indent=2) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
