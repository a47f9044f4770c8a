"""The programs in Java and the jars for Spark, by the Maven coordinates of what they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from secor.java.pinned import artifact, ivy_module


@dataclass(frozen=True, slots=True)
class Bundle:
    """A program by its Maven coordinates and those of what it needs as well.

    That is ``organisation:name:version``, or ``organisation:name:version:classifier`` for
    another jar of that module, which comes without what it needs.
    """

    name: str
    coordinates: tuple[str, ...]
    roughly: str

    def ivy_module(self) -> str:
        """Return the ``ivy.xml`` that asks for it with all it needs at run time."""
        classifiers: dict[tuple[str, str, str], list[str]] = {}
        for coordinates in self.coordinates:
            organisation, name, version, *rest = coordinates.split(":")
            classifiers.setdefault((organisation, name, version), []).append("".join(rest))
        return ivy_module(
            self.name, "\n".join(_dependency(*key, of) for key, of in classifiers.items())
        )


def _dependency(organisation: str, name: str, version: str, classifiers: Sequence[str]) -> str:
    whole = "" in classifiers
    return (
        f'    <dependency org="{organisation}" name="{name}" rev="{version}"'
        f' conf="default->default,runtime,master" transitive="{str(whole).lower()}">'
        + "".join(artifact(name, classifier) for classifier in classifiers if classifiers != [""])
        + "</dependency>"
    )


KAFKA = Bundle(
    "kafka-4.3.1",
    ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36"),
    "45 MB",
)
S3PROXY = Bundle("s3proxy-4.1.0", ("org.gaul:s3proxy:4.1.0",), "59 MB")
SPARK_ICEBERG = Bundle(
    "spark-4.0-iceberg-1.11.0",
    (
        "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        "org.apache.iceberg:iceberg-aws-bundle:1.11.0",
        "org.xerial:sqlite-jdbc:3.46.1.3",
        "org.postgresql:postgresql:42.7.8",
    ),
    "127 MB",
)
"""What Spark needs for Iceberg tables in S3, with the drivers of SQL catalogs."""

SPARK_HUDI = Bundle(
    "spark-3.5-hudi-1.2.0",
    ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0", "org.apache.hadoop:hadoop-aws:3.3.4"),
    "363 MB",
)
"""What Spark 3.5 needs for Hudi tables in S3."""

ICEBERG_REST = Bundle(
    "iceberg-rest-1.11.0",
    (
        "org.apache.iceberg:iceberg-open-api:1.11.0:test-fixtures",
        "org.apache.iceberg:iceberg-core:1.11.0",
        "org.apache.iceberg:iceberg-core:1.11.0:tests",
        "org.apache.iceberg:iceberg-aws:1.11.0",
        "org.apache.iceberg:iceberg-aws-bundle:1.11.0",
        "org.xerial:sqlite-jdbc:3.46.1.3",
        "org.slf4j:slf4j-simple:2.0.17",
        "org.eclipse.jetty:jetty-server:12.1.5",
        "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.5",
        "org.eclipse.jetty.compression:jetty-compression-server:12.1.5",
        "org.eclipse.jetty.compression:jetty-compression-gzip:12.1.5",
    ),
    "100 MB",
)
"""Iceberg's own REST catalog server; it takes Hadoop's classes from PySpark."""

KAFKA_CONNECT = Bundle(
    "kafka-connect-4.3.1",
    (
        "org.apache.kafka:connect-runtime:4.3.1",
        "org.apache.kafka:connect-json:4.3.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
    "33 MB",
)
"""A worker of Kafka Connect, for comparisons with what real connectors write."""

DEBEZIUM_POSTGRESQL = Bundle(
    "debezium-postgresql-3.6.1",
    (
        "io.debezium:debezium-api:3.6.1.Final",
        "io.debezium:debezium-embedded:3.6.1.Final",
        "io.debezium:debezium-connector-postgres:3.6.1.Final",
    ),
    "38 MB",
)
"""Debezium's connector for PostgreSQL: a plug-in of Kafka Connect's worker."""

DEBEZIUM_MARIADB = Bundle(
    "debezium-mariadb-3.5.0",
    (
        "io.debezium:debezium-api:3.5.0.Final",
        "io.debezium:debezium-embedded:3.5.0.Final",
        "io.debezium:debezium-connector-mariadb:3.5.0.Final",
    ),
    "40 MB",
)
"""Debezium's connector for MariaDB: a plug-in as well."""

APICURIO_CONVERTER = Bundle(
    "apicurio-converter-2.6.13",
    ("io.apicurio:apicurio-registry-utils-converter:2.6.13.Final",),
    "26 MB",
)
"""Apicurio's converter of Kafka Connect, which writes Avro by a registry: a plug-in as well."""

ICEBERG_SINK = Bundle(
    "iceberg-sink-1.12.0",
    (
        "org.apache.iceberg:iceberg-kafka-connect:1.12.0",
        "org.apache.iceberg:iceberg-parquet:1.12.0",
        "org.apache.iceberg:iceberg-aws:1.12.0",
        "org.apache.iceberg:iceberg-aws-bundle:1.12.0",
    ),
    "100 MB",
)
"""The Apache Iceberg sink: a plug-in of Kafka Connect's worker; Hadoop's classes are PySpark's."""

BUNDLES = (
    KAFKA,
    S3PROXY,
    SPARK_ICEBERG,
    SPARK_HUDI,
    ICEBERG_REST,
    KAFKA_CONNECT,
    DEBEZIUM_POSTGRESQL,
    DEBEZIUM_MARIADB,
    APICURIO_CONVERTER,
    ICEBERG_SINK,
)
