"""``secor version``: what a bug report needs."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version

import click

from secor import __version__

LIBRARIES = ("kafka-python", "pyarrow", "boto3", "kazoo", "obstore", "pyiceberg", "pyspark")


@click.command(epilog="Example: secor version --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Print the versions of Secor, Python, the machine and the libraries that matter most.

    Optional libraries that are not installed are left out.  The decoder of record batches is the
    compiled extension, or numpy and why.
    """
    from secor.wire import DECODER

    versions = {"secor": __version__, "python": platform.python_version()}
    versions["machine"] = platform.platform()
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    versions["decoder"] = DECODER
    if as_json:
        click.echo(json.dumps(versions, indent=2))
        return
    for name, number in versions.items():
        click.echo(f"{name} {number}")
