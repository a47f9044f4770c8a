"""``python -m tests.conformance``: the meaning of messages, compared with what tables hold."""

from __future__ import annotations

import logging
import random
import shutil
import signal
import sys
import tempfile
import time
from difflib import unified_diff
from pathlib import Path

import click

from secor.core.errors import SecorError
from tests.conformance.cdc import run
from tests.conformance.databases import DATABASES
from tests.conformance.group import TABLES, Options
from tests.conformance.message_page import PAGE, page, without_reason
from tests.conformance.messages import run as run_messages
from tests.conformance.mixed_json import MESSAGES, Numbers
from tests.conformance.mixed_rows import store_corpus
from tests.conformance.takeover import run as run_takeovers

_DIFFERENT = 1


@click.group()
def main() -> None:
    """Compare tables with what the programs that wrote the messages mean."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_DIFFERENT))  # and clean up
    logging.disable()  # what clients say of servers that come and go is no news


@main.command(epilog="Example: scripts/conformance cdc --minutes 10 --table iceberg-mor --seed 7")
@click.option("--minutes", type=float, default=1.0, show_default=True, help="Time of changes.")
@click.option(
    "--changes",
    type=click.IntRange(min=1),
    help="Transactions, instead of --minutes: with --seed the very same changes again.",
)
@click.option("--rate", type=float, default=40.0, show_default=True, help="Transactions a second.")
@click.option("--seed", type=int, help="The same changes, in their order, as in an earlier run.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "json-schemas", "avro"]),
    default="json-schemas",
    show_default=True,
    help="How Kafka Connect writes messages: JSON alone, or with the converter's schemas; Avro by"
    " Apicurio's registry.",
)
@click.option(
    "--table",
    type=click.Choice([*TABLES, "all"]),
    default="iceberg-cow",
    show_default=True,
    help="The kind of the tables; all: three groups store the same changes.",
)
@click.option(
    "--database",
    type=click.Choice(list(DATABASES)),
    default="postgresql",
    show_default=True,
    help="MariaDB needs Debian's packages mariadb-server-core and mariadb-client-core.",
)
@click.option("--broad", is_flag=True, help="One more table, of 1,600 columns: PostgreSQL.")
@click.option("--kill", is_flag=True, help="Kill connector, daemon and committer, each once.")
@click.option("--keep", is_flag=True, help="Keep logs and data, also when all is well.")
def cdc(  # one parameter an option
    minutes: float,
    changes: int | None,
    rate: float,
    seed: int | None,
    form: str,
    table: str,
    database: str,
    broad: bool,
    kill: bool,
    keep: bool,
) -> None:
    """Change rows in a real database, and compare the tables with it by row, column and type.

    Debezium's connector reads the changes; a table group in mode cdc stores them.  It takes
    about 75 s more than the changes on an idle machine, and minutes on a busy one.  Exit code 0
    when every table is equal to its source and nothing is stopped or in quarantine; else 1, and
    logs, messages and data are kept.
    """
    if broad and database != "postgresql":
        raise click.UsageError("--broad: MariaDB has no tables of so many columns")
    seed = random.randrange(1 << 32) if seed is None else seed
    folder = Path(tempfile.mkdtemp(prefix="secor-conformance-"))
    began = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"{time.monotonic() - began:6.1f} s  {text}")

    options = Options(minutes * 60, seed, form, table, rate, kill, database, broad, changes)
    say(f"changes {options.length}, {database}, {form}, {table}, --seed {seed}, in {folder}")
    try:
        outcomes = run(folder, options, say)
    except SecorError as error:
        say(f"ended: {error}")
        click.echo(f"logs and data are in {folder}")
        sys.exit(_DIFFERENT)
    for outcome in outcomes:
        for line in outcome.lines():
            click.echo(line)
    equal = all(outcome.equal for outcome in outcomes)
    say(f"{'all tables are equal to their sources' if equal else 'tables differ'}, --seed {seed}")
    if equal and not keep:
        shutil.rmtree(folder)
    else:
        click.echo(f"logs and data are in {folder}")
    sys.exit(0 if equal else _DIFFERENT)


@main.command(epilog="Example: scripts/conformance mixed --seed 7")
@click.option("--messages", type=int, default=MESSAGES, show_default=True, help="How many.")
@click.option("--seed", type=int, help="The same messages as in an earlier run.")
@click.option(
    "--numbers",
    type=click.Choice(["as seen", "decimal"]),
    default="decimal",
    show_default=True,
    help="The setting rows.numbers.",
)
def mixed(messages: int, seed: int | None, numbers: Numbers) -> None:
    """Store a topic of mixed JSON, forty shapes of fields, in a table without a schema.

    Each message has to be a row with the same values, unless no column can hold it
    (docs/tables.md, Rows).  It takes half a minute.
    """
    seed = random.randrange(1 << 32) if seed is None else seed
    click.echo(f"{messages:,} messages, --seed {seed}, numbers = {numbers!r}")
    with tempfile.TemporaryDirectory(prefix="secor-conformance-") as folder:
        outcome = store_corpus(Path(folder) / "group", seed, messages, numbers)
    for message in outcome.lost:
        click.echo(f"in quarantine: {message.shape}: {message.value.decode(errors='replace')}")
    for line in outcome.different:
        click.echo(f"different: {line}")
    quarantined = ", ".join(f"{count:,} {stage}" for stage, count in outcome.reasons.items())
    click.echo(f"{outcome.rows:,} rows; in quarantine: {quarantined or 'none'}")
    sys.exit(0 if outcome.is_right else _DIFFERENT)


@main.command(epilog="Example: scripts/conformance messages --write")
@click.option(
    "--only", default="", help="Cases whose names have this text; the page is not compared."
)
@click.option("--write", is_flag=True, help="Write the page, instead of comparing it.")
@click.option("--keep", is_flag=True, help="Keep logs and data, also when all is well.")
def messages(only: str, write: bool, keep: bool) -> None:
    """Store a corpus of messages by the Apache Iceberg sink and by a table group, and compare.

    docs/conformance-messages.md lists each difference with its reason.  Exit code 0 when every
    difference has one and the page is as it was; else 1.  It takes some three minutes on an idle
    machine.
    """
    folder = Path(tempfile.mkdtemp(prefix="secor-conformance-"))
    began = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"{time.monotonic() - began:6.1f} s  {text}")

    try:
        found = run_messages(folder, say, only)
    except SecorError as error:
        say(f"ended: {error}")
        click.echo(f"logs and data are in {folder}")
        sys.exit(_DIFFERENT)
    unexplained = without_reason(found)
    for it in found if only else unexplained:
        click.echo(f"{it.case.name} ({it.case.table})\n  sink:  {it.sink}\n  secor: {it.ours}")
    changed = False
    if write and not only:
        PAGE.write_text(page(found))
    elif not only:
        lines = unified_diff(
            PAGE.read_text().splitlines(), page(found).splitlines(), lineterm="", n=0
        )
        for line in lines:
            changed = True
            click.echo(line)
    say(f"{len(found)} differences, {len(unexplained)} without a reason")
    right = not unexplained and not changed
    if right and not keep:
        shutil.rmtree(folder)
    else:
        click.echo(f"logs and data are in {folder}")
    sys.exit(0 if right else _DIFFERENT)


@main.command(epilog="Example: scripts/conformance takeover --connector confluent-s3/lib")
@click.option(
    "--connector",
    "plugin",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="The folder with the jars of Confluent's or Aiven's S3 sink: no package has them.",
)
@click.option("--only", default="", help="Cases whose names have this text.")
@click.option("--keep", is_flag=True, help="Keep logs and data, also when all is well.")
def takeover(plugin: Path, only: str, keep: bool) -> None:
    """Let a connector store a topic, go on with Secor under its names, then with it again.

    Each message has to be there once, with the same values and types whoever stored it, for
    readers that are not Secor's; `secor verify` has to find nothing.  It takes some 25 s a case of
    Confluent's, and 90 s of Aiven's, which commits once a minute.
    """
    folder = Path(tempfile.mkdtemp(prefix="secor-conformance-"))
    began = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"{time.monotonic() - began:6.1f} s  {text}")

    try:
        outcomes = run_takeovers(folder, plugin, only, say)
    except SecorError as error:
        raise click.ClickException(f"{error}; logs are in {folder}") from error
    right = all(not outcome.faults for outcome in outcomes)
    say(f"{len(outcomes)} takeovers, {'all' if right else 'not all'} are right")
    if right and not keep:
        shutil.rmtree(folder)
    else:
        click.echo(f"logs and data are in {folder}")
    sys.exit(0 if right else _DIFFERENT)


if __name__ == "__main__":
    main()
