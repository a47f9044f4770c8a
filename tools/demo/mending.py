"""A wrong parser, seen in what is stored, and the backfill that puts it right."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from secor.config.load import load
from secor.core.errors import SecorError
from secor.java.runtime import spark_java_home
from secor.sandbox import S3Access
from tools.demo import flights
from tools.demo.backup import surroundings
from tools.demo.partition import bucket_of
from tools.demo.screen import Screen

PLAN = "plan.json"
FILES = frozenset({PLAN, "java"})

ZONE = 'time_zone = "America/New_York"\n'
"""What the parser lacked: without it, days are those of UTC."""

_SHOWN = 3
_FROM, _TO = "2013-01-01T00:00Z", "2014-01-02T00:00Z"

Months = Mapping[str, int]
"""Flights by month, as ``2013-01``."""


def months_stored(access: S3Access, prefix: str) -> Months:
    """Return how many flights stand under each month in the bucket."""
    from pyarrow import dataset

    table = dataset.dataset(
        f"{access.bucket}/{prefix}/{flights.TOPIC}",
        filesystem=bucket_of(access),
        partitioning="hive",
    ).to_table(columns=["dt"])
    counts = table.group_by("dt").aggregate([([], "count_all")])
    return {row["dt"]: row["count_all"] for row in counts.to_pylist()}


def months_of_source() -> Months:
    """Return how many flights left in each month, by the table that the messages were made of."""
    counts = flights.table("flights").groupby(["year", "month"]).size()
    return {f"{year}-{month:02}": int(count) for (year, month), count in counts.items()}


def wrong_months(stored: Months, left: Months) -> list[str]:
    """Return the months of which the numbers differ, in order."""
    months = sorted({*stored, *left})
    return [month for month in months if stored.get(month, 0) != left.get(month, 0)]


def mend(configuration: Path) -> None:
    """Set the time zone in a configuration of ours."""
    text = configuration.read_text()
    configuration.write_text(text.replace("[parser]\n", f"[parser]\n{ZONE}"))


class Mending:
    """The wrong months of the Parquet files, their backfill, and the same question again."""

    def __init__(self, screen: Screen, backup: Path, partition: Path, access: S3Access) -> None:
        self._screen = screen
        self._backup = backup
        self._partition = partition
        self._access = access
        self._left = months_of_source()

    def show_wrong(self) -> None:
        """Ask for the flights of each month.  Raises ``SecorError`` when nothing is wrong."""
        wrong = self._asked()
        if not wrong:
            raise SecorError("the months are right already: there is nothing to tell")
        self._screen.say(
            f"{len(wrong)} months are wrong: the parser has no time zone, so its days are"
        )
        self._screen.say(
            "UTC's: New York's evenings are in the next day, at a month's end in the next month"
        )

    def backfill(self) -> None:
        """Mend the parser, parse the backup again, and put the new objects in place."""
        mend(self._partition)
        self._screen.say(f"{self._partition}: {ZONE.strip()}")
        folder = self._partition.parent
        backup, partition, plan = str(self._backup), str(self._partition), str(folder / PLAN)
        environment = spark_environment(folder)
        spark = ["--master", "local[2]", "--local-directory", str(folder / "local")]
        times = ["--from-time", _FROM, "--to-time", _TO]
        self._do("plan", backup, partition, flights.TOPIC, *times, "-o", plan)
        self._do("run", backup, partition, plan, *spark, environment=environment)
        self._do("verify", backup, partition, plan, *spark, environment=environment)
        self._do("publish", partition, plan)

    def show_right(self) -> None:
        """Ask again.  Raises ``SecorError`` when a month is wrong."""
        wrong = self._asked()
        if wrong:
            raise SecorError(f"{len(wrong)} months are wrong after the backfill, as {wrong[0]}")
        self._screen.say(f"all {len(self._left)} months: the same answer from both")
        self._screen.command("verify", str(self._partition))

    def _do(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._screen.command("backfill", *arguments, environment=environment)

    def _asked(self) -> list[str]:
        stored = months_stored(self._access, load(self._partition, {}).output.prefix)
        months = sorted({*stored, *self._left})
        self._screen.say("month      stored      left")
        for month in [*months[:_SHOWN], months[-1]]:
            answer = stored.get(month, 0), self._left.get(month, 0)
            self._screen.say(f"{month}  {answer[0]:8,}  {answer[1]:8,}")
        return wrong_months(stored, self._left)


def spark_environment(folder: Path) -> Mapping[str, str]:
    """Return the environment in which ``secor backfill`` finds this Python and a Java."""
    place = folder.resolve()
    return {
        **surroundings(),
        "JAVA_HOME": str(spark_java_home(place)),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(place / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
