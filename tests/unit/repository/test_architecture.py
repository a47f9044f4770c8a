"""The arrows of DESIGN.md: who may import whom."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

ROOMS: dict[str, set[str]] = {
    "core": set(),
    "wire": {"core"},
    "arrow": {"core"},
    "schema": {"core", "arrow"},
    "formats": {"core", "arrow", "schema"},
    "parsing": {"core"},
    "batch": {"core"},
    "commit": {"core", "batch"},
    "consume": {"core", "batch", "commit"},
    "service": {"core", "consume", "tables", "restore"},
    "adapters": {"core", "wire", "tables", "verify"},
    "archive": {"core", "schema", "formats", "parsing", "batch", "consume"},
    "config": {"core", "parsing", "archive"},
    "plugins": {"core", "parsing"},
    "tables": {"core", "arrow", "schema", "formats", "parsing", "batch", "archive"},
    "restore": {"core", "wire", "archive"},
    "verify": {"core", "arrow", "formats", "parsing", "batch", "archive", "tables", "restore"},
    "java": {"core"},
    "spark": {"core", "arrow", "formats", "archive", "adapters", "tables", "verify", "java"},
    "sandbox": {"core", "java"},
    "wiring": {
        *("core", "formats", "parsing", "batch", "commit", "consume", "service", "adapters"),
        *("archive", "config", "tables", "restore", "verify", "wire", "arrow", "schema"),
    },
    "jobs": {
        *("core", "adapters", "archive", "config", "parsing", "restore", "service", "verify"),
        *("tables", "wire", "wiring"),
    },
    "cli": {
        *("core", "formats", "parsing", "batch", "service", "adapters", "archive", "config"),
        *("java", "spark", "sandbox", "tables", "wiring", "restore", "verify", "wire", "schema"),
        "jobs",
    },
    "__main__": {"cli"},
}
"""What a room may import besides itself.

