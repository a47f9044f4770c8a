"""Write ``secor/java/jars.toml`` from the cache: ``python -m tools.pin_jars``.

After a version in ``secor/java/bundles.py`` was changed: remove the program's table from the
file, run ``python -m secor.sandbox.fetch`` (Ivy finds out what it needs), then this.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from secor.java.bundles import BUNDLES, Bundle
from secor.java.cache import cache_folder
from secor.java.pinned import TABLE, pinned_jars

HEAD = """\
# The jars of the sandbox's servers and of Spark: "organisation:name:version" = [bytes, SHA-256].
# Written by python -m tools.pin_jars, which says how.
"""


def main() -> None:
    """Keep the tables that are there; add one for each program that has none."""
    parts = [HEAD]
    for bundle in BUNDLES:
        rows = [
            _row((jar.organisation, jar.name, jar.version, jar.classifier), jar.size, jar.sha256)
            for jar in pinned_jars(bundle.name)
        ] or [_row_of(jar, bundle) for jar in (cache_folder() / "jars" / bundle.name).glob("*.jar")]
        parts.append(f'["{bundle.name}"]\n' + "\n".join(sorted(rows)) + "\n")
    TABLE.write_text("\n".join(parts))


def _row(coordinates: Sequence[str], size: int, sha256: str) -> str:
    return f'"{":".join(filter(None, coordinates))}" = [{size}, "{sha256}"]'


def _row_of(jar: Path, bundle: Bundle) -> str:
    """Return the line of a jar; Ivy's cache tells whose it is."""
    (cached,) = (cache_folder() / "ivy").glob(f"*/*/*s/{jar.name}")
    name, organisation = cached.parent.parent.name, cached.parent.parent.parent.name
    version, classifier = jar.stem.removeprefix(f"{name}-"), ""
    for coordinates in bundle.coordinates:
        parts = coordinates.split(":")
        if len(parts) == 4 and parts[1] == name and version == f"{parts[2]}-{parts[3]}":
            version, classifier = parts[2:]
    content = jar.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    return _row((organisation, name, version, classifier), len(content), sha256)


if __name__ == "__main__":
    main()
