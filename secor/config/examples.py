"""Examples of configurations, each with what it must set; ``config/*.toml`` are made of them.

A key without a comment of its own gets the first sentence of its description, once in a file.
With every key an example is what ``secor config example --full`` prints.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from secor.config.load import validate_as
from secor.config.model import Config
from secor.config.reference import SettingDescription, inline, plain, sections, settings
from secor.config.restore import RestoreConfig
from secor.config.values import Section

ABOUT_FULL = """\
# A line with "#" and a key shows a default; remove the "#" to change it.
# "none" means no value.  Sizes: bytes, or "64MiB", "10MB".  Durations: seconds, or "500ms",
# "5m", "1h30m".  Environment variables override this file: SECOR_STORE__S3__BUCKET sets
# store.s3.bucket.  Put passwords there.  In texts of this file "${NAME}" and
# "${NAME:-default}" are variables, too; "$${NAME}" is the text ${NAME} itself.
"""

_CHECK = """\
#
#   secor config check NAME.toml     reports all faults at once
#   secor config show NAME.toml      prints every value and where it came from
"""
_READ = """\
[kafka]
# Brokers to contact first.
bootstrap_servers = ["localhost:9092"]
# Topics by name.  Or, instead, all topics: topics_pattern = ".*" and topics_exclude = "_.*".
topics = ["clicks", "orders"]

[ledger.zookeeper]
# The ZooKeeper servers that keep committed offsets.  Without ZooKeeper: kind = "kafka" in [ledger],
# and nothing here.
hosts = ["127.0.0.1:2181"]
"""
_STORE = """\
[store.s3]
# The bucket; it must exist.  Credentials come from the environment, a profile or the machine's
# role.  Other stores: docs/stores.md.
bucket = "my-logs"
#endpoint_url = "http://minio:9000"
"""
_UPLOADS = """\
[policy]
#max_bytes = "128MiB"
#max_age = "10m"

[local]
#directory = "/var/lib/secor"
"""
_CATALOG = """\
[catalog]
properties = {type = "sql", uri = "sqlite:////var/lib/secor/catalog.db", warehouse = "s3://my-logs/warehouse"}
"""
_SPARK = """\
[commit]
# One commit for each table and cycle takes seconds, whatever its rows: do not ask too often.
interval = "5m"
# Spark writes these tables, so the daemons leave the commits to secor tables run.
coordinator = "alone"

[spark]
# Spark's own settings.  Without spark.master, this machine's cores; spark.driver.memory is Java's
# heap.  Secor sets the access to catalog and store.
settings = {"spark.driver.memory" = "2g", "spark.sql.shuffle.partitions" = "8"}
"""
_NEWEST = """\
# The newest message of an id is its row.  A message without a value deletes the row with the id
# in its Kafka key: as text, or as JSON such as {"id": 7}.
"""

EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "backup": f"""\
# The backup group: every message of the topics, verbatim, as objects in a bucket.
{_CHECK}
[group]
name = "secor_backup"
kind = "backup"

{_READ}
{_STORE}
[output]
# Where its objects are.  Give every group its own prefix.
prefix = "backup"

{_UPLOADS}""",
        "partition": f"""\
# The partition group: messages parsed and placed by time and fields, as objects in a bucket.
{_CHECK}
[group]
name = "secor_partition"
kind = "partition"

{_READ}
{_STORE}
[output]
# Where its objects are.  Give every group its own prefix.
prefix = "partition"
# "parquet", "orc", "avro" and "jsonlines" have the decoded fields.
format = "parquet"
# Columns in addition to the fields.  With "_offset" secor verify compares offsets.
metadata_columns = ["_partition", "_offset"]

[parser]
# How to read values (docs/parsing.md).
decoder = "json"
time_field = "timestamp"
# Directories below the topic's, such as "{{country}}/dt={{time:%Y-%m-%d}}/hr={{time:%H}}".
layout = "dt={{time:%Y-%m-%d}}"

{_UPLOADS}""",
        "table": f"""\
# The table group: messages become rows of Iceberg tables, each exactly once.
{_CHECK}
[group]
name = "secor_table"
kind = "table"

{_READ}
{_STORE}
[output]
# Where staged files and quarantine are.  Give every group its own prefix.
prefix = "table"

[parser]
# How to read values (docs/parsing.md).
decoder = "json"