Adapters are made by wiring; Spark's tasks make the store that an archive is read from, and
commands name the types of adapters that wiring gives them.
"""

WITHIN: dict[str, set[str]] = {
    "secor.core.model": set(),
    "secor.core.errors": set(),
    "secor.core.installing": {"secor.core.errors"},
    "secor.core.text": set(),
    "secor.core.retry": set(),
    "secor.core.clock": set(),
    "secor.core.variant_json": set(),
    "secor.core.naming": {"secor.core.model", "secor.core.errors"},
    "secor.core.ports": {"secor.core.model", "secor.core.errors"},
    "secor.core.transactions": {"secor.core.model"},
    "secor.core.observer": {"secor.core.model", "secor.core.errors"},
    "secor.batch.policy": set(),
    "secor.batch.plan": {"secor.batch.parse_trail", "secor.batch.policy"},
    "secor.batch.parse_trail": set(),
    "secor.batch.shared_file": set(),
    "secor.batch.local_file": {"secor.batch.shared_file"},
    "secor.batch.workspace": {
        "secor.batch.local_file",
        "secor.batch.parse_trail",
        "secor.batch.shared_file",
    },
    "secor.commit.reconcile": set(),
    "secor.commit.recovery": set(),
    "secor.commit.superseding": set(),
    "secor.commit.lease_proof": set(),
    "secor.commit.thread_pool": set(),
    "secor.consume.backpressure": set(),
    "secor.consume.ttl_cache": set(),
    "secor.consume.stored_object_guard": {"secor.consume.ttl_cache"},
    "secor.consume.watched_parser": set(),
    "secor.consume.poison_messages": {"secor.consume.ttl_cache", "secor.consume.watched_parser"},
    "secor.consume.positioning": {
        *("secor.consume.ttl_cache", "secor.consume.stored_object_guard"),
        "secor.consume.poison_messages",
    },
    "secor.archive.beginning": set(),
    "secor.archive.erasures": set(),
    "secor.archive.applied_erasures": {"secor.archive.erasures"},
    "secor.archive.objects": {"secor.archive.beginning"},
    "secor.archive.kept_schemas": set(),
    "secor.archive.derived_objects": set(),
    "secor.archive.quarantine": {"secor.archive.objects", "secor.archive.derived_objects"},
    "secor.archive.evidence": {"secor.archive.beginning"},
    "secor.archive.finalize": set(),
    "secor.archive.backfill": {
        *("secor.archive.objects", "secor.archive.derived_objects", "secor.archive.erasures"),
    },
    "secor.archive.repair": {
        *("secor.archive.objects", "secor.archive.quarantine"),
    },
}
"""What some parts of a room may import of the same room; those not listed may import all of it."""


def room_of(module: str) -> str:
    """``secor.core.model`` is in the room ``core``."""
    return module.split(".")[1]


def part_of(module: str) -> str:
    """``secor.verify.archive.report`` is of the part ``secor.verify.archive``."""
    return ".".join(module.split(".")[:3])


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / "secor").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@cache
def imports_of(path: Path) -> frozenset[str]:
    return frozenset(imports_in(ast.parse(path.read_text()), path))


def imports_in(tree: ast.AST, path: Path) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            module = node.module or ""
            found |= {
                f"{module}.{alias.name}" if module == "secor" else module for alias in node.names
            }
    return found


def own_imports(path: Path) -> set[str]:
    names = {name for name in imports_of(path) if name.split(".")[0] == "secor"}
    return {name for name in names if len(name.split(".")) > 1} - {"secor.__version__"}


@pytest.mark.parametrize(("module", "path"), list(modules()), ids=str)
def test_imports_point_one_way(module: str, path: Path) -> None:
    assert module == "secor" or room_of(module) in ROOMS, (
        "a room without a row in this test's table"
    )
    if module == "secor":
        return
    room, part = room_of(module), part_of(module)
    imported = own_imports(path)
    assert {room_of(name) for name in imported} - {room} <= ROOMS[room]
    if part in WITHIN:
        neighbours = {part_of(name) for name in imported if room_of(name) == room} - {part}
        assert neighbours <= WITHIN[part]


def test_the_table_has_no_circle_and_no_arrow_that_nothing_needs() -> None:
    order: list[str] = []
    while len(order) < len(ROOMS):
        ready = [room for room in ROOMS if room not in order and ROOMS[room] <= set(order)]
        assert ready, f"a circle among {set(ROOMS) - set(order)}"
        order += ready
    used: dict[str, set[str]] = {room: set() for room in ROOMS}
    for module, path in modules():
        if module != "secor":
            used[room_of(module)] |= {room_of(name) for name in own_imports(path)}
    for room, allowed in ROOMS.items():
        assert allowed <= used[room], f"{room} needs less than the table allows"


def imports_at_run_time(path: Path) -> Set[str]:
    """Return what is imported outside of ``if TYPE_CHECKING``."""
    text = path.read_text()
    if "TYPE_CHECKING" not in text:
        return imports_of(path)
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    return imports_in(tree, path)


def test_adapters_are_made_by_wiring_and_by_the_tasks_of_spark() -> None:
    makers = {
        module
        for module, path in modules()
        if module != "secor" and room_of(module) != "adapters"
        if any(name.startswith("secor.adapters") for name in imports_at_run_time(path))
    }
    others = {module for module in makers if room_of(module) not in ("wiring", "jobs")}
    assert others == {"secor.spark.archive_location"}


def test_jobs_take_no_more_of_adapters_than_what_a_cluster_has() -> None:
    values = {"secor.adapters.kafka.cluster_admin", "secor.adapters.kafka.topic_admin"}
    for module, path in modules():
        if module.startswith("secor.jobs"):
            names = {n for n in imports_at_run_time(path) if n.startswith("secor.adapters")}
            assert {
                n for n in names if n not in values and n.rpartition(".")[0] not in values
            } == set()


THIRD_PARTY = {
    "kafka": {"secor.adapters.kafka", "tools.demo", "tools.bench", "secor.sandbox"},
    "kazoo": {"secor.adapters.zookeeper", "secor.sandbox", "tools.bench"},
    "psycopg": {"secor.adapters.postgresql"},
    "pymysql": {"secor.adapters.mariadb"},
    "boto3": {"secor.adapters.glue", "secor.sandbox"},
    "botocore": {
        *("secor.adapters.s3", "secor.adapters.glue", "secor.adapters.duckdb_tables"),
        "secor.sandbox",
    },
    "prometheus_client": {
        *("secor.service.metrics", "secor.service.table_metrics"),
        *("secor.service.metrics_registry", "secor.service.monitoring.last_run"),
    },
    "obstore": {"secor.adapters.clouds"},
    "pyspark": {"secor.sandbox", "secor.spark"},
    "pyiceberg": {"secor.adapters.iceberg", "secor.adapters.hudi.definitions"},
}


@pytest.mark.parametrize(("package", "homes"), list(THIRD_PARTY.items()), ids=list(THIRD_PARTY))
def test_a_third_party_package_has_one_home(package: str, homes: set[str]) -> None:
    for module, path in modules():
        if package in {name.split(".")[0] for name in imports_of(path)}:
            assert any(module == home or module.startswith(home + ".") for home in homes), module


def test_the_daemon_imports_neither_spark_nor_the_sandbox() -> None:
    code = "import sys, secor.cli.run, secor.wiring.service; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(done.stdout.split())
    assert not {name for name in loaded if name.split(".")[0] in ("pyspark", "pandas")}
    assert not {name for name in loaded if name.startswith("secor.sandbox")}


def tracked_files() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "-z"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return [ROOT / name for name in done.stdout.split("\0") if name]


def test_no_file_names_a_place_of_one_machine() -> None:
    # Put together here so that this file does not find itself.
    places = re.compile("/" + r"(work/(main|shared)|root/\.\w+)")
    for path in tracked_files():
        if path.suffix in (".py", ".md", ".toml", ".service", ".yml", "") and path.is_file():
            text = path.read_text(errors="replace")
            found = [match[0] for match in places.finditer(text)]
            assert not found, f"{path.relative_to(ROOT)}: {found[:3]}"


DISTRIBUTIONS = {
    "google": "protobuf",
    "grpc_tools": "grpcio-tools",
    "kafka": "kafka-python",
    "confluent_kafka": "confluent-kafka",
    "prometheus_client": "prometheus-client",
    "yaml": "pyyaml",
    "py4j": "pyspark",
    "kubernetes_validate": "kubernetes-validate",
    "dockerfile_parse": "dockerfile-parse",
    "pydantic_core": "pydantic",
    "typing_extensions": "pydantic",
    "_pytest": "pytest",
    "xdist": "pytest-xdist",
    "mypy_boto3_s3": "boto3-stubs",
    "sqlalchemy": "pyiceberg",  # with its extra sql-sqlite
}


ON_DEMAND = {"quixstreams": "tools/bench/peer_programs/quix.py"}
"""Packages that are installed when they are wanted, and the one module that imports each."""


def test_every_package_that_is_imported_is_named_in_setup() -> None:
    setup = (ROOT / "setup.py").read_text()
    imported: dict[str, Path] = {}
    for folder in ("secor", "tools", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in imports_of(path):
                imported.setdefault(name.split(".")[0], path)
    ours = {"secor", "tools", "tests", "__future__", *sys.stdlib_module_names}
    for name, path in sorted(imported.items()):
        if name in ON_DEMAND:
            assert str(path.relative_to(ROOT)) == ON_DEMAND[name]
        elif name not in ours:
            distribution = DISTRIBUTIONS.get(name, name)
            named = re.search(rf'"{distribution}[\[\],a-z0-9-]*[=>"]', setup)
            assert named, f"{path.relative_to(ROOT)} imports {name}"
