"""Starts Spark for tables, in this process or under spark-submit."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from secor.java.bundles import Bundle
from secor.java.cache import Progress
from secor.java.jars import jar_folder
from secor.java.runtime import spark_java_home
from secor.spark.jvm import on_loopback
from secor.spark.startup import get_or_start, require_class, require_jars
from secor.spark.versions import require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST = {"spark.sql.session.timeZone": "UTC"}
"""Settings on which rows depend: nobody may override them."""

REMEMBERED = {
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "10",
}
"""What Spark keeps of past queries: by default 1,000, also without its web pages, so that memory
grows for days.
"""

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
CLASS_PATH = "spark.driver.extraClassPath"
LOGGING_OPTION = "-Dlog4j2.configurationFile"

_LOGGING = """
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
"""


def under_spark_submit() -> bool:
    """Return whether spark-submit started this process: the application is its own, then."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def start_spark(
    name: str,
    settings: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    bundle: Bundle,
    log: Path,
    progress: Progress,
    needs: str,
    timeout: float,
) -> SparkSession:
    """Start the application ``name``, or take the one of spark-submit.

    ``settings`` are Spark's; ``environment`` is for its process.  The jars of ``bundle`` are
    fetched, which ``progress`` hears of, and a Java is found, where settings and environment
    name none.  Spark logs to the file ``log``.  It must have the class ``needs``, and may take
    ``timeout`` seconds to start.  Raises ``ConfigurationError``, ``Unavailable``.
    """
    require_pyspark(name)
    require_jars(settings)
    from pyspark.sql import SparkSession

    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # 200 by default, for clusters: a merge of some thousand rows would be mostly empty tasks.
        "spark.sql.shuffle.partitions": "8",
        **REMEMBERED,
        **settings,
        # Last, so that nothing the user sets comes after them: times of rows depend on it.
        **LEAST,
    }
    builder = SparkSession.builder.appName(name)
    if not under_spark_submit():
        # Else Spark's workers are the first python3 on the PATH, which may not have this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # Before the JVM starts, which inherits it: Iceberg's Java library takes some credentials
        # from nowhere else.
        os.environ.update(environment)
        if "JAVA_HOME" not in os.environ:
            os.environ["JAVA_HOME"] = str(spark_java_home(log.parent))
        if not any(key.startswith("spark.jars") for key in settings):
            jars = jar_folder(bundle, progress).glob("*.jar")
            chosen["spark.jars"] = ",".join(sorted(map(str, jars)))
        on_loopback(chosen.setdefault("spark.master", "local[*]"), chosen)
        put_next_to_parquet(chosen)
        chosen[JAVA_OPTIONS] = java_options(chosen.get(JAVA_OPTIONS, ""), log)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    spark = get_or_start(builder, timeout, log)
    require_class(spark, needs)
    return spark


def put_next_to_parquet(settings: dict[str, str]) -> None:
    """Put Hudi's bundle, where ``spark.jars`` names it, on the class path of the JVM itself.

    Hudi has classes in Parquet's packages that call what is private to those packages.  Java
    allows that only to classes of one loader, and the jars of ``spark.jars`` have a loader of
    their own: a commit that reads a file with local times inside lists or structs would fail
    with ``IllegalAccessError``.  A class path that is set stays behind it.
    """
    jars = (jar.strip().removeprefix("file:") for jar in settings.get("spark.jars", "").split(","))
    bundles = [jar for jar in jars if fnmatch(jar, "/*/hudi-*bundle*.jar")]
    if bundles:
        # In front of Spark's own jars; of the folder's other jars some are older than those.
        given = [path for path in [settings.get(CLASS_PATH)] if path]
        settings[CLASS_PATH] = os.pathsep.join([*bundles, *given])


def java_options(given: str, log: Path) -> str:
    """Return the driver's Java options: those ``given``, and Secor's logging to the file ``log``.

    Errors name that file.  Options that choose a logging configuration themselves keep it.
    """
    if LOGGING_OPTION in given:
        return given
    return f"{given} {_logging_option(log)}".strip()


def _logging_option(log: Path) -> str:
    """Write Spark's logging configuration; return the Java option that names it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    configuration = log.with_suffix(".log4j2.properties")
    configuration.write_text(_LOGGING.format(log=log))
    return f"{LOGGING_OPTION}={configuration}"