{_CATALOG}
[rows]
# Columns with the origin of a row: with these secor verify compares offset by offset.
metadata_columns = ["_topic", "_kafka_partition", "_offset"]

[commit]
# How often new rows become visible.
#interval = "1m"

[[tables]]
# The table, as a name or a template: "logs.{{topic}}", "logs.{{fields.kind}}".
table = "logs.{{topic}}"
topics = ".*"
auto_create = true
evolve = true
# Rows that are changed: config/table-upsert.toml.  Hudi tables: config/table-hudi.toml.
#partition_by = ["day(ts)"]
""",
        "table-upsert": f"""\
# Rows that are changed: each message is the newest state of its key, and the table has one row
# for each key.  Spark merges them, in a process of its own.
#
#   secor run NAME.toml             as many processes as you like: they stage the changes
#   secor tables run NAME.toml      one or more: they merge; needs pip install '.[spark]'

[group]
name = "secor_upsert"
kind = "table"

[kafka]
bootstrap_servers = ["localhost:9092"]
topics = ["customers", "flights", "orders.public.orders"]

{_STORE}
[output]
# Changes wait for their merge in <prefix>/_changes.
prefix = "table_upsert"

{_CATALOG}
{_SPARK}
{_NEWEST}[[tables]]
table = "shop.customers"
topics = "customers"
mode = "upsert"
key = ["id"]
auto_create = true
evolve = true
# How a merge changes files: "copy-on-write" (the default: quick to read), or "merge-on-read".
properties = {{"write.merge.mode" = "merge-on-read"}}

# The same, but a field says which messages delete.
[[tables]]
table = "shop.flights"
topics = "flights"
mode = "upsert"
key = ["carrier", "number", "day"]
operation_field = "state"
deletes = ["cancelled"]
auto_create = true
evolve = true

# Debezium's envelopes: before, after and op (c, r and u put a row, d deletes it), with or
# without the schema around them.  Messages that carry the operation next to the columns have
# operation_field = "op", upserts = ["I", "U"], deletes = ["D"].
# A column that an update leaves out keeps the value of its row. If the connector has another
# unavailable.value.placeholder than Debezium's own, name it: unavailable_value = "…".
# Messages without a schema: declare the columns, with encodings = "debezium".
# keep_deletes = true marks deleted rows (__deleted) instead of removing them; truncate = "ignore"
# or "stop" says what becomes of a message that the source emptied its table.
[[tables]]
table = "shop.orders"
topics = 'orders\\.public\\.orders'
mode = "cdc"
key = ["order_id"]
auto_create = true
evolve = true
""",
        "table-hudi": f"""\
# Hudi tables: copy-on-write or merge-on-read, rows inserted or the newest state of each key.
#
#   secor run NAME.toml             as many processes as you like: they stage rows
#   secor tables run NAME.toml      one or more: they write the tables, by Spark 3.5, in an
#                                         environment of its own: scripts/hudi-environment

[group]
name = "secor_hudi"
kind = "table"

[kafka]
bootstrap_servers = ["localhost:9092"]
topics = ["customers", "flights", "clicks"]

{_STORE}
[output]
# Rows wait for their commit in <prefix>/_changes; the columns of each table are kept in
# <prefix>/_hudi.
prefix = "table_hudi"

{_SPARK}
[hudi]
warehouse = "s3://my-logs/hudi"

{_NEWEST}[[tables]]
table = "shop.customers"
topics = "customers"
format = "hudi"
mode = "upsert"
# The record key.
key = ["id"]
type = "merge-on-read"
auto_create = true
evolve = true
# Hudi's own settings, for every commit.  The number of buckets is the number of files for the
# rows of a partition (default: 8).  Set it before the table is created, so that a file stays
# below about 1 GB: it can never change.
properties = {{"hoodie.bucket.index.num.buckets" = "8", \
"hoodie.compact.inline.max.delta.commits" = "5"}}

# A late message must not undo a newer one: of each key the greatest updated_at wins, whatever
# the order in Kafka.  Messages with the state "cancelled" delete.
[[tables]]
table = "shop.flights"
topics = "flights"
format = "hudi"
mode = "upsert"
key = ["carrier", "number", "day"]
precombine = "updated_at"
operation_field = "state"
deletes = ["cancelled"]
auto_create = true
evolve = true
# The path of a row: columns, or year, month, day, hour of a column, or truncate(4, name).  Hudi
# looks for a row of mode "upsert" or "cdc" in its partition: these must be columns of the key.
partition_by = ["day"]

