"""``secor evidence``: proves later that an archive is what was verified, without Kafka."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from secor.archive.evidence.checking import Change, Check, CheckJournal, ObjectChange
from secor.archive.evidence.record import Evidence, read_evidence
from secor.archive.evidence.signature import (
    is_signature,
    make_keys,
    read_public_key,
    signature_path,
)
from secor.cli.archive.evidence_page import page
from secor.cli.exit_codes import Exit
from secor.cli.topic_type import json_option, print_json
from secor.cli.verify.evidence import reading_progress
from secor.config.load import load
from secor.config.stores import Store
from secor.core.errors import ConfigurationError, CorruptFile
from secor.core.text import how_many

LINES = 20
"""Changed objects printed; --json has all."""

FILE = click.Path(path_type=Path, dir_okay=False)


@click.group(epilog="Example: secor evidence check evidence.json --public-key evidence.pub")
def command() -> None:
    """Check evidence that 'secor verify --evidence' has written, and show it as a page."""


@command.command("check", epilog="Example: secor evidence check evidence.json")
@click.argument("file", type=FILE)
@click.option(
    "--public-key",
    type=FILE,
    metavar="KEYFILE",
    help="Demand a signature, in FILE.sig, of this Ed25519 key.",
)
@click.option(
    "--config",
    type=FILE,
    metavar="CONFIG",
    help="A configuration whose [store] to read.  Default: the store that the evidence names, with"
    " the environment's credentials.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIRECTORY",
    help="Read a copy of the bucket in this directory.",
)
@click.option(
    "--allow-expired",
    is_flag=True,
    help="Objects that are gone below the agreed beginning of the archive are no finding.",
)
@click.option(
    "--allow-rewritten",
    is_flag=True,
    help="Objects that were rewritten are no finding, if all that took their place is as recorded.",
)
@click.option("--restart", is_flag=True, help="Do not go on with an interrupted check.")
@json_option
def check_command(
    file: Path,
    public_key: Path | None,
    config: Path | None,
    directory: Path | None,
    allow_expired: bool,
    allow_rewritten: bool,
    restart: bool,
    as_json: bool,
) -> int:
    """Read every object of the evidence, and say which are not what they were.

    It needs no Kafka and no ledger.  First it checks the signature and the hash trees of FILE
    itself.  An interrupted check goes on where it was, by FILE.check.  Exit code 0 when every
    object has the bytes of the evidence and none was added, else 5.
    """
    from secor.wiring.clients import reach_store

    evidence, data = read_evidence(file)
    signed = _check_signature(file, data, public_key)
    store = reach_store(_store(evidence, file, config, directory), connections=16)
    journal_path = file.with_name(file.name + ".check")
    if restart:
        journal_path.unlink(missing_ok=True)
    try:
        journal = CheckJournal(journal_path, evidence.root)
    except OSError as error:
        raise ConfigurationError(f"{journal_path}: cannot be written ({error.strerror})") from error
    check = Check(evidence, store, journal)
    size = sum(partition.size for partition in evidence.partitions)
    try:
        with reading_progress("checking", size) as check.progress:
            findings = list(check.run())
    except BaseException:
        journal.close()
        raise
    journal.finish()
    _print(check, findings, signed, as_json=as_json)
    allowed = {Change.EXPIRED} if allow_expired else set()
    allowed |= {Change.REWRITTEN} if allow_rewritten else set()
    return Exit.OK if all(finding.change in allowed for finding in findings) else Exit.DIFFERENT


def _check_signature(file: Path, data: bytes, public_key: Path | None) -> str:
    """Return a sentence about the signature.  Raises ``CorruptFile`` unless it is the key's."""
    signature = None
    with suppress(FileNotFoundError):
        signature = signature_path(file).read_bytes()
    if public_key is None:
        if signature is None:
            return "not signed"
        return "signed; the signature was not checked (--public-key)"
    key = read_public_key(public_key)
    if signature is None:
        raise CorruptFile(f"{file}: is not signed: there is no {signature_path(file)}")
    if not is_signature(key, signature, data):
        raise CorruptFile(
            f"{signature_path(file)}: is no signature of {file} by {public_key}: the file was"
            " changed, or another key signed it"
        )
    return f"signed by {public_key}"


def _store(evidence: Evidence, file: Path, config: Path | None, directory: Path | None) -> Store:
    if config is not None and directory is not None:
        raise click.UsageError("--config and --directory: give one of them")
    if config is not None:
        return load(config, os.environ).store
    address: dict[str, Any] = dict(evidence.store)
    if directory is not None:
        address = {"kind": "local", "local": {"directory": directory}}
    try:
        return Store.model_validate(address)
    except ValidationError as error:
        raise ConfigurationError(
            f"{file}: names a store that this version does not know: give --config CONFIG"
        ) from error


def _print(check: Check, findings: list[ObjectChange], signed: str, *, as_json: bool) -> None:
    evidence, counts = check.evidence, Counter(finding.change for finding in findings)
    changed = [f"{counts[change]:,} {change}" for change in Change if counts[change]]
    objects = how_many(check.same, "object")
    whole = sum(len(partition.objects) for partition in evidence.partitions)
    summary = f"{objects} of {whole:,} as on {evidence.making.at}: " + (
        ", ".join(changed) or "nothing tampered, replaced, missing or added"
    )
    if as_json:
        document = {
            "summary": summary,
            "signature": signed,
            "root": evidence.root,
            "same": check.same,
            "later": check.later,
            "read_before": check.read_before,
            "counts": {change.value: counts[change] for change in Change},
            "findings": [
                {
                    "change": finding.change.value,
                    "topic": finding.topic_partition.topic,
                    "partition": finding.topic_partition.partition,
                    "key": finding.key,
                    "text": finding.text,
                }
                for finding in findings
            ],
        }
        print_json(document)
        return
    for finding in findings[:LINES]:
        click.echo(f"{finding.topic_partition}: {finding}")
    if len(findings) > LINES:
        click.echo(f"… {len(findings) - LINES:,} more (--json shows all)")
    if check.read_before:
        click.echo(
            f"{how_many(check.read_before, 'object was', 'objects were')} read by the check"
            " that was interrupted (--restart reads all)"
        )
    if check.later:
        click.echo(f"{how_many(check.later, 'object')} behind the range of the evidence")
    click.echo(f"{signed}; root {evidence.root}")
    click.echo(summary)


@command.command("keygen", epilog="Example: secor evidence keygen evidence.key")
@click.argument("keyfile", type=FILE)
def keygen_command(keyfile: Path) -> None:
    """Make an Ed25519 key for signatures: KEYFILE, and KEYFILE.pub for those who check.

    Keep KEYFILE where nobody who can write the archive can read it.
    """
    public = keyfile.with_name(keyfile.name + ".pub")
    make_keys(keyfile, public)
    click.echo(f"{keyfile} signs (keep it secret), {public} checks")


@command.command("page", epilog="Example: secor evidence page evidence.json -o evidence.html")
@click.argument("file", type=FILE)
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="HTML",
    help="Write the page to this file.  Default: standard output.",
)
def page_command(file: Path, output: Path | None) -> None:
    """Show evidence as one HTML page that can be printed.  It reads FILE alone."""
    evidence, data = read_evidence(file)
    signature = None
    with suppress(FileNotFoundError):
        signature = signature_path(file).read_bytes()
    text = page(evidence, data, signature)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise ConfigurationError(f"{output}: cannot be written ({error.strerror})") from error