# Every message is a row (Hudi's operation insert).  Its record key is its position in Kafka: the
# columns _topic, _kafka_partition and _offset, which all tables of such a group get.
[[tables]]
table = "logs.clicks"
topics = "clicks"
format = "hudi"
mode = "append"
auto_create = true
evolve = true
partition_by = ["truncate(10, at)"]
location = "s3://my-logs/clicks"
""",
        "restore": f"""\
# A restore writes the archive of a group back into Kafka topics in transactions, each message once.
#
#   secor restore plan NAME.toml     what it would write, and what prevents it
#   secor restore run NAME.toml      one daemon of the job; start as many as you like
#   secor restore verify NAME.toml   compares the target with the archive

[group]
name = "clicks-2026-11"
kind = "restore"

[kafka]
# The target cluster: Kafka 3.6 or newer.
bootstrap_servers = ["localhost:9092"]

{_STORE}
[source]
# Prefix of the archive in the bucket: output.prefix of its group.
prefix = "backup"
topics = ["clicks"]

[target]
#topic = "restored-{{topic}}"
""",
    }
)
"""By the name of their file in ``config/``, without its suffix."""

_RULES: Mapping[str, str] = MappingProxyType(
    {
        "backup": 'output.format = "parquet"',
        "partition": 'output.format = "parquet"',
        "table": 'parser.decoder = "messagepack"',
    }
)
"""What a topic's rule may change, by the kind of its group."""

_SHOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "topics": ("[[topics]]", 'match = "audit-.*"', 'policy.max_age = "1h"'),
        "source.ranges": (
            *("[[source.ranges]]", 'topic = "clicks"'),
            *("partition = 0", "start = 1000", "end = 2000"),
        ),
    }
)
"""Arrays with tables that are shown as a comment."""


def full_example(name: str) -> str:
    """Return an example with every key of its group; those that it does not set are comments."""
    tree = tomllib.loads(EXAMPLES[name])
    kind = tree["group"]["kind"]
    root: type[Section] = RestoreConfig if kind == "restore" else Config
    configuration, faults = validate_as(root, tree)
    assert configuration is not None, faults
    head = EXAMPLES[name].replace("NAME.toml", f"{name}.toml").split("\n\n")[0]
    lines = [*head.splitlines(), "#", *ABOUT_FULL.splitlines()]
    section = ""
    for setting in settings():
        if kind not in setting.kinds or setting.variable is None or not setting.section:
            continue
        if setting.section != section:
            section = setting.section
            lines += ["", f"[{section}]"]
        lines += _full_key(setting, tree, configuration)
    for array in ("tables", "topics", "source.ranges"):
        lines += _array(array, kind, tree)
    return "\n".join(lines) + "\n"


def _full_key(
    setting: SettingDescription, tree: Mapping[str, Any], configuration: Section
) -> list[str]:
    *steps, name = setting.key.split(".")
    given: Any = tree
    value: Any = configuration
    for step in steps:
        given = given.get(step, {})
        value = getattr(value, step)
    lines = comment(setting.description)
    if name in given:
        return [*lines, f"{name} = {inline(given[name])}"]
    if setting.type == "array of tables":
        lines += [f"#   {name} = {inline(shown)}" for shown in setting.examples]
    return [*lines, f"#{name} = {setting.toml(plain(getattr(value, name)))}"]


def _array(array: str, kind: str, tree: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tables of an array, then its keys as comments."""
    keys = [item for item in settings() if item.section == array and kind in item.kinds]
    if not keys:
        return
    yield ""
    yield from comment(sections()[array])
    if array in _SHOWN:
        yield from ("#", *(f"# {line}" for line in _SHOWN[array]))
        yield from [f"# {_RULES[kind]}"] if array == "topics" else []
        return
    for table in tree.get(array, ()):
        yield f"[[{array}]]"
        yield from (f"{key} = {inline(value)}" for key, value in table.items())
        yield ""
    yield f"# [[{array}]] has these keys:"
    for setting in keys:
        yield "#"
        yield from comment(setting.description)
        name = setting.key.rpartition(".")[2]
        yield from (f"#   {name} = {setting.toml(value)}" for value in setting.examples)


def comment(text: str) -> list[str]:
    """Return a text as lines of a comment."""
    return [f"# {line}" for line in textwrap.wrap(text, 98, break_on_hyphens=False)]
